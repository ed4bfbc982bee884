//! YAML document as a tree of values with spans. The reader walks it and collects all problems; a typed parser would
//! stop at the first one.
//!
//! The tree is built in one pass and compact, because a caller of the admin API chooses the text: 32 bytes per value,
//! and at most [`DocumentBounds::values`] of them. No second tree exists while a document is parsed.

use super::cancellation::Cancellation;
use super::problem::{Problem, SourceText, TextSpan};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// A value with its span in the source.
#[derive(Clone, Debug)]
pub struct SpannedValue {
    pub value: Value,
    pub span: TextSpan,
}

#[derive(Clone, Debug)]
pub enum Value {
    Null,
    /// Text as in the file, and whether it has no quotes.
    Scalar {
        text: Box<str>,
        plain: bool,
    },
    List(Box<[SpannedValue]>),
    Map(Box<[(SpannedValue, SpannedValue)]>),
}

/// Limits on the cost of one document.
#[derive(Clone, Debug)]
pub struct DocumentBounds {
    /// Maximum number of values: keys, texts, lists and maps.
    pub values: usize,
    /// Stops the parser early.
    pub cancellation: Cancellation,
}

impl Default for DocumentBounds {
    fn default() -> Self {
        Self { values: MOST_VALUES, cancellation: Cancellation::default() }
    }
}

/// Enough for 70,000 rules in one file.
pub const MOST_VALUES: usize = 800_000;

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
            Value::Scalar { text, plain: false } => (&**text).into(),
            Value::Scalar { text, plain: true } => match &**text {
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
                    Value::Scalar { text, .. } => text.to_string(),
                    other => other.kind().to_owned(),
                };
                pairs.iter().map(|(name, value)| (key(name), value.to_json())).collect()
            }
        }
    }
}

const STACK: usize = 16 << 20;

thread_local! {
    /// The document of this thread. `Spanned` gives its visitor no way to carry it.
    static CURRENT: RefCell<Option<CurrentDocument>> = const { RefCell::new(None) };
}

/// The document being parsed.
struct CurrentDocument {
    source: Arc<SourceText>,
    bounds: DocumentBounds,
    values: usize,
}

/// Parses one document within the default bounds, or returns the first syntax error.
pub fn parse(source: &Arc<SourceText>) -> Result<SpannedValue, Problem> {
    parse_within(source, &DocumentBounds::default())
}

/// Parses one document, or returns the first syntax error. The parser needs up to 30 KB of stack per nesting level, and
/// runtime threads have 2 MiB, so it runs in a thread of its own whose stack fits the deepest valid file.
pub fn parse_within(source: &Arc<SourceText>, bounds: &DocumentBounds) -> Result<SpannedValue, Problem> {
    std::thread::scope(|scope| {
        let here = || parse_here(source, bounds);
        match std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, here) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // No thread is available; this thread's stack suffices for most files.
            Err(_) => parse_here(source, bounds),
        }
    })
}

fn parse_here(source: &Arc<SourceText>, bounds: &DocumentBounds) -> Result<SpannedValue, Problem> {
    // Aliases repeat values: at most as many as the text has bytes, which is too few for an alias bomb.
    let most = source.text.len().clamp(1_000, bounds.values);
    let budget = serde_saphyr::budget! {
        max_nodes: most, max_events: most.saturating_mul(4), max_total_scalar_bytes: source.text.len().saturating_mul(2),
    };
    let options = serde_saphyr::options! { budget: budget };
    let parsed = CurrentDocument { source: Arc::clone(source), bounds: bounds.clone(), values: 0 };
    CURRENT.set(Some(parsed));
    let read = serde_saphyr::from_str_with_options::<DocumentNode>(&source.text, options);
    CURRENT.set(None);
    read.map(|DocumentNode(root)| root).map_err(|error| {
        let span = error.location().map(|location| span_of(&location, &source.text));
        if bounds.cancellation.is_set() {
            return cancelled(source, span);
        }
        let error = serde_saphyr::Error::without_snippet(&error);
        // With fewer values than its bound, an error of the budget means aliases.
        if let serde_saphyr::Error::Budget { breach, .. } = error
            && format!("{breach:?}").starts_with("Nodes")
            && most >= bounds.values
        {
            return too_many_values(source, span, bounds.values);
        }
        let cause = error.to_string();
        // The parser appends the position to its message; the report already shows it.
        let cause = cause.rsplit_once(" at line ").map_or(cause.as_str(), |(cause, _)| cause);
        let (cause, remedy) = explain(cause);
        Problem::new(source, span, cause, remedy)
    })
}

/// The problem of a document whose reader was cancelled.
pub fn cancelled(source: &Arc<SourceText>, span: Option<TextSpan>) -> Problem {
    let remedy = "its time limit is over, or the caller disconnected; send less at once";
    Problem::new(source, span, "reading stopped here", remedy)
}

/// The problem of a document with more values than its bound.
fn too_many_values(source: &Arc<SourceText>, span: Option<TextSpan>, most: usize) -> Problem {
    let cause = format!("the file has more than {most} values (keys, texts, lists and maps)");
    Problem::new(source, span, cause, "make several files of it, or match several values by one pattern")
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

/// A value at its place. Built from [`Spanned`] at once, so that its locations are not kept.
struct DocumentNode(SpannedValue);

impl<'de> Deserialize<'de> for DocumentNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Spanned::<Raw>::deserialize(deserializer)?;
        CURRENT.with_borrow_mut(|parsed| {
            let parsed = parsed.as_mut().ok_or_else(|| D::Error::custom("no document is parsed here"))?;
            parsed.values += 1;
            if parsed.bounds.cancellation.is_set_after(parsed.values) {
                return Err(D::Error::custom("reading was cancelled"));
            }
            Ok(Self(placed(raw, &parsed.source.text)))
        })
    }
}

fn placed(raw: Spanned<Raw>, text: &str) -> SpannedValue {
    let span = span_of(&raw.referenced, text);
    let value = match raw.value {
        Raw::Text(string) => match text.get(span_of(&raw.defined, text).range()) {
            // Keeps the text of the file: `007` and `yes` are valid names.
            Some(written) if is_plain(written) => {
                Value::Scalar { text: written.trim_end().into(), plain: true }
            }
            _ => Value::Scalar { text: string.into(), plain: false },
        },
        Raw::Value(value) => value,
    };
    SpannedValue { value, span }
}

/// Whether a scalar is on one line, without quotes, block, alias or tag.
fn is_plain(written: &str) -> bool {
    !written.is_empty()
        && !written.starts_with(['"', '\'', '|', '>', '*', '&', '!'])
        && !written.contains('\n')
}

fn span_of(location: &Location, text: &str) -> TextSpan {
    let span = location.span();
    let number = |value: Option<_>| value.and_then(|value| usize::try_from(value).ok());
    // Syntax errors have only a line and a column.
    let start = number(span.byte_offset()).unwrap_or_else(|| offset_of(location, text)).min(text.len());
    let end = start.saturating_add(number(span.byte_len()).unwrap_or(0)).min(text.len());
    TextSpan::from(start..end)
}

fn offset_of(location: &Location, text: &str) -> usize {
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX).saturating_sub(1);
    let mut lines = text.split_inclusive('\n');
    let before: usize = lines.by_ref().take(number(location.line())).map(str::len).sum();
    let line = lines.next().unwrap_or_default().trim_end_matches(['\n', '\r']);
    before + line.chars().take(number(location.column())).map(char::len_utf8).sum::<usize>()
}

enum Raw {
    Text(String),
    /// Any other value; the values in it have their places.
    Value(Value),
}

struct RawReader;

impl<'de> Visitor<'de> for RawReader {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E: Error>(self) -> Result<Raw, E> {
        Ok(Raw::Value(Value::Null))
    }

    fn visit_none<E: Error>(self) -> Result<Raw, E> {
        Ok(Raw::Value(Value::Null))
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

    fn visit_string<E: Error>(self, value: String) -> Result<Raw, E> {
        Ok(Raw::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(DocumentNode(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::Value(Value::List(list.into())))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Raw, A::Error> {
        let mut map = Vec::new();
        while let Some((DocumentNode(key), DocumentNode(value))) = pairs.next_entry()? {
            map.push((key, value));
        }
        Ok(Raw::Value(Value::Map(map.into())))
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
