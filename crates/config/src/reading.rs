//! Reads the tree key by key. A key is known because somebody asked for it, so the
//! list of keys cannot differ from what is read; what nobody asked for is unknown.

use super::document::{Node, Value};
use super::kind::Kind;
use super::masked::masked;
use super::places::Places;
use super::problem::{Problem, Source};
use super::shape::{Shape, Taken};
use super::words::is_no;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// What stands behind a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Section,
    Value,
    /// A value that is read under another name now, or not at all.
    Superseded,
}

/// What was asked for, and what was wrong.
pub struct Reading<'n> {
    pub places: &'n Places,
    pub known: BTreeMap<String, Known>,
    pub shapes: BTreeMap<String, Shape>,
    /// With where they begin, so that they can be told in the order of the file.
    errors: Vec<(usize, Problem)>,
    warnings: Vec<(usize, Problem)>,
}

impl<'n> Reading<'n> {
    pub fn new(places: &'n Places) -> Self {
        Self {
            places,
            known: BTreeMap::new(),
            shapes: BTreeMap::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
        }
    }

    pub fn root(&mut self, node: &'n Node) -> Section<'_, 'n> {
        Section::new(self, String::new(), Some(node))
    }

    pub fn error(&mut self, span: &Range<usize>, cause: String, remedy: String) {
        self.errors.push((span.start, self.places.problem(span, cause, remedy)));
    }

    fn warn(&mut self, span: &Range<usize>, cause: String, remedy: String) {
        self.warnings.push((span.start, self.places.problem(span, cause, remedy).into_warning()));
    }

    /// About a variable that is not in the tree.
    pub fn warn_of_variable(&mut self, name: &str, cause: &str, remedy: String) {
        let source = Arc::new(Source { name: name.to_owned(), text: String::new() });
        self.warnings.push((usize::MAX, Problem::new(&source, None, cause, remedy).into_warning()));
    }

    /// Errors and warnings, each in the order of the file.
    pub fn finish(mut self) -> (Vec<Problem>, Vec<Problem>) {
        let in_order = |problems: &mut Vec<(usize, Problem)>| {
            problems.sort_by_key(|(start, _)| *start);
            std::mem::take(problems).into_iter().map(|(_, problem)| problem).collect()
        };
        (in_order(&mut self.errors), in_order(&mut self.warnings))
    }
}

/// One map of the tree, or the absence of it.
pub struct Section<'r, 'n> {
    reading: &'r mut Reading<'n>,
    path: String,
    pairs: &'n [(Node, Node)],
}

impl<'r, 'n> Section<'r, 'n> {
    fn new(reading: &'r mut Reading<'n>, path: String, node: Option<&'n Node>) -> Self {
        let pairs = match node.map(|node| (&node.value, &node.span)) {
            None | Some((Value::Null, _)) => &[][..],
            Some((Value::Map(pairs), _)) => pairs,
            Some((other, span)) => {
                let name = if path.is_empty() { "the file".to_owned() } else { format!("`{path}`") };
                let cause = format!("{name} is a section with keys of its own, and this is {}", other.kind());
                reading.error(span, cause, "see docs/reference/configuration.md for its keys".into());
                &[]
            }
        };
        Self { reading, path, pairs }
    }

    pub fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn pair(&self, key: &str) -> Option<(&'n Node, &'n Node)> {
        let is_key = |node: &Node| matches!(&node.value, Value::Scalar { text, .. } if text == key);
        let (name, value) = self.pairs.iter().find(|(name, _)| is_key(name))?;
        // A key with nothing behind it is a key that was left out.
        (!matches!(value.value, Value::Null)).then_some((name, value))
    }

    fn ask(&mut self, key: &str, known: Known) -> Option<&'n Node> {
        self.reading.known.insert(self.path(key), known);
        self.pair(key).map(|(_, value)| value)
    }

    /// The first to ask for a key says what it takes: a list of one is asked for as one.
    fn note(&mut self, key: &str, shape: impl FnOnce() -> Shape) {
        self.reading.shapes.entry(self.path(key)).or_insert_with(shape);
    }

    /// Whether the key is there; it does not become known by that.
    pub fn has(&self, key: &str) -> bool {
        self.pair(key).is_some()
    }

    /// Whether a list without items stands there.
    pub fn is_empty_list(&self, key: &str) -> bool {
        self.pair(key).is_some_and(|(_, node)| matches!(&node.value, Value::List(items) if items.is_empty()))
    }

    /// Whether anything is in it. The item of a list that only makes keys known has nothing.
    pub fn is_there(&self) -> bool {
        !self.pairs.is_empty()
    }

    /// The section, and whether `off` stands in its place.
    pub fn section_or_off(&mut self, key: &str) -> (bool, Section<'_, 'n>) {
        self.note(key, || Shape::Section { or_off: true });
        let node = self.ask(key, Known::Section);
        let is_off = |node: &Node| matches!(&node.value, Value::Scalar { text, .. } if is_no(text));
        let off = node.is_some_and(is_off);
        let path = self.path(key);
        (off, Section::new(self.reading, path, node.filter(|_| !off)))
    }

    pub fn section(&mut self, key: &str) -> Section<'_, 'n> {
        self.note(key, || Shape::Section { or_off: false });
        let node = self.ask(key, Known::Section);
        let path = self.path(key);
        Section::new(self.reading, path, node)
    }

    /// Reads every item of a list of sections.
    pub fn each(&mut self, key: &str, mut read: impl FnMut(&mut Section<'_, 'n>)) {
        self.note(key, || Shape::Sections);
        let node = self.ask(key, Known::Section);
        let path = self.path(&format!("{key}[]"));
        // The item that is not there makes the keys of an item known where the list is empty.
        read(&mut Section::new(self.reading, path.clone(), None));
        let Some(node) = node else { return };
        match &node.value {
            Value::List(items) => {
                for item in items {
                    read(&mut Section::new(self.reading, path.clone(), Some(item)));
                }
            }
            other => {
                let cause = format!("`{}` is a list, and this is {}", self.path(key), other.kind());
                self.reading.error(&node.span, cause, "begin each item with `- `".into());
            }
        }
    }

    /// Goes over the items of a list once more, after [`each`](Self::each) has made their keys known.
    pub fn again(&mut self, key: &str, mut look: impl FnMut(&mut Section<'_, 'n>)) {
        let path = self.path(&format!("{key}[]"));
        let Some((_, Node { value: Value::List(items), .. })) = self.pair(key) else { return };
        for item in items {
            look(&mut Section::new(self.reading, path.clone(), Some(item)));
        }
    }

    /// How many mistakes were found so far, in all of the file.
    pub fn mistakes(&self) -> usize {
        self.reading.errors.len()
    }

    pub fn read<T>(&mut self, key: &str, kind: &Kind<T>) -> Option<T> {
        self.note(key, || Shape::One(Taken::of(kind)));
        let node = self.ask(key, Known::Value)?;
        self.scalar(node, key, kind)
    }

    /// A list; the environment may write it with commas.
    pub fn list<T>(&mut self, key: &str, kind: &Kind<T>) -> Vec<T> {
        self.note(key, || Shape::Several(Taken::of(kind)));
        let Some(node) = self.ask(key, Known::Value) else { return Vec::new() };
        let span = &node.span;
        match &node.value {
            Value::List(items) => items.iter().filter_map(|item| self.scalar(item, key, kind)).collect(),
            Value::Scalar { text, .. } if self.reading.places.is_variable(node) => {
                let items = text.split(',').map(|item| self.parse(item.trim(), span, key, kind));
                items.flatten().collect()
            }
            other => {
                let cause = format!("`{}` is a list, and this is {}", self.path(key), other.kind());
                self.reading.error(span, cause, format!("put it in brackets, as in `[{}]`", kind.example));
                Vec::new()
            }
        }
    }

    /// A single value, or a list of such; the environment may write that with commas.
    pub fn one_or_list<T>(&mut self, key: &str, kind: &Kind<T>) -> Vec<T> {
        self.note(key, || Shape::OneOrSeveral(Taken::of(kind)));
        match self.pair(key) {
            Some((_, node @ Node { value: Value::Scalar { text, .. }, .. }))
                if !(text.contains(',') && self.reading.places.is_variable(node)) =>
            {
                self.read(key, kind).into_iter().collect()
            }
            _ => self.list(key, kind),
        }
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&mut self, key: &str, choices: &[(&'static str, T)]) -> Option<T> {
        self.note(key, || Shape::Choice(choices.iter().map(|(name, _)| *name).collect()));
        let node = self.ask(key, Known::Value)?;
        let text = match &node.value {
            Value::Scalar { text, .. } => text.as_str(),
            other => other.kind(),
        };
        let chosen = choices.iter().find(|(name, _)| *name == text);
        if chosen.is_none() {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let cause = format!("`{}` cannot be {}", self.path(key), shown(text));
            self.reading.error(&node.span, cause, format!("one of: {}", names.join(", ")));
        }
        chosen.map(|(_, value)| *value)
    }

    /// Reads a key of an older design and says what became of it. `now` is the key it is read as.
    pub fn superseded<T>(&mut self, key: &str, kind: &Kind<T>, now: Result<&str, &str>) -> Option<T> {
        self.note(key, || Shape::One(Taken::of(kind)));
        let node = self.ask(key, Known::Superseded)?;
        let value = self.scalar(node, key, kind)?;
        let (cause, remedy) = match now {
            Ok(now) => (
                format!("`{}` is now `{now}`; it is read as that, unless both are there", self.path(key)),
                format!("write `{}` instead", self.reading.places.name(&node.span, now)),
            ),
            Err(why) => (format!("`{}` has no effect: {why}", self.path(key)), "leave it out".to_owned()),
        };
        let span = self.span(key);
        self.reading.warn(&span, cause, remedy);
        Some(value)
    }

    /// A warning about a value that must not be shown.
    pub fn warn_hidden(&mut self, key: &str, cause: String, remedy: &str) {
        let span = self.span(key);
        let problem = self.reading.places.hidden(&span, cause, remedy.to_owned());
        self.reading.warnings.push((span.start, problem.into_warning()));
    }

    /// As [`Section::refuse`], about a value that must not be shown.
    pub fn refuse_hidden(&mut self, key: &str, cause: String, remedy: &str) {
        let span = self.span(key);
        let problem = self.reading.places.hidden(&span, cause, remedy.to_owned());
        self.reading.errors.push((span.start, problem));
    }

    /// What is asked for and not there yet, and must not be missing in silence.
    pub fn refuse(&mut self, key: &str, cause: String, remedy: &str) {
        let span = self.pair(key).map_or(self.span(key), |(_, value)| match value.value {
            Value::Scalar { .. } => value.span.clone(),
            // A section is pointed at by its name, not by all of its lines.
            _ => self.span(key),
        });
        self.reading.error(&span, cause, remedy.to_owned());
    }

    /// What is missing in this section: told at its first key.
    pub fn lacks(&mut self, cause: String, remedy: &str) {
        let span = self.pairs.first().map_or(0..0, |(name, _)| name.span.clone());
        self.reading.error(&span, cause, remedy.to_owned());
    }

    /// What does what it says, and should be known to whoever runs it.
    pub fn warn(&mut self, key: &str, cause: String, remedy: &str) {
        let span = self.span(key);
        self.reading.warn(&span, cause, remedy.to_owned());
    }

    fn span(&self, key: &str) -> Range<usize> {
        self.pair(key).map_or(0..0, |(name, _)| name.span.clone())
    }

    fn scalar<T>(&mut self, node: &Node, key: &str, kind: &Kind<T>) -> Option<T> {
        match &node.value {
            Value::Scalar { text, plain } if *plain || !kind.bare => self.parse(text, &node.span, key, kind),
            other => {
                let quoted = matches!(other, Value::Scalar { .. });
                let found = if quoted { "a text in quotes" } else { other.kind() };
                let cause = format!("`{}` is {}, and this is {found}", self.path(key), kind.what);
                let example = self.example(&node.span, key, kind);
                let remedy = if quoted { "write it without quotes, as in" } else { "write it as in" };
                self.reading.error(&node.span, cause, format!("{remedy} `{example}`"));
                None
            }
        }
    }

    fn parse<T>(&mut self, text: &str, span: &Range<usize>, key: &str, kind: &Kind<T>) -> Option<T> {
        let value = (kind.parse)(text);
        if value.is_none() {
            let (path, what) = (self.path(key), kind.what);
            let remedy = format!("write it as in `{}`", self.example(span, key, kind));
            if kind.secret {
                let cause = format!("`{path}` is {what}, and the value given is not (it is not shown)");
                let problem = self.reading.places.hidden(span, cause, remedy);
                self.reading.errors.push((span.start, problem));
            } else {
                self.reading.error(span, format!("`{path}` is {what}, and {} is not", shown(text)), remedy);
            }
        }
        value
    }

    fn example<T>(&self, span: &Range<usize>, key: &str, kind: &Kind<T>) -> String {
        self.reading.places.example(span, &self.path(key), kind.example, kind.bare)
    }
}

/// A value in a sentence; a long one in part.
fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    let text = masked(text);
    let short: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().count() > LONGEST { format!("`{short}...`") } else { format!("`{short}`") }
}
