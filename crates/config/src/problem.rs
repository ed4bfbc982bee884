//! Problems in a file: place, cause and remedy.

use super::password_mask::mask_passwords;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Name and text of a file, kept so that problems can show its lines.
#[derive(Debug)]
pub struct SourceText {
    pub name: String,
    pub text: String,
}

/// Byte range in a text of at most 4 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextSpan {
    pub start: u32,
    pub end: u32,
}

impl TextSpan {
    pub fn range(self) -> Range<usize> {
        let index = |offset: u32| usize::try_from(offset).unwrap_or(usize::MAX);
        index(self.start)..index(self.end)
    }
}

impl From<Range<usize>> for TextSpan {
    fn from(range: Range<usize>) -> Self {
        let offset = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        Self { start: offset(range.start), end: offset(range.end) }
    }
}

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    /// The file is not loaded.
    Error,
    /// The file is loaded; a key in it is deprecated or has no effect.
    Warning,
}

/// One problem in a file.
#[derive(Clone, Debug)]
pub struct Problem {
    severity: Severity,
    source: Arc<SourceText>,
    /// Byte range in the text; `None`: the whole file.
    span: Option<TextSpan>,
    cause: String,
    remedy: String,
}

impl Problem {
    pub fn new(
        source: &Arc<SourceText>,
        span: Option<TextSpan>,
        cause: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (cause, remedy) = (cause.into(), remedy.into());
        Self { severity: Severity::Error, source: Arc::clone(source), span, cause, remedy }
    }

    pub fn is_warning(&self) -> bool {
        self.severity == Severity::Warning
    }

    /// Converts an error to a warning.
    #[must_use]
    pub fn into_warning(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.source.text;
        // An invalid span of the parser must not prevent the report.
        let span = self.span.map(TextSpan::range).filter(|span| text.get(span.clone()).is_some());
        let Some(span) = span else {
            let Self { source, cause, remedy, .. } = self;
            let (title, cause) = (self.title(), mask_passwords(cause));
            return write!(f, "{title}: {}: {cause}\n  = help: {remedy}", source.name);
        };
        // Passes only the affected lines: the renderer scans its whole input for each problem.
        let from = text.get(..span.start).and_then(|before| before.rfind('\n')).map_or(0, |end| end + 1);
        let to = text
            .get(span.end..)
            .and_then(|after| after.find('\n'))
            .map_or(text.len(), |end| span.end + end + 1);
        // A line of megabytes would be copied several times for each problem.
        if to - from > LONGEST_SHOWN {
            return self.write_without_line(f, from, span.start);
        }
        let lines_before = text.get(..from).map_or(0, |before| before.matches('\n').count());
        let mark = AnnotationKind::Primary.span(span.start - from..span.end - from).label(&self.remedy);
        let snippet = Snippet::source(text.get(from..to).unwrap_or_default())
            .line_start(lines_before + 1)
            .path(&self.source.name)
            .annotation(mark);
        let level = if self.severity == Severity::Error { Level::ERROR } else { Level::WARNING };
        let report = [level.primary_title(&self.cause).element(snippet)];
        // The line may also contain a URL with a password.
        f.write_str(&mask_passwords(&Renderer::plain().render(&report)))
    }
}

impl Problem {
    fn title(&self) -> &'static str {
        if self.severity == Severity::Error { "error" } else { "warning" }
    }

    /// Writes the problem with line and column, but without the text of the line.
    fn write_without_line(&self, f: &mut fmt::Formatter<'_>, from: usize, start: usize) -> fmt::Result {
        let Self { source, cause, remedy, .. } = self;
        let lines_before = source.text.get(..from).map_or(0, |before| before.matches('\n').count());
        let column = source.text.get(from..start).map_or(1, |before| before.chars().count() + 1);
        let place = format!("{}:{}:{column}", source.name, lines_before + 1);
        write!(f, "{}: {place}: {}\n  = help: {remedy}", self.title(), mask_passwords(cause))
    }
}

/// Upper bound of problems in one report.
const SHOWN: usize = 50;
/// Longest text, in bytes, that a problem shows of its file.
const LONGEST_SHOWN: usize = 16 << 10;

/// All problems found.
#[derive(Debug, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in self.0.iter().take(SHOWN) {
            writeln!(f, "{problem}\n")?;
        }
        if self.0.len() > SHOWN {
            writeln!(f, "... and {} more like these\n", self.0.len() - SHOWN)?;
        }
        match self.0.len() {
            1 => f.write_str("1 problem; nothing was loaded"),
            count => write!(f, "{count} problems; nothing was loaded"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Problem, Problems, SHOWN, SourceText};
    use std::sync::Arc;

    // Fails when lines are passed without their ends: then a carriage return is shown.
    #[test]
    fn many_problems_are_rendered_fast_with_correct_lines() {
        let lines: Vec<String> = (0..20_000).map(|number| format!("- é{number}\r\n")).collect();
        let source = Arc::new(SourceText { name: "a.yaml".into(), text: lines.concat() });
        let starts = source.text.match_indices('é').map(|(at, _)| at);
        let problems = starts.map(|at| Problem::new(&source, Some((at..at + 3).into()), "wrong", "remedy"));
        let shown = Problems(problems.collect()).to_string();
        assert_eq!(shown.matches("error: wrong").count(), SHOWN);
        assert!(shown.contains(" --> a.yaml:50:3\n"), "{shown}");
        assert!(shown.contains("50 | - é49\n   |   ^^ remedy"), "{shown}");
        assert!(shown.ends_with("... and 19950 more like these\n\n20000 problems; nothing was loaded"));
    }

    // Seen failing on: a line of 8 MB, rendered once for each of 50 problems.
    #[test]
    fn problem_in_very_long_line_is_shown_without_it() {
        let text = format!("a: 1\n[{}]", "é, ".repeat(10_000));
        let source = Arc::new(SourceText { name: "a.yaml".into(), text });
        let shown = Problem::new(&source, Some((10..12).into()), "wrong", "remedy").to_string();
        assert_eq!(shown, "error: a.yaml:2:5: wrong\n  = help: remedy");
    }

    #[test]
    fn problem_over_several_lines_is_shown_whole() {
        let source = Arc::new(SourceText { name: "a.yaml".into(), text: "a\nb: [\n1]\nc\n".into() });
        let shown = Problem::new(&source, Some((5..9).into()), "wrong", "remedy").to_string();
        assert!(shown.contains(" --> a.yaml:2:4\n") && shown.contains("3 | | 1]\n"), "{shown}");
    }
}
