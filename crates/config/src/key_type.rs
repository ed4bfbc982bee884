//! Types of configuration keys, recorded while the keys are read, so the schema for editors cannot differ from
//! the reader.

use super::form::{Form, Noun, enumeration, quoted};
use super::value_kind::ValueKind;
use serde_json::{Value, json};

/// Type of a key's value.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyType {
    /// A section with keys of its own; `off` may replace it.
    Section {
        or_off: bool,
    },
    /// A list of sections.
    Sections,
    One(ValueSpec),
    Several(ValueSpec),
    OneOrSeveral(ValueSpec),
    /// One of a few words.
    Choice(Vec<&'static str>),
}

/// Description of a value kind, without its parser.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueSpec {
    what: &'static str,
    example: &'static str,
    form: Form,
    noun: Option<Noun>,
}

impl ValueSpec {
    pub fn of<T>(kind: &ValueKind<T>) -> Self {
        Self { what: kind.what, example: kind.example, form: kind.form, noun: kind.noun }
    }

    /// Returns singular and plural.
    fn names(&self) -> (String, String) {
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

impl KeyType {
    /// Returns the text for the reference page's column of types.
    pub fn named(&self) -> String {
        match self {
            Self::Section { .. } | Self::Sections => "section".to_owned(),
            Self::Choice(words) => quoted(words),
            Self::One(spec) => spec.names().0,
            Self::Several(spec) => format!("list of {}", spec.names().1),
            Self::OneOrSeveral(spec) => {
                let (one, several) = spec.names();
                format!("{one} or list of {several}")
            }
        }
    }

    /// Returns the JSON Schema of the value. The caller adds the keys of a section.
    pub fn schema(&self) -> Value {
        match self {
            Self::Section { .. } | Self::Sections => json!({}),
            Self::Choice(words) => enumeration(words),
            Self::One(spec) => with_example(spec.form.schema(), spec),
            Self::Several(spec) => with_example(list(spec), spec),
            Self::OneOrSeveral(spec) => {
                with_example(json!({"anyOf": [spec.form.schema(), list(spec)]}), spec)
            }
        }
    }

    /// Converts a default of the reference page to JSON.
    pub fn value(&self, text: &str) -> Value {
        match self {
            Self::One(spec) | Self::OneOrSeveral(spec) => spec.form.value(text),
            Self::Several(spec) => text.split(',').map(|item| spec.form.value(item)).collect(),
            Self::Section { .. } | Self::Sections | Self::Choice(_) => text.into(),
        }
    }
}

fn list(spec: &ValueSpec) -> Value {
    json!({"type": ["array", "null"], "items": spec.form.schema()})
}

/// Adds the error message and the example that editors show.
fn with_example(mut schema: Value, spec: &ValueSpec) -> Value {
    if let Value::Object(keys) = &mut schema {
        keys.insert("errorMessage".into(), format!("this is {}", spec.what).into());
        if !matches!(spec.form, Form::Flag | Form::FlagOr(_) | Form::Words(_)) {
            keys.insert("examples".into(), json!([spec.form.value(spec.example)]));
        }
    }
    schema
}
