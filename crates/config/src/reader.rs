//! Reader of a configuration tree, key by key. Each read registers its key, so the list of known keys cannot differ
//! from the keys that are read; every other key is unknown.

use super::document::{SpannedValue, Value};
use super::key_type::{KeyType, ValueSpec};
use super::password_mask::mask_passwords;
use super::problem::{Problem, SourceText, TextSpan};
use super::source_map::SourceMap;
use super::spelling::is_falsy;
use super::value_kind::ValueKind;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Role of a known key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRole {
    Section,
    Value,
    /// A deprecated key: it has another name now, or no effect.
    Superseded,
}

/// Known keys and problems found so far.
pub struct ConfigReader<'n> {
    pub places: &'n SourceMap,
    pub roles: BTreeMap<String, KeyRole>,
    pub types: BTreeMap<String, KeyType>,
    /// With their offsets, to report them in file order.
    errors: Vec<(u32, Problem)>,
    warnings: Vec<(u32, Problem)>,
}

impl<'n> ConfigReader<'n> {
    pub fn new(places: &'n SourceMap) -> Self {
        Self {
            places,
            roles: BTreeMap::new(),
            types: BTreeMap::new(),
            errors: Vec::new(),
            warnings: Vec::new(),
        }
    }

    pub fn root(&mut self, node: &'n SpannedValue) -> Section<'_, 'n> {
        Section::new(self, String::new(), Some(node))
    }

    pub fn error(&mut self, span: TextSpan, cause: String, remedy: String) {
        self.errors.push((span.start, self.places.problem(span, cause, remedy)));
    }

    fn warn(&mut self, span: TextSpan, cause: String, remedy: String) {
        self.warnings.push((span.start, self.places.problem(span, cause, remedy).into_warning()));
    }

    /// Warns about a variable that is not in the tree.
    pub fn warn_of_variable(&mut self, name: &str, cause: &str, remedy: String) {
        let source = Arc::new(SourceText { name: name.to_owned(), text: String::new() });
        self.warnings.push((u32::MAX, Problem::new(&source, None, cause, remedy).into_warning()));
    }

    /// Returns errors and warnings, each in file order.
    pub fn finish(mut self) -> (Vec<Problem>, Vec<Problem>) {
        let in_order = |problems: &mut Vec<(u32, Problem)>| {
            problems.sort_by_key(|(start, _)| *start);
            std::mem::take(problems).into_iter().map(|(_, problem)| problem).collect()
        };
        (in_order(&mut self.errors), in_order(&mut self.warnings))
    }
}

/// One map of the tree; empty if the key is missing.
pub struct Section<'r, 'n> {
    reader: &'r mut ConfigReader<'n>,
    path: String,
    pairs: &'n [(SpannedValue, SpannedValue)],
}

impl<'r, 'n> Section<'r, 'n> {
    fn new(reader: &'r mut ConfigReader<'n>, path: String, node: Option<&'n SpannedValue>) -> Self {
        let pairs = match node.map(|node| (&node.value, node.span)) {
            None | Some((Value::Null, _)) => &[][..],
            Some((Value::Map(pairs), _)) => pairs,
            Some((other, span)) => {
                let name = if path.is_empty() { "the file".to_owned() } else { format!("`{path}`") };
                let cause = format!("{name} is a section with keys of its own, and this is {}", other.kind());
                reader.error(span, cause, "see docs/reference/configuration.md for its keys".into());
                &[]
            }
        };
        Self { reader, path, pairs }
    }

    pub fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn pair(&self, key: &str) -> Option<(&'n SpannedValue, &'n SpannedValue)> {
        let is_key =
            |node: &SpannedValue| matches!(&node.value, Value::Scalar { text, .. } if **text == *key);
        let (name, value) = self.pairs.iter().find(|(name, _)| is_key(name))?;
        // A key without a value counts as missing.
        (!matches!(value.value, Value::Null)).then_some((name, value))
    }

    fn ask(&mut self, key: &str, known: KeyRole) -> Option<&'n SpannedValue> {
        self.reader.roles.insert(self.path(key), known);
        self.pair(key).map(|(_, value)| value)
    }

    /// Records a key's type. The first read decides, because a list of one item is read as a single value later.
    fn note(&mut self, key: &str, shape: impl FnOnce() -> KeyType) {
        self.reader.types.entry(self.path(key)).or_insert_with(shape);
    }

    /// Whether the key is present. Does not make it known.
    pub fn has(&self, key: &str) -> bool {
        self.pair(key).is_some()
    }

    /// Whether the value is an empty list.
    pub fn is_empty_list(&self, key: &str) -> bool {
        self.pair(key).is_some_and(|(_, node)| matches!(&node.value, Value::List(items) if items.is_empty()))
    }

    /// Whether the section has any key. The placeholder item that only registers keys has none.
    pub fn is_there(&self) -> bool {
        !self.pairs.is_empty()
    }

    /// Returns the section, and whether `off` replaces it.
    pub fn section_or_off(&mut self, key: &str) -> (bool, Section<'_, 'n>) {
        self.note(key, || KeyType::Section { or_off: true });
        let node = self.ask(key, KeyRole::Section);
        let is_off =
            |node: &SpannedValue| matches!(&node.value, Value::Scalar { text, .. } if is_falsy(text));
        let off = node.is_some_and(is_off);
        let path = self.path(key);
        (off, Section::new(self.reader, path, node.filter(|_| !off)))
    }

    pub fn section(&mut self, key: &str) -> Section<'_, 'n> {
        self.note(key, || KeyType::Section { or_off: false });
        let node = self.ask(key, KeyRole::Section);
        let path = self.path(key);
        Section::new(self.reader, path, node)
    }

    /// Reads every item of a list of sections.
    pub fn each(&mut self, key: &str, mut read: impl FnMut(&mut Section<'_, 'n>)) {
        self.note(key, || KeyType::Sections);
        let node = self.ask(key, KeyRole::Section);
        let path = self.path(&format!("{key}[]"));
        // A missing item registers the keys of an item even if the list is empty.
        read(&mut Section::new(self.reader, path.clone(), None));
        let Some(node) = node else { return };
        match &node.value {
            Value::List(items) => {
                for item in items {
                    read(&mut Section::new(self.reader, path.clone(), Some(item)));
                }
            }
            other => {
                let cause = format!("`{}` is a list, and this is {}", self.path(key), other.kind());
                self.reader.error(node.span, cause, "begin each item with `- `".into());
            }
        }
    }

    /// Reads the items of a list again, after [`each`](Self::each) has registered their keys.
    pub fn again(&mut self, key: &str, mut look: impl FnMut(&mut Section<'_, 'n>)) {
        let path = self.path(&format!("{key}[]"));
        let Some((_, SpannedValue { value: Value::List(items), .. })) = self.pair(key) else { return };
        for item in items {
            look(&mut Section::new(self.reader, path.clone(), Some(item)));
        }
    }

    /// Number of errors found so far in the whole file.
    pub fn mistakes(&self) -> usize {
        self.reader.errors.len()
    }

    pub fn read<T>(&mut self, key: &str, kind: &ValueKind<T>) -> Option<T> {
        self.note(key, || KeyType::One(ValueSpec::of(kind)));
        let node = self.ask(key, KeyRole::Value)?;
        self.scalar(node, key, kind)
    }

    /// Reads a list; a variable may separate items by commas.
    pub fn list<T>(&mut self, key: &str, kind: &ValueKind<T>) -> Vec<T> {
        self.note(key, || KeyType::Several(ValueSpec::of(kind)));
        let Some(node) = self.ask(key, KeyRole::Value) else { return Vec::new() };
        let span = node.span;
        match &node.value {
            Value::List(items) => items.iter().filter_map(|item| self.scalar(item, key, kind)).collect(),
            Value::Scalar { text, .. } if self.reader.places.is_variable(node) => {
                let items = text.split(',').map(|item| self.parse(item.trim(), span, key, kind));
                items.flatten().collect()
            }
            other => {
                let cause = format!("`{}` is a list, and this is {}", self.path(key), other.kind());
                self.reader.error(span, cause, format!("put it in brackets, as in `[{}]`", kind.example));
                Vec::new()
            }
        }
    }

    /// Reads a single value or a list; a variable may separate items by commas.
    pub fn one_or_list<T>(&mut self, key: &str, kind: &ValueKind<T>) -> Vec<T> {
        self.note(key, || KeyType::OneOrSeveral(ValueSpec::of(kind)));
        match self.pair(key) {
            Some((_, node @ SpannedValue { value: Value::Scalar { text, .. }, .. }))
                if !(text.contains(',') && self.reader.places.is_variable(node)) =>
            {
                self.read(key, kind).into_iter().collect()
            }
            _ => self.list(key, kind),
        }
    }

    /// Reads one of a few words.
    pub fn choice<T: Copy>(&mut self, key: &str, choices: &[(&'static str, T)]) -> Option<T> {
        self.note(key, || KeyType::Choice(choices.iter().map(|(name, _)| *name).collect()));
        let node = self.ask(key, KeyRole::Value)?;
        let text = match &node.value {
            Value::Scalar { text, .. } => &**text,
            other => other.kind(),
        };
        let chosen = choices.iter().find(|(name, _)| *name == text);
        if chosen.is_none() {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let cause = format!("`{}` cannot be {}", self.path(key), shown(text));
            self.reader.error(node.span, cause, format!("one of: {}", names.join(", ")));
        }
        chosen.map(|(_, value)| *value)
    }

    /// Reads a deprecated key and warns. `now` is its new name, or the reason why it has no effect.
    pub fn superseded<T>(&mut self, key: &str, kind: &ValueKind<T>, now: Result<&str, &str>) -> Option<T> {
        self.note(key, || KeyType::One(ValueSpec::of(kind)));
        let node = self.ask(key, KeyRole::Superseded)?;
        let value = self.scalar(node, key, kind)?;
        let (cause, remedy) = match now {
            Ok(now) => (
                format!("`{}` is now `{now}`; it is read as that, unless both are there", self.path(key)),
                format!("write `{}` instead", self.reader.places.name(node.span, now)),
            ),
            Err(why) => (format!("`{}` has no effect: {why}", self.path(key)), "leave it out".to_owned()),
        };
        let span = self.span(key);
        self.reader.warn(span, cause, remedy);
        Some(value)
    }

    /// Warns about a value that must not be shown.
    pub fn warn_hidden(&mut self, key: &str, cause: String, remedy: &str) {
        let span = self.span(key);
        let problem = self.reader.places.hidden(span, cause, remedy.to_owned());
        self.reader.warnings.push((span.start, problem.into_warning()));
    }

    /// Like [`Section::refuse`], for a value that must not be shown.
    pub fn refuse_hidden(&mut self, key: &str, cause: String, remedy: &str) {
        let span = self.span(key);
        let problem = self.reader.places.hidden(span, cause, remedy.to_owned());
        self.reader.errors.push((span.start, problem));
    }

    /// Reports an error at a key.
    pub fn refuse(&mut self, key: &str, cause: String, remedy: &str) {
        let span = self.pair(key).map_or(self.span(key), |(_, value)| match value.value {
            Value::Scalar { .. } => value.span,
            // For a section, the mark covers its name and not all of its lines.
            _ => self.span(key),
        });
        self.reader.error(span, cause, remedy.to_owned());
    }

    /// Reports a missing key, at the first key of this section.
    pub fn lacks(&mut self, cause: String, remedy: &str) {
        let span = self.pairs.first().map_or_else(TextSpan::default, |(name, _)| name.span);
        self.reader.error(span, cause, remedy.to_owned());
    }

    /// Warns about a valid value that operators should know of.
    pub fn warn(&mut self, key: &str, cause: String, remedy: &str) {
        let span = self.span(key);
        self.reader.warn(span, cause, remedy.to_owned());
    }

    fn span(&self, key: &str) -> TextSpan {
        self.pair(key).map_or_else(TextSpan::default, |(name, _)| name.span)
    }

    fn scalar<T>(&mut self, node: &SpannedValue, key: &str, kind: &ValueKind<T>) -> Option<T> {
        match &node.value {
            Value::Scalar { text, plain } if *plain || !kind.bare => self.parse(text, node.span, key, kind),
            other => {
                let quoted = matches!(other, Value::Scalar { .. });
                let found = if quoted { "a text in quotes" } else { other.kind() };
                let cause = format!("`{}` is {}, and this is {found}", self.path(key), kind.what);
                let example = self.example(node.span, key, kind);
                let remedy = if quoted { "write it without quotes, as in" } else { "write it as in" };
                self.reader.error(node.span, cause, format!("{remedy} `{example}`"));
                None
            }
        }
    }

    fn parse<T>(&mut self, text: &str, span: TextSpan, key: &str, kind: &ValueKind<T>) -> Option<T> {
        let value = (kind.parse)(text);
        if value.is_none() {
            let (path, what) = (self.path(key), kind.what);
            let remedy = format!("write it as in `{}`", self.example(span, key, kind));
            if kind.secret {
                let cause = format!("`{path}` is {what}, and the value given is not (it is not shown)");
                let problem = self.reader.places.hidden(span, cause, remedy);
                self.reader.errors.push((span.start, problem));
            } else {
                self.reader.error(span, format!("`{path}` is {what}, and {} is not", shown(text)), remedy);
            }
        }
        value
    }

    fn example<T>(&self, span: TextSpan, key: &str, kind: &ValueKind<T>) -> String {
        self.reader.places.example(span, &self.path(key), kind.example, kind.bare)
    }
}

/// Quotes a value for a message, shortened if long, without passwords.
fn shown(text: &str) -> String {
    const LONGEST: usize = 60;
    let text = mask_passwords(text);
    let short: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().count() > LONGEST { format!("`{short}...`") } else { format!("`{short}`") }
}
