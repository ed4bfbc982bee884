//! Forms of values: how a value is written, as a JSON Schema and in the words of the reference page.

use serde_json::{Value, json};

/// Singular and plural that the reference page uses for a value kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noun {
    pub one: &'static str,
    pub several: &'static str,
}

/// Form of a value, as precise as a pattern can be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    Flag,
    /// A flag or this word.
    FlagOr(&'static str),
    /// A whole number from the first to the second.
    Whole(u64, u64),
    /// A whole number in a range, or `off`.
    WholeOrOff(u64, u64),
    /// A number from 0 to 1.
    Share,
    /// One of these words.
    Words(&'static [&'static str]),
    /// Any text. Numbers and flags in YAML are read as the text in the file.
    Text,
    /// A text that matches this pattern, which excludes plain numbers.
    Pattern(&'static str),
    /// A text that matches a pattern, or `off`.
    PatternOrOff(&'static str),
}

impl Form {
    /// Returns the JSON Schema. A key without a value counts as missing, so null is always valid.
    pub(crate) fn schema(self) -> Value {
        let pattern = |pattern: &str| json!({"type": ["string", "null"], "pattern": pattern});
        match self {
            Self::Flag => json!({"enum": [true, false, "yes", "no", "on", "off", null]}),
            Self::FlagOr(word) => json!({"enum": [true, false, word, "yes", "no", "on", "off", null]}),
            Self::Whole(least, most) => {
                json!({"type": ["integer", "null"], "minimum": least, "maximum": most})
            }
            Self::WholeOrOff(least, most) => {
                json!({"anyOf": [{"type": ["integer", "null"], "minimum": least, "maximum": most}, {"enum": ["off", "no", false]}]})
            }
            Self::Share => json!({"type": ["number", "null"], "minimum": 0, "maximum": 1}),
            Self::Words(words) => enumeration(words),
            Self::Text => json!({"type": ["string", "number", "boolean", "null"], "minLength": 1}),
            Self::Pattern(text) => pattern(text),
            Self::PatternOrOff(text) => json!({"anyOf": [pattern(text), {"enum": ["off", "no", false]}]}),
        }
    }

    /// Converts a default of the reference page to JSON.
    pub fn value(self, text: &str) -> Value {
        let number = |text: &str| text.parse::<serde_json::Number>().ok().map(Value::Number);
        match self {
            Self::Flag | Self::FlagOr(_) if text == "true" || text == "false" => json!(text == "true"),
            Self::Whole(..) | Self::WholeOrOff(..) | Self::Share => {
                number(text).unwrap_or_else(|| text.into())
            }
            _ => text.into(),
        }
    }
}

/// Enumeration of words and null. YAML reads a word of digits as a number, so the number is valid too.
pub(crate) fn enumeration(words: &[&str]) -> Value {
    let numbers = words.iter().filter_map(|word| word.parse::<serde_json::Number>().ok());
    let all = words.iter().map(|word| Value::from(*word)).chain(numbers.map(Value::Number));
    json!({"enum": all.chain([Value::Null]).collect::<Vec<_>>()})
}

/// Formats words as a list in backquotes, as the reference page does.
pub(crate) fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
