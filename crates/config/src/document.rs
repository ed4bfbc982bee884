//! YAML document as a tree of values with spans. The reader walks it and collects all problems; a typed parser would
//! stop at the first one.

use super::problem::{Problem, SourceText};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A value with its span in the source.
#[derive(Clone, Debug)]
pub struct SpannedValue {
    pub value: Value,
    pub span: Range<usize>,
}

#[derive(Clone, Debug)]
pub enum Value {
    Null,
    /// Text as in the file, and whether it has no quotes.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<SpannedValue>),
    Map(Vec<(SpannedValue, SpannedValue)>),
}

impl Value {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Scalar { .. } => "a plain value",
            Self::List(_) => "a list",
            Self::Map(_) => "a map",
        }
    }
}

impl SpannedValue {
    /// Converts to JSON; plain words and numbers are typed as in YAML.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Scalar { text, plain: false } => text.as_str().into(),
            Value::Scalar { text, plain: true } => match text.as_str() {
                "true" | "True" | "TRUE" => true.into(),
                "false" | "False" | "FALSE" => false.into(),
                "null" | "Null" | "NULL" | "~" => serde_json::Value::Null,
                number if number.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) => {
                    let parsed = number.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
                    parsed.map_or_else(|| number.into(), serde_json::Value::Number)
                }
                word => word.into(),
            },
            Value::List(items) => items.iter().map(SpannedValue::to_json).collect(),
            Value::Map(pairs) => {
                let key = |key: &SpannedValue| match &key.value {
                    Value::Scalar { text, .. } => text.clone(),
                    other => other.kind().to_owned(),
                };
                pairs.iter().map(|(name, value)| (key(name), value.to_json())).collect()
            }
        }
    }
}

const STACK: usize = 16 << 20;

/// Parses one document, or returns the first syntax error. The parser needs up to 30 KB of stack per nesting level, and
/// runtime threads have 2 MiB, so it runs in a thread of its own whose stack fits the deepest valid file.
pub fn parse(source: &Arc<SourceText>) -> Result<SpannedValue, Problem> {
    std::thread::scope(|scope| {
        match std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || parse_here(source)) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // No thread is available; this thread's stack suffices for most files.
            Err(_) => parse_here(source),
        }
    })
}

fn parse_here(source: &Arc<SourceText>) -> Result<SpannedValue, Problem> {
    // At most as many values as the text has bytes: enough for any file, too few for an alias bomb.
    let most = source.text.len().max(1_000);
    let budget = serde_saphyr::budget! {
        max_nodes: most, max_events: most.saturating_mul(4), max_total_scalar_bytes: most.saturating_mul(2),
    };
    let options = serde_saphyr::options! { budget: budget };
    match serde_saphyr::from_str_with_options::<Spanned<Raw>>(&source.text, options) {
        Ok(raw) => Ok(placed(raw, &source.text)),
        Err(error) => {
            let span = error.location().map(|location| span_of(&location, &source.text));
            let cause = serde_saphyr::Error::without_snippet(&error).to_string();
            // The parser appends the position to its message; the report already shows it.
            let cause = cause.rsplit_once(" at line ").map_or(cause.as_str(), |(cause, _)| cause);
            let (cause, remedy) = explain(cause);
            Err(Problem::new(source, span, cause, remedy))
        }
    }
}

/// Rewrites a parser message for the author of the file, with a remedy.
fn explain(cause: &str) -> (String, &'static str) {
    if let Some(rest) = cause.strip_prefix("duplicate mapping key: ") {
        let key = rest.split_once(", set ").map_or(rest, |(key, _)| key);
        return (format!("`{key}` is there twice"), "leave one of the two out");
    }
    if cause.starts_with("multiple YAML documents") {
        return ("a second document begins here".to_owned(), "make it a file of its own");
    }
    // The parser has a depth limit besides its budget; the brackets decide which one applies first.
    if cause.contains("budget") || cause.contains("recursion limit") {
        let remedy = "flatten it, write out what aliases stand for, or make several files of it";
        return ("the file is nested too deep, or its aliases stand for too much".to_owned(), remedy);
    }
    let remedy = "this is not YAML as it stands; check indentation, quotes and brackets up to here";
    (cause.to_owned(), remedy)
}

fn placed(raw: Spanned<Raw>, text: &str) -> SpannedValue {
    let span = span_of(&raw.referenced, text);
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Text(string) => match text.get(span_of(&raw.defined, text)) {
            // Keeps the text of the file: `007` and `yes` are valid names.
            Some(written) if is_plain(written) => {
                Value::Scalar { text: written.trim_end().to_owned(), plain: true }
            }
            _ => Value::Scalar { text: string, plain: false },
        },
        Raw::List(items) => Value::List(items.into_iter().map(|item| placed(item, text)).collect()),
        Raw::Map(pairs) => {
            let pairs = pairs.into_iter().map(|(key, value)| (placed(key, text), placed(value, text)));
            Value::Map(pairs.collect())
        }
    };
    SpannedValue { value, span }
}

/// Whether a scalar is on one line, without quotes, block, alias or tag.
fn is_plain(written: &str) -> bool {
    !written.is_empty()
        && !written.starts_with(['"', '\'', '|', '>', '*', '&', '!'])
        && !written.contains('\n')
}

fn span_of(location: &Location, text: &str) -> Range<usize> {
    let span = location.span();
    let number = |value: Option<_>| value.and_then(|value| usize::try_from(value).ok());
    // Syntax errors have only a line and a column.
    let start = number(span.byte_offset()).unwrap_or_else(|| offset_of(location, text)).min(text.len());
    let end = start.saturating_add(number(span.byte_len()).unwrap_or(0)).min(text.len());
    start..end
}

fn offset_of(location: &Location, text: &str) -> usize {
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX).saturating_sub(1);
    let mut lines = text.split_inclusive('\n');
    let before: usize = lines.by_ref().take(number(location.line())).map(str::len).sum();
    let line = lines.next().unwrap_or_default().trim_end_matches(['\n', '\r']);
    before + line.chars().take(number(location.column())).map(char::len_utf8).sum::<usize>()
}

enum Raw {
    Null,
    Text(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<Raw>, Spanned<Raw>)>),
}

struct RawReader;

impl<'de> Visitor<'de> for RawReader {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E: Error>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E: Error>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_string()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Raw, A::Error> {
        let mut map = Vec::new();
        while let Some(pair) = pairs.next_entry()? {
            map.push(pair);
        }
        Ok(Raw::Map(map))
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawReader)
    }
}

#[cfg(test)]
mod tests {
    use super::{SourceText, parse};
    use std::sync::Arc;

    // Fails when the parser's recursion limit is reported as invalid YAML.
    #[test]
    fn too_deep_nesting_is_reported_at_any_depth() {
        for depth in [500, 5_000, 20_000] {
            for text in ["[".repeat(depth), "{a: ".repeat(depth), "- ".repeat(depth)] {
                let source = Arc::new(SourceText { name: "a.yaml".into(), text });
                let message = parse(&source).err().map(|problem| problem.to_string()).unwrap_or_default();
                assert!(
                    message.contains("nested too deep"),
                    "{depth}: {}",
                    message.get(..200).unwrap_or(&message)
                );
            }
        }
    }

    // Fails when line and column are ignored and every error is at 1:1.
    #[test]
    fn syntax_error_is_shown_at_its_position() {
        let expected = [
            ("domain: d\ndescriptors: [}\n", "2:14", "mismatched bracket '[' closed by '}'"),
            ("é: é\nü: [}\n", "2:4", "mismatched bracket '[' closed by '}'"),
            ("a: b\r\nc: d\r\n\te: f\r\n", "2:4", "while scanning a plain scalar, found a tab"),
            ("a: b\nc: *x\n", "2:4", "alias references unknown anchor"),
            ("a: b\na: c\n", "2:1", "`a` is there twice"),
            ("a: b\n---\nc: d\n", "3:1", "a second document begins here"),
            ("a: \"b", "1:4", "unclosed quote"),
        ];
        let found = expected.map(|(text, ..)| {
            let source = Arc::new(SourceText { name: "a.yaml".into(), text: text.into() });
            let problem = parse(&source).expect_err(text).to_string();
            let mut lines = problem.lines().map(|line| line.trim_start_matches([' ', '-', '>']).to_owned());
            let cause = lines.next().unwrap_or_default().replace("error: ", "");
            (text, lines.next().unwrap_or_default(), cause)
        });
        let expected =
            expected.map(|(text, place, cause)| (text, format!("a.yaml:{place}"), cause.to_owned()));
        assert_eq!(found, expected);
    }
}
