//! What a key takes, as far as it can be said without a value: written down while the keys are read, so
//! that what editors are told cannot differ from what is read.

use super::kind::Kind;
use serde_json::{Value, json};

/// What stands behind a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// Keys of its own, or `off` in their place.
    Section {
        or_off: bool,
    },
    /// A list of sections.
    Sections,
    One(Taken),
    Several(Taken),
    OneOrSeveral(Taken),
    /// One of a few words.
    Choice(Vec<&'static str>),
}

/// A kind of value, without what reads it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Taken {
    what: &'static str,
    example: &'static str,
    form: Form,
    noun: Option<Noun>,
}

/// What the reference page calls one value of a kind, and several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noun {
    pub one: &'static str,
    pub several: &'static str,
}

impl Taken {
    pub fn of<T>(kind: &Kind<T>) -> Self {
        Self { what: kind.what, example: kind.example, form: kind.form, noun: kind.noun }
    }

    /// One of it, and several.
    fn named(&self) -> (String, String) {
        let both = |text: String| (text.clone(), text);
        match (self.noun, self.form) {
            (Some(Noun { one, several }), _) => (one.to_owned(), several.to_owned()),
            (None, Form::Flag) => both("flag".to_owned()),
            (None, Form::FlagOr(word)) => both(format!("flag or `{word}`")),
            (None, Form::Whole(..) | Form::WholeOrOff(..) | Form::Share) => both("number".to_owned()),
            (None, Form::Words(words)) => both(quoted(words)),
            (None, Form::Text | Form::Pattern(_) | Form::PatternOrOff(_)) => both("text".to_owned()),
        }
    }
}

/// How a value is written, as closely as a pattern can tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    Flag,
    /// A flag, or this word.
    FlagOr(&'static str),
    /// A whole number, from the first to the second.
    Whole(u64, u64),
    /// The same, or `off`.
    WholeOrOff(u64, u64),
    /// From 0 to 1.
    Share,
    /// One of these words.
    Words(&'static [&'static str]),
    /// Any text. What YAML reads as a number or a flag is the text that was written.
    Text,
    /// A text that no number can be.
    Pattern(&'static str),
    /// The same, or off.
    PatternOrOff(&'static str),
}

impl Form {
    /// As a schema. A key with nothing behind it is a key that was left out, so each may be null.
    fn schema(self) -> Value {
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

    /// A default of the reference page, as this form writes it.
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

/// One of a few words, or nothing. One that is written like a number is read as one by YAML.
fn enumeration(words: &[&str]) -> Value {
    let numbers = words.iter().filter_map(|word| word.parse::<serde_json::Number>().ok());
    let all = words.iter().map(|word| Value::from(*word)).chain(numbers.map(Value::Number));
    json!({"enum": all.chain([Value::Null]).collect::<Vec<_>>()})
}

/// Words as the reference page lists them.
fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

impl Shape {
    /// What the reference page's column of types says.
    pub fn named(&self) -> String {
        match self {
            Self::Section { .. } | Self::Sections => "section".to_owned(),
            Self::Choice(words) => quoted(words),
            Self::One(taken) => taken.named().0,
            Self::Several(taken) => format!("list of {}", taken.named().1),
            Self::OneOrSeveral(taken) => {
                let (one, several) = taken.named();
                format!("{one} or list of {several}")
            }
        }
    }

    /// As a schema of this value. What is in a section, its caller adds.
    pub fn schema(&self) -> Value {
        match self {
            Self::Section { .. } | Self::Sections => json!({}),
            Self::Choice(words) => enumeration(words),
            Self::One(taken) => with_example(taken.form.schema(), taken),
            Self::Several(taken) => with_example(list(taken), taken),
            Self::OneOrSeveral(taken) => {
                with_example(json!({"anyOf": [taken.form.schema(), list(taken)]}), taken)
            }
        }
    }

    /// A default of the reference page, as this shape writes it.
    pub fn value(&self, text: &str) -> Value {
        match self {
            Self::One(taken) | Self::OneOrSeveral(taken) => taken.form.value(text),
            Self::Several(taken) => text.split(',').map(|item| taken.form.value(item)).collect(),
            Self::Section { .. } | Self::Sections | Self::Choice(_) => text.into(),
        }
    }
}

fn list(taken: &Taken) -> Value {
    json!({"type": ["array", "null"], "items": taken.form.schema()})
}

/// What it is in words goes into the message that an editor shows, and the example into what it offers.
fn with_example(mut schema: Value, taken: &Taken) -> Value {
    if let Value::Object(keys) = &mut schema {
        keys.insert("errorMessage".into(), format!("this is {}", taken.what).into());
        if !matches!(taken.form, Form::Flag | Form::FlagOr(_) | Form::Words(_)) {
            keys.insert("examples".into(), json!([taken.form.value(taken.example)]));
        }
    }
    schema
}
