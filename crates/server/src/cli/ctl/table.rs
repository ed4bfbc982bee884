//! Text tables for a terminal: columns as wide as their content, with control characters escaped.

use hivemind_tls::escape::escape_line;
use serde_json::Value;

/// The maximum width of a cell.
const WIDEST: usize = 60;

/// A table with headings. Columns whose heading ends in `#` contain numbers, and are aligned right.
pub(super) struct TextTable {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    pub(super) fn new(headings: &[&'static str]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Removes columns that are empty in all rows.
    pub(super) fn without_empty(mut self) -> Self {
        let has =
            |column: usize| self.rows.iter().any(|row| row.get(column).is_some_and(|cell| !cell.is_empty()));
        let kept: Vec<bool> = (0..self.headings.len()).map(has).collect();
        let mut keep = kept.iter();
        self.headings.retain(|_| keep.next().copied().unwrap_or_default());
        for row in &mut self.rows {
            let mut keep = kept.iter();
            row.retain(|_| keep.next().copied().unwrap_or_default());
        }
        self
    }

    pub(super) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.map(|cell| escape_line(&cell, WIDEST)).into());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Renders the table; without rows, the given text.
    pub(super) fn or(self, nothing: &str) -> String {
        if self.rows.is_empty() {
            return format!("{nothing}\n");
        }
        let head: Vec<String> =
            self.headings.iter().map(|heading| heading.trim_end_matches('#').to_owned()).collect();
        let width = |column: usize| {
            let cells = self.rows.iter().chain([&head]).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.headings.len()).map(width).collect();
        let mut text = String::new();
        for row in [&head].into_iter().chain(&self.rows) {
            let cells = row.iter().zip(&self.headings).zip(&widths).map(|((cell, heading), width)| {
                if heading.ends_with('#') { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
        text
    }
}

/// A member as text: strings without quotes; empty if it is missing.
pub(super) fn text(of: &Value, name: &str) -> String {
    of.get(name).map(plain).unwrap_or_default()
}

pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The items of a list.
pub(super) fn each<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    of.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// The entries of a descriptor: `key=value key=value`.
pub(super) fn entries(of: &Value, name: &str) -> String {
    let one = |entry: &Value| match entry.get("value") {
        Some(Value::String(value)) => format!("{}={value}", text(entry, "key")),
        _ => text(entry, "key"),
    };
    each(of, name).map(one).collect::<Vec<_>>().join(" ")
}

/// The entries with a note, and with a mark if they are not the key itself: a credential was hashed, or a long value
/// was truncated.
pub(super) fn marked(of: &Value, name: &str, is_cut: bool, note: &str) -> String {
    let is_hashed = || each(of, name).any(|entry| is_display_hash(&text(entry, "value")));
    let mark = if is_cut && is_hashed() {
        " (hashed)"
    } else if is_cut {
        " (cut)"
    } else {
        ""
    };
    // Mark and note stay visible even for a long key.
    let rest = [mark, note].concat();
    escape_line(&entries(of, name), WIDEST.saturating_sub(rest.len())) + &rest
}

/// Whether a value looks like the displayed hash of a credential: `sha256:` and 16 digits.
pub(super) fn is_display_hash(value: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    value.strip_prefix("sha256:").is_some_and(|digits| digits.len() == 16 && digits.bytes().all(is_digit))
}

/// A limit in short form: `50 per 1m`, `20 per 1s burst 40`.
pub(super) fn limit(of: &Value) -> String {
    let (requests, burst) = (text(of, "requests"), text(of, "burst"));
    let per = span(of.get("period_ms").and_then(Value::as_f64).unwrap_or_default());
    let kind = match of.get("algorithm").and_then(Value::as_str) {
        Some("token_bucket") => format!(" burst {burst}"),
        Some("sliding_window") => " sliding".to_owned(),
        _ => String::new(),
    };
    format!("{requests} per {per}{kind}")
}

/// Milliseconds in the largest unit that divides them.
pub(super) fn span(millis: f64) -> String {
    let units = [("d", 86_400_000.0), ("h", 3_600_000.0), ("m", 60_000.0), ("s", 1_000.0)];
    let whole = units.into_iter().find(|(_, of)| millis >= *of && millis % of == 0.0);
    match whole {
        Some((unit, of)) => format!("{}{unit}", millis / of),
        None if millis >= 1_000.0 => format!("{:.1}s", millis / 1_000.0),
        None => format!("{millis}ms"),
    }
}

/// A time in UTC.
pub(super) fn moment(of: &Value, name: &str) -> String {
    let millis = of.get(name).and_then(Value::as_i64);
    let moment = millis.and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    moment.map(|moment| moment.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // Fails when cells are printed without escaping.
    #[test]
    fn table_aligns_columns_and_escapes_control_characters() {
        let mut table = TextTable::new(&["key", "count#"]);
        table.row(["a\u{1b}[31m\n\u{202e}b".to_owned(), "7".to_owned()]);
        table.row(["x".repeat(100), "12345".to_owned()]);
        let shown = table.or("nothing");
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0], format!("key{}  count", " ".repeat(57)));
        assert_eq!(lines[1], format!("a?[31m??b{}7", " ".repeat(57)));
        assert!(lines[2].starts_with("xxx") && lines[2].contains('…') && lines[2].ends_with("  12345"));
        assert_eq!(TextTable::new(&["key"]).or("nothing"), "nothing\n");
    }

    #[test]
    fn limits_and_spans_render_in_short_form() {
        for (millis, expected) in [
            (1.0, "1ms"),
            (0.5, "0.5ms"),
            (1_000.0, "1s"),
            (1_500.0, "1.5s"),
            (60_000.0, "1m"),
            (86_400_000.0, "1d"),
        ] {
            assert_eq!(span(millis), expected);
        }
        let bucket = json!({"algorithm": "token_bucket", "requests": 20, "period_ms": 1_000, "burst": 40});
        assert_eq!(limit(&bucket), "20 per 1s burst 40");
        // Fails when the mark is truncated with the key.
        let long = json!({"e": [{"key": "path", "value": "x".repeat(100)}]});
        assert!(marked(&long, "e", true, " (a)").ends_with("x… (cut) (a)"));
        assert!(marked(&long, "e", false, "").ends_with("xx…"));
        assert!(is_display_hash("sha256:0123456789abcdef") && !is_display_hash("sha256:0123456789abcdeF"));
        assert!(!is_display_hash("sha256:0123456789abcde") && !is_display_hash("0123456789abcdef"));
        assert_eq!(
            entries(&json!({"e": [{"key": "a", "value": "b=c"}, {"key": "d", "value": null}]}), "e"),
            "a=b=c d"
        );
    }
}
