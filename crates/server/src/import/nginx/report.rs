//! Import notes: place, directive, reason and remedy of everything that was not converted.

use std::fmt::{self, Write};
use std::sync::Arc;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FilePosition {
    /// The position of the file in reading order.
    pub(super) order: usize,
    pub(crate) file: Arc<str>,
    pub(crate) line: usize,
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", OneLine(&self.file), self.line)
    }
}

/// Text from a file on one line: notes become comments of the generated configuration, where a line break would start
/// a line of YAML.
struct OneLine<'a>(&'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            // YAML also breaks lines at these two, which are not control characters.
            _ if letter.is_control() => write!(f, "{}", letter.escape_default()),
            '\u{2028}' | '\u{2029}' => write!(f, "{}", letter.escape_default()),
            _ => f.write_char(letter),
        })
    }
}

/// A note about one directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImportNote {
    pub(crate) place: FilePosition,
    pub(crate) directive: String,
    pub(crate) text: String,
}

impl fmt::Display for ImportNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place, OneLine(&self.directive), OneLine(&self.text))
    }
}

#[derive(Default)]
pub(super) struct ImportReport {
    notes: Vec<ImportNote>,
    is_weaker: bool,
}

impl ImportReport {
    pub(super) fn note(&mut self, directive: &super::tree::Directive, text: impl Into<String>) {
        let note =
            ImportNote { place: directive.place.clone(), directive: directive.shown(), text: text.into() };
        // An inherited directive is met at each place that inherits it, but noted once.
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Notes a directive that protected the app in nginx and is lost here.
    pub(super) fn lose(&mut self, directive: &super::tree::Directive, text: impl Into<String>) {
        self.is_weaker = true;
        self.note(directive, text);
    }

    /// The notes, and whether the result protects less than nginx did.
    pub(super) fn in_order(mut self) -> (Vec<ImportNote>, bool) {
        self.notes.sort_by(|one, other| one.place.cmp(&other.place));
        (self.notes, self.is_weaker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_never_contains_a_line_break() {
        let file = "a\nserver: {}".into();
        let text = "cannot count by `$x\nserver: {admin_port: 9999}\r\u{85}\u{2028}#`".to_owned();
        let note = ImportNote {
            place: FilePosition { order: 0, file, line: 1 },
            directive: "b\0\n".to_owned(),
            text,
        };
        let shown = note.to_string();
        assert!(!shown.contains(|letter: char| letter.is_control() || letter == '\u{2028}'), "{shown:?}");
        assert!(shown.contains("`$x\\nserver"), "{shown}");
    }
}
