//! Parser of one rule file, in the descriptor language of the reference rate limit
//! service with our extensions. Reports all mistakes of a file at once.

#[cfg(test)]
mod page;
#[cfg(test)]
mod page_types;

use super::bounds::{ENTRY, RuleBounds, RulesSize};
use super::limit_reader;
use super::pattern_costs::PatternCosts;
use super::reader::{Fields, RuleFileReader};
use super::response_reader;
use crate::ruleset::{Extras, Ruleset, StatPart, StatPath, joined};
use crate::storage::OnError;
use hivemind_config::document;
use hivemind_config::document::SpannedValue;
use hivemind_config::problem::{Problem, SourceText};
use hivemind_core::store::Mode;
use hivemind_core::{Matcher, Rule, RuleError};
use std::sync::Arc;

/// Deeper nesting is a mistake, or an attack on the reader's stack.
const DEEPEST: usize = 32;

/// Each limit adds to the cost of a request, and with more of them most never decide.
pub(super) const MOST_LIMITS: usize = 8;

pub(super) const FILE_KEYS: &[&str] = &["domain", "descriptors"];
pub(super) const DESCRIPTOR_KEYS: &[&str] = &[
    "key",
    "value",
    "rate_limit",
    "rate_limits",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "share_threshold",
    "detailed_metric",
    "value_to_metric",
    "metadata",
    "response",
];

/// The level that a key of the language belongs to.
pub(super) fn home_of(key: &str) -> Option<&'static str> {
    let homes = [
        (FILE_KEYS, "the file's first level"),
        (DESCRIPTOR_KEYS, "a descriptor"),
        (limit_reader::LIMIT_KEYS, "a `rate_limit`"),
    ];
    homes.iter().find(|(keys, _)| keys.contains(&key)).map(|(_, home)| *home)
}

/// Reads one file into `ruleset` and adds its mistakes to `problems`. Stops at the first exceeded bound.
pub(super) fn read(
    source: &Arc<SourceText>,
    (bounds, size): (&RuleBounds, &mut RulesSize),
    ruleset: &mut Ruleset,
    problems: &mut Vec<Problem>,
) -> Option<String> {
    let root = match document::parse_within(source, &bounds.document) {
        Ok(root) => root,
        Err(problem) => {
            problems.push(problem);
            return None;
        }
    };
    let mut reader = RuleFileReader::new(source, problems);
    let fields = reader.fields(&root, "a file of rules", FILE_KEYS)?;
    let domain = reader.optional_text(&fields, "domain")?;
    if domain.is_empty() {
        let span = fields.get("domain").map(|node| node.span);
        let remedy = "begin the file with `domain: my-app`, the name that the requests carry";
        reader.problem(span, "the file has no domain", remedy);
        return None;
    }
    // The name is not empty, so it can be added. A domain without rules is known as well.
    let _ = ruleset.rules.add_domain(&domain);
    if let Some(descriptors) = fields.get("descriptors") {
        let mut tree = Tree {
            domain: &domain,
            ruleset,
            bounds,
            size,
            path: Vec::new(),
            path_bytes: 0,
            stat: Vec::new(),
        };
        reader.descriptors(descriptors, &mut tree);
    }
    Some(domain)
}

/// The rules of one domain, and the path to the descriptor being read.
struct Tree<'a> {
    domain: &'a str,
    ruleset: &'a mut Ruleset,
    bounds: &'a RuleBounds,
    size: &'a mut RulesSize,
    path: Vec<Matcher>,
    /// The size of the path, as in [`RuleBounds::path_bytes`].
    path_bytes: usize,
    /// How each entry of the path appears in statistics.
    stat: Vec<StatLevel>,
}

struct StatLevel {
    fixed: Arc<str>,
    /// `value_to_metric`: the request's value is a label.
    of_request: bool,
    /// All values share one counter, so the value is not a label.
    shared: bool,
}

impl Tree<'_> {
    fn stat(&self, detailed: bool) -> StatPath {
        let parts = self.stat.iter().map(|level| match level {
            StatLevel { shared: false, of_request, .. } if detailed || *of_request => StatPart::OfRequest,
            StatLevel { fixed, .. } => StatPart::Fixed(Arc::clone(fixed)),
        });
        StatPath(parts.collect())
    }
}

impl RuleFileReader<'_> {
    fn descriptors(&mut self, node: &SpannedValue, tree: &mut Tree<'_>) {
        if tree.path.len() >= DEEPEST {
            let cause = format!("descriptors are nested deeper than {DEEPEST} levels");
            self.problem(Some(node.span), cause, "flatten them: no request carries that many entries");
            return;
        }
        let mut costs = PatternCosts::default();
        for item in self.items(node, "descriptors") {
            if tree.size.stopped || self.is_full() {
                return;
            }
            if let Err(problem) = tree.size.count_rule(tree.bounds, self.source(), item.span) {
                self.add(problem);
                return;
            }
            self.descriptor(item, tree, &mut costs);
        }
        for (place, cause, remedy) in costs.warnings() {
            self.warning(place, cause, remedy);
        }
    }

    fn descriptor(&mut self, node: &SpannedValue, tree: &mut Tree<'_>, costs: &mut PatternCosts) {
        let Some(fields) = self.fields(node, "a descriptor", DESCRIPTOR_KEYS) else { return };
        let Some((matcher, level)) = self.matcher(node, &fields) else { return };
        let value = matcher.value().unwrap_or_default();
        if value.contains('*') {
            costs.add(matcher.key(), value, node.span);
        }
        let (rule, on_error) = self.rule(&fields).unzip();
        let entry_bytes = ENTRY + matcher.key().len() + value.len();
        tree.path_bytes += entry_bytes;
        tree.size.count_path(tree.path_bytes);
        tree.path.push(matcher);
        tree.stat.push(level);
        let extras = Extras {
            place: self.place(node.span),
            stat: tree.stat(self.flag(&fields, "detailed_metric")),
            metadata: fields.get("metadata").and_then(|node| self.metadata(node)),
            response: fields
                .get("response")
                .map(|node| response_reader::read(self, node))
                .unwrap_or_default(),
            on_error: on_error.flatten(),
        };
        match tree.ruleset.rules.add(tree.domain, &tree.path, rule) {
            Ok(()) => tree.ruleset.extras.push(extras),
            Err(error) => {
                let place = fields.get("key").unwrap_or(node);
                let (cause, remedy) = explain(error);
                self.problem(Some(place.span), cause, remedy);
            }
        }
        if let Some(below) = fields.get("descriptors") {
            self.descriptors(below, tree);
        }
        tree.path.pop();
        tree.stat.pop();
        tree.path_bytes -= entry_bytes;
    }

    fn metadata(&mut self, node: &SpannedValue) -> Option<serde_json::Value> {
        let value = node.to_json();
        if !value.is_object() {
            let cause = format!("`metadata` is a map, and this is {}", node.value.kind());
            self.problem(Some(node.span), cause, "write `metadata: {backend: blue}`");
            return None;
        }
        Some(value)
    }

    fn matcher(&mut self, node: &SpannedValue, fields: &Fields<'_>) -> Option<(Matcher, StatLevel)> {
        let key = self.optional_text(fields, "key")?;
        if key.is_empty() {
            let place = fields.get("key").unwrap_or(node);
            let remedy = "name the entry it matches, as in `key: remote_address`";
            self.problem(Some(place.span), "the descriptor has no key", remedy);
            return None;
        }
        let value = self.optional_text(fields, "value")?;
        let shared = self.flag(fields, "share_threshold");
        if shared && !value.contains('*') {
            let place = fields.get("share_threshold").unwrap_or(node);
            let cause = "`share_threshold` is for values with a `*`, and this one has none";
            self.problem(Some(place.span), cause, "leave it out, or write `value: prefix*`");
        }
        let fixed = joined((&key, &value)).into();
        let level = StatLevel { fixed, of_request: self.flag(fields, "value_to_metric"), shared };
        let matcher = match (value.as_str(), shared) {
            ("", _) => Matcher::any(key),
            (pattern, true) if pattern.contains('*') => Matcher::shared_wildcard(key, pattern),
            (pattern, false) if pattern.contains('*') => Matcher::wildcard(key, pattern),
            (exact, _) => Matcher::exact(key, exact),
        };
        Some((matcher, level))
    }

    fn rule(&mut self, fields: &Fields<'_>) -> Option<(Rule, Option<OnError>)> {
        let mode = match (self.flag(fields, "shadow_mode"), self.flag(fields, "quota_mode")) {
            (true, _) => Mode::Shadow,
            (false, true) => Mode::Quota,
            (false, false) => Mode::Enforce,
        };
        let (one, several) = (fields.get("rate_limit"), fields.get("rate_limits"));
        let (mut rule, on_error) = match (one, several) {
            (Some(_), Some(several)) => {
                let cause = "a descriptor has `rate_limit` or `rate_limits`, not both";
                self.problem(Some(several.span), cause, "put all its limits under `rate_limits`");
                return None;
            }
            (Some(one), None) => limit_reader::rule(self, std::slice::from_ref(one))?,
            (None, Some(several)) => {
                let limits = self.items(several, "rate_limits");
                if limits.is_empty() {
                    let remedy = "add a limit, or leave the key out";
                    self.problem(Some(several.span), "`rate_limits` has no limit", remedy);
                    return None;
                }
                if limits.len() > MOST_LIMITS {
                    let cause = format!("`rate_limits` has more than {MOST_LIMITS} limits");
                    let remedy = "keep the tightest: each is charged for every request";
                    self.problem(Some(several.span), cause, remedy);
                    return None;
                }
                limit_reader::rule(self, limits)?
            }
            (None, None) => return None,
        };
        rule.mode = mode;
        Some((rule, on_error))
    }
}

fn explain(error: RuleError) -> (String, String) {
    let text = error.to_string();
    let (cause, remedy) = text.split_once("; ").unwrap_or((&text, "see docs/reference/rules.md"));
    (cause.to_owned(), remedy.to_owned())
}
