//! Limits on the cost of rules: their number, the size of their paths, and the values of a file.

use hivemind_config::cancellation::Cancellation;
use hivemind_config::document::{self, DocumentBounds};
use hivemind_config::problem::{Problem, SourceText, TextSpan};
use std::sync::Arc;

/// Limits that apply to all files of a load together, except those of the document, which apply to each file.
#[derive(Clone, Debug)]
pub struct RuleBounds {
    pub rules: usize,
    /// Bytes of the paths of all rules: keys and values, and `ENTRY` for each entry. A rule below others has their
    /// entries in its path.
    pub path_bytes: usize,
    pub document: DocumentBounds,
}

/// Counted for each entry of a path, in addition to its texts.
pub(super) const ENTRY: usize = 64;
/// Problems of one file. A report shows fewer, and each costs more memory than the value that causes it.
pub(super) const MOST_PROBLEMS: usize = 1_000;
/// Limits that one limit replaces: each is compared in every request that matches.
pub(super) const MOST_REPLACED: usize = 100;

impl RuleBounds {
    /// Of files on disk, whose authors are trusted.
    pub fn files() -> Self {
        Self { rules: 100_000, path_bytes: 64 << 20, document: DocumentBounds::default() }
    }

    /// Of rules in a request: its memory must stay small compared with the process.
    pub fn request(cancellation: Cancellation) -> Self {
        let document = DocumentBounds { values: 120_000, cancellation };
        Self { rules: 20_000, path_bytes: 2 << 20, document }
    }
}

/// Size of the rules read so far, compared with their bounds.
#[derive(Default)]
pub(super) struct RulesSize {
    rules: usize,
    path_bytes: usize,
    /// Whether a bound was exceeded. The rules are incomplete then.
    pub(super) stopped: bool,
}

impl RulesSize {
    /// Counts one more rule, or returns the exceeded bound and stops.
    pub(super) fn count_rule(
        &mut self,
        bounds: &RuleBounds,
        source: &Arc<SourceText>,
        place: TextSpan,
    ) -> Result<(), Problem> {
        self.rules += 1;
        let RuleBounds { rules, path_bytes, document } = bounds;
        let problem = if self.rules > *rules {
            let remedy = "match several values by one pattern, or by a key without a value";
            Problem::new(source, Some(place), format!("there are more than {rules} rules"), remedy)
        } else if self.path_bytes > *path_bytes {
            let cause = format!("the keys and values on the paths of all rules exceed {path_bytes} bytes");
            let remedy = "shorten the keys and values that are above many others, or nest less";
            Problem::new(source, Some(place), cause, remedy)
        } else if document.cancellation.is_set_after(self.rules) {
            document::cancelled(source, Some(place))
        } else {
            return Ok(());
        };
        self.stopped = true;
        Err(problem)
    }

    /// Counts the path of a rule.
    pub(super) fn count_path(&mut self, bytes: usize) {
        self.path_bytes = self.path_bytes.saturating_add(bytes);
    }
}
