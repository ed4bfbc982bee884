//! Where a value of the settings was written: in the file, or in a variable of the environment.
//!
//! A span tells which. The file's bytes come first; behind them each variable has one
//! place of its own. So a tree in which both are mixed needs nothing more than spans.

use super::document::Node;
use super::problem::{Problem, Source};
use std::ops::Range;
use std::sync::Arc;

/// How the file is written, and hence how an example for it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    Yaml,
    Toml,
}

/// All texts that settings come from.
pub struct Places {
    pub file: Arc<Source>,
    pub syntax: Syntax,
    variables: Vec<Arc<Source>>,
}

impl Places {
    pub fn new(file: Arc<Source>, syntax: Syntax) -> Self {
        Self { file, syntax, variables: Vec::new() }
    }

    /// The place of one more variable.
    pub fn add_variable(&mut self, name: &str) -> Range<usize> {
        self.variables.push(Arc::new(Source { name: name.to_owned(), text: String::new() }));
        let place = self.file.text.len() + self.variables.len();
        place..place
    }

    fn variable(&self, span: &Range<usize>) -> Option<&Arc<Source>> {
        self.variables.get(span.start.checked_sub(self.file.text.len() + 1)?)
    }

    pub fn is_variable(&self, node: &Node) -> bool {
        self.variable(&node.span).is_some()
    }

    /// A problem in the file shows its line; one in a variable names the variable.
    pub fn problem(&self, span: &Range<usize>, cause: String, remedy: String) -> Problem {
        match self.variable(span) {
            Some(variable) => Problem::new(variable, None, cause, remedy),
            None => Problem::new(&self.file, Some(span.clone()), cause, remedy),
        }
    }

    /// A problem whose line must not be shown.
    pub fn hidden(&self, span: &Range<usize>, cause: String, remedy: String) -> Problem {
        if let Some(variable) = self.variable(span) {
            return Problem::new(variable, None, cause, remedy);
        }
        let before = self.file.text.get(..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        Problem::new(&self.file, None, format!("line {line}: {cause}"), remedy)
    }

    /// How to write this value of this key in the place where it stands now.
    pub fn example(&self, span: &Range<usize>, path: &str, value: &str, bare: bool) -> String {
        let key = path.rsplit('.').next().unwrap_or(path);
        match (self.variable(span), self.syntax) {
            (Some(_), _) => format!("{}={value}", variable_name(path)),
            (None, Syntax::Yaml) => format!("{key}: {value}"),
            (None, Syntax::Toml) if bare => format!("{key} = {value}"),
            (None, Syntax::Toml) => format!("{key} = \"{value}\""),
        }
    }

    /// What a key is called in the place where this one stands.
    pub fn name(&self, span: &Range<usize>, path: &str) -> String {
        match self.variable(span) {
            Some(_) => variable_name(path),
            None => path.to_owned(),
        }
    }
}

/// The variable of a key: `HIVEMIND_SERVER__HOST` for `server.host`.
pub fn variable_name(path: &str) -> String {
    format!("HIVEMIND_{}", path.to_uppercase().replace('.', "__"))
}
