//! Typed access to a parsed rule file: a value of the right kind, or a problem with its place.

use super::bounds::MOST_PROBLEMS;
use super::rule_file::home_of;
use crate::ruleset::RulePlace;
use hivemind_config::document::{SpannedValue, Value};
use hivemind_config::problem::{Problem, SourceText, TextSpan};
use hivemind_config::spelling::{is_falsy, is_truthy, remedy_for_unknown};
use std::cmp::Ordering;
use std::sync::Arc;

/// The entries of one map.
pub(super) struct Fields<'a>(Vec<(&'a str, &'a SpannedValue)>);

impl<'a> Fields<'a> {
    pub(super) fn get(&self, key: &str) -> Option<&'a SpannedValue> {
        self.0.iter().find(|(known, _)| *known == key).map(|(_, node)| *node)
    }
}

/// Walks a document and collects its problems.
pub(super) struct RuleFileReader<'a> {
    source: &'a Arc<SourceText>,
    problems: &'a mut Vec<Problem>,
    errors: usize,
    warnings: usize,
    file: Arc<str>,
    /// Offset and line of the previous lookup. Lookups follow the order of the file, so counting continues there.
    line: (usize, usize),
}

impl<'a> RuleFileReader<'a> {
    pub(super) fn new(source: &'a Arc<SourceText>, problems: &'a mut Vec<Problem>) -> Self {
        let warnings = problems.iter().filter(|problem| problem.is_warning()).count();
        let errors = problems.len() - warnings;
        Self { source, problems, errors, warnings, file: source.name.as_str().into(), line: (0, 1) }
    }

    pub(super) fn source(&self) -> &'a Arc<SourceText> {
        self.source
    }

    /// Whether reading should stop, because more errors would be dropped.
    pub(super) fn is_full(&self) -> bool {
        self.errors > MOST_PROBLEMS
    }

    /// Adds a problem. Of too many, warnings are dropped, and one error stands for all further ones.
    pub(super) fn add(&mut self, problem: Problem) {
        let count = if problem.is_warning() { &mut self.warnings } else { &mut self.errors };
        *count += 1;
        match (*count).cmp(&(MOST_PROBLEMS + 1)) {
            Ordering::Less => self.problems.push(problem),
            Ordering::Equal if !problem.is_warning() => {
                let cause = format!("reading stopped after {MOST_PROBLEMS} problems");
                self.problems.push(Problem::new(self.source, None, cause, "correct these first"));
            }
            Ordering::Equal | Ordering::Greater => {}
        }
    }

    pub(super) fn problem(
        &mut self,
        span: Option<TextSpan>,
        cause: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(Problem::new(self.source, span, cause, remedy));
    }

    pub(super) fn warning(&mut self, span: TextSpan, cause: impl Into<String>, remedy: impl Into<String>) {
        self.add(Problem::new(self.source, Some(span), cause, remedy).into_warning());
    }

    /// The entries of a map that has only these keys. A key that belongs to another level
    /// is a warning, because the reference service accepts it anywhere.
    pub(super) fn fields<'n>(
        &mut self,
        node: &'n SpannedValue,
        what: &str,
        known: &[&str],
    ) -> Option<Fields<'n>> {
        let Value::Map(pairs) = &node.value else {
            let cause = format!("{what} is a map, and this is {}", node.value.kind());
            self.problem(Some(node.span), cause, format!("write entries such as `{}: ...`", known.first()?));
            return None;
        };
        let mut fields = Vec::new();
        for (key, value) in pairs {
            if self.is_full() {
                return None;
            }
            match &key.value {
                Value::Scalar { text, .. } if known.contains(&&**text) => {
                    fields.push((&**text, value));
                }
                Value::Scalar { text, .. } => self.unknown(key.span, text, what, known),
                other => {
                    let cause = format!("a key of {what} is a word, and this is {}", other.kind());
                    self.problem(Some(key.span), cause, format!("one of: {}", known.join(", ")));
                }
            }
        }
        Some(Fields(fields))
    }

    /// The file and line of a place.
    pub(super) fn place(&mut self, span: TextSpan) -> RulePlace {
        let start = span.range().start;
        let (from, line) = if start < self.line.0 { (0, 1) } else { self.line };
        let between = self.source.text.get(from..start).unwrap_or_default();
        self.line = (start, line + between.matches('\n').count());
        RulePlace { file: Arc::clone(&self.file), line: self.line.1 }
    }

    fn unknown(&mut self, span: TextSpan, key: &str, what: &str, known: &[&str]) {
        if let Some(home) = home_of(key) {
            let cause = format!("`{key}` has no effect in {what}");
            self.warning(span, cause, format!("move it into {home}, or leave it out"));
        } else {
            let cause = format!("unknown key `{key}` in {what}");
            self.problem(Some(span), cause, remedy_for_unknown(key, known));
        }
    }

    /// A text exactly as written, without YAML's type conversion.
    pub(super) fn text(&mut self, node: &SpannedValue, key: &str) -> Option<String> {
        match &node.value {
            Value::Null => Some(String::new()),
            Value::Scalar { text, plain: true } if is_fraction(text) => {
                let cause = format!("`{key}: {text}` reads as a number with a fraction");
                self.problem(Some(node.span), cause, format!("quote it: `{key}: \"{text}\"`"));
                None
            }
            Value::Scalar { text, .. } => Some(text.to_string()),
            other => {
                let cause = format!("`{key}` is a text, and this is {}", other.kind());
                self.problem(Some(node.span), cause, format!("write `{key}: name`"));
                None
            }
        }
    }

    /// Like [`RuleFileReader::text`], but empty if the key is absent.
    pub(super) fn optional_text(&mut self, fields: &Fields<'_>, key: &str) -> Option<String> {
        fields.get(key).map_or_else(|| Some(String::new()), |node| self.text(node, key))
    }

    pub(super) fn number(&mut self, node: &SpannedValue, key: &str) -> Option<u32> {
        let text = match &node.value {
            Value::Scalar { text, plain: true } => &**text,
            Value::Scalar { text, plain: false } => {
                let cause = format!("`{key}` is a number, and this is a text");
                self.problem(Some(node.span), cause, format!("write it without quotes: `{key}: {text}`"));
                return None;
            }
            _ => "",
        };
        let number = text.parse().ok();
        if number.is_none() {
            let cause = format!("`{key}` is a whole number from 0 to {}", u32::MAX);
            self.problem(Some(node.span), cause, format!("write it in digits, as in `{key}: 100`"));
        }
        number
    }

    pub(super) fn flag(&mut self, fields: &Fields<'_>, key: &str) -> bool {
        let Some(node) = fields.get(key) else { return false };
        match &node.value {
            Value::Null => false,
            Value::Scalar { text, plain: true } if is_truthy(text) => true,
            Value::Scalar { text, plain: true } if is_falsy(text) => false,
            _ => {
                let remedy = format!("write `{key}: true` or `{key}: false`");
                self.problem(Some(node.span), format!("`{key}` is true or false"), remedy);
                false
            }
        }
    }

    /// The items of a list; an absent value is an empty list.
    pub(super) fn items<'n>(&mut self, node: &'n SpannedValue, key: &str) -> &'n [SpannedValue] {
        match &node.value {
            Value::List(items) => items,
            Value::Null => &[],
            other => {
                let cause = format!("`{key}` is a list, and this is {}", other.kind());
                self.problem(Some(node.span), cause, "begin each item with `- `");
                &[]
            }
        }
    }
}

fn is_fraction(text: &str) -> bool {
    text.contains(['.', 'e', 'E'])
        && text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && text.parse::<f64>().is_ok()
}
