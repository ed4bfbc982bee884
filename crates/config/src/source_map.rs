//! Source map: the file or environment variable that each value comes from.
//!
//! A span identifies the source. Offsets up to the file's length are bytes of the file; each variable has one
//! offset of its own after them. So a tree with values of both kinds needs only spans.

use super::document::SpannedValue;
use super::problem::{Problem, SourceText, TextSpan};
use std::sync::Arc;

/// Syntax of the file, which also decides how examples are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    Yaml,
    Toml,
}

/// All sources of settings.
pub struct SourceMap {
    pub file: Arc<SourceText>,
    pub syntax: Syntax,
    variables: Vec<Arc<SourceText>>,
}

impl SourceMap {
    pub fn new(file: Arc<SourceText>, syntax: Syntax) -> Self {
        Self { file, syntax, variables: Vec::new() }
    }

    /// Adds a variable and returns its span.
    pub fn add_variable(&mut self, name: &str) -> TextSpan {
        self.variables.push(Arc::new(SourceText { name: name.to_owned(), text: String::new() }));
        let place = self.file.text.len() + self.variables.len();
        (place..place).into()
    }

    fn variable(&self, span: TextSpan) -> Option<&Arc<SourceText>> {
        self.variables.get(span.range().start.checked_sub(self.file.text.len() + 1)?)
    }

    pub fn is_variable(&self, node: &SpannedValue) -> bool {
        self.variable(node.span).is_some()
    }

    /// Creates a problem that shows the line of the file, or names the variable.
    pub fn problem(&self, span: TextSpan, cause: String, remedy: String) -> Problem {
        match self.variable(span) {
            Some(variable) => Problem::new(variable, None, cause, remedy),
            None => Problem::new(&self.file, Some(span), cause, remedy),
        }
    }

    /// Creates a problem that does not show the line, which contains a secret.
    pub fn hidden(&self, span: TextSpan, cause: String, remedy: String) -> Problem {
        if let Some(variable) = self.variable(span) {
            return Problem::new(variable, None, cause, remedy);
        }
        let before = self.file.text.get(..span.range().start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Problem::new(&self.file, None, format!("line {line}: {cause}"), remedy)
    }

    /// Returns an example for the key in the syntax of its source.
    pub fn example(&self, span: TextSpan, path: &str, value: &str, bare: bool) -> String {
        let key = path.rsplit('.').next().unwrap_or(path);
        match (self.variable(span), self.syntax) {
            (Some(_), _) => format!("{}={value}", variable_name(path)),
            (None, Syntax::Yaml) => format!("{key}: {value}"),
            (None, Syntax::Toml) if bare => format!("{key} = {value}"),
            (None, Syntax::Toml) => format!("{key} = \"{value}\""),
        }
    }

    /// Returns the key's name in the source of this span.
    pub fn name(&self, span: TextSpan, path: &str) -> String {
        match self.variable(span) {
            Some(_) => variable_name(path),
            None => path.to_owned(),
        }
    }
}

/// Name of a key's environment variable: `HIVEMIND_SERVER__HOST` for `server.host`.
pub fn variable_name(path: &str) -> String {
    format!("HIVEMIND_{}", path.to_uppercase().replace('.', "__"))
}
