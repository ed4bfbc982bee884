//! TOML document as the same tree as a YAML document, so one reader serves both.

use super::document::{SpannedValue, Value};
use super::problem::{Problem, SourceText, TextSpan};
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

/// Parses a document, or returns all syntax errors.
pub fn parse(source: &Arc<SourceText>) -> Result<SpannedValue, Vec<Problem>> {
    let (table, errors) = DeTable::parse_recoverable(&source.text);
    if errors.is_empty() {
        let span = table.span().into();
        return Ok(SpannedValue { value: map(table.into_inner()), span });
    }
    let remedy =
        "this is not TOML as it stands; texts and durations want quotes, as in `idle_ttl = \"300s\"`";
    let problems = errors
        .iter()
        .map(|error| Problem::new(source, error.span().map(TextSpan::from), error.message(), remedy));
    Err(problems.collect())
}

fn map(table: DeTable<'_>) -> Value {
    let pairs = table.into_iter().map(|(key, value)| {
        let name = Value::Scalar { text: key.get_ref().as_ref().into(), plain: true };
        (SpannedValue { value: name, span: key.span().into() }, placed(value))
    });
    Value::Map(pairs.collect())
}

fn placed(value: Spanned<DeValue<'_>>) -> SpannedValue {
    let span = value.span().into();
    let plain = |text: String| Value::Scalar { text: text.into(), plain: true };
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Scalar { text: text.as_ref().into(), plain: false },
        DeValue::Integer(number) => plain(decimal(&number)),
        DeValue::Float(number) => plain(number.to_string()),
        DeValue::Boolean(flag) => plain(flag.to_string()),
        DeValue::Datetime(time) => plain(time.to_string()),
        DeValue::Array(items) => Value::List(items.into_iter().map(placed).collect()),
        DeValue::Table(table) => map(table),
    };
    SpannedValue { value, span }
}

/// Formats an integer in decimal; TOML also allows `0x1F`.
fn decimal(number: &DeInteger<'_>) -> String {
    i64::from_str_radix(number.as_str(), number.radix())
        .map_or_else(|_| number.to_string(), |number| number.to_string())
}
