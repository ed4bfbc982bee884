//! What was not carried over: where it stands, what it is, why, and what to do.

use std::fmt::{self, Write};
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
        write!(f, "{}:{}", OneLine(&self.file), self.line)
    }
}

/// Text of a file, within a line: what is told stands in comments of the configuration that is made, and a line
/// that broke there would be a line of that.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            // YAML also breaks lines at these two, which are no control characters.
            _ if letter.is_control() => write!(f, "{}", letter.escape_default()),
            '\u{2028}' | '\u{2029}' => write!(f, "{}", letter.escape_default()),
            _ => f.write_char(letter),
        })
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
        write!(f, "{}: {}: {}", self.place, OneLine(&self.directive), OneLine(&self.text))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_a_file_becomes_a_line_of_its_own() {
        let file = "a\nserver: {}".into();
        let text = "cannot count by `$x\nserver: {admin_port: 9999}\r\u{85}\u{2028}#`".to_owned();
        let note = Note { place: Place { order: 0, file, line: 1 }, directive: "b\0\n".to_owned(), text };
        let told = note.to_string();
        assert!(!told.contains(|letter: char| letter.is_control() || letter == '\u{2028}'), "{told:?}");
        assert!(told.contains("`$x\\nserver"), "{told}");
    }
}
