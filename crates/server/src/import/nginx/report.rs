//! What was not carried over: where it stands, what it is, why, and what to do.

use std::fmt;
use std::sync::Arc;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// In the order in which files were read.
    pub(super) order: usize,
    pub(crate) file: Arc<str>,
    pub(crate) line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One thing that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) place: Place,
    pub(crate) directive: String,
    pub(crate) text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, self.directive, self.text)
    }
}

#[derive(Default)]
pub(super) struct Report {
    notes: Vec<Note>,
    is_weaker: bool,
}

impl Report {
    pub(super) fn note(&mut self, directive: &super::tree::Directive, text: impl Into<String>) {
        let note = Note { place: directive.place.clone(), directive: directive.shown(), text: text.into() };
        // What is inherited is met in each place that inherits it, and told once.
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Notes something that protected the app in nginx, and does not here.
    pub(super) fn lose(&mut self, directive: &super::tree::Directive, text: impl Into<String>) {
        self.is_weaker = true;
        self.note(directive, text);
    }

    /// The notes, and whether what was made protects less than nginx did.
    pub(super) fn in_order(mut self) -> (Vec<Note>, bool) {
        self.notes.sort_by(|one, other| one.place.cmp(&other.place));
        (self.notes, self.is_weaker)
    }
}
