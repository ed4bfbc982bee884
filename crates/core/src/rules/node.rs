//! Rule tree of one domain: one level per entry, with a lookup by key and one by value
//! at each level.

use super::RuleError;
use super::rule::{Matcher, ValueMatcher};
use super::wildcards::Wildcards;
use crate::key::Entry;
use std::collections::HashMap;

/// One entry of a rule's path, with the rules below it.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleNode {
    /// The number of the declaration that ends here.
    declared: Option<usize>,
    /// The counter's value in place of the real one, where all values of a wildcard share one counter.
    shared: Option<Box<str>>,
    below: HashMap<Box<str>, ValueNodes>,
}

#[derive(Clone, Debug, Default)]
struct ValueNodes {
    exact: HashMap<Box<str>, RuleNode>,
    wildcards: Wildcards,
    any: Option<Box<RuleNode>>,
}

impl RuleNode {
    pub(super) fn declared(&self) -> Option<usize> {
        self.declared
    }

    pub(super) fn shared_pattern(&self) -> Option<&str> {
        self.shared.as_deref()
    }

    #[cfg(test)]
    pub(super) fn numbered(number: usize) -> Self {
        Self { declared: Some(number), ..Self::default() }
    }

    /// Whether there is room for a path: [`RuleNode::declare`] then creates all of its nodes.
    pub(super) fn check(&self, path: &[Matcher]) -> Result<(), RuleError> {
        let mut node = Some(self);
        for matcher in path {
            let values = node.and_then(|node| node.below.get(&*matcher.key));
            node = values.and_then(|values| values.get(&matcher.value));
            if let (None, ValueMatcher::Wildcard { pattern, .. }) = (node, &matcher.value) {
                values.map_or_else(
                    || Wildcards::default().check(pattern),
                    |values| values.wildcards.check(pattern),
                )?;
            }
        }
        Ok(())
    }

    /// Creates the nodes of a path and stores the declaration's number at its end.
    pub(super) fn declare(&mut self, path: &[Matcher], number: usize) -> Result<(), RuleError> {
        let [matcher, rest @ ..] = path else {
            return match self.declared.replace(number) {
                None => Ok(()),
                Some(first) => {
                    self.declared = Some(first);
                    Err(RuleError::Duplicate)
                }
            };
        };
        let values = self.below.entry((&*matcher.key).into()).or_default();
        values.node(&matcher.value)?.declare(rest, number)
    }

    /// The candidate rules of an entry, in order of precedence: the pattern of each, and
    /// whether it matches. Of exact values, only the one that matches.
    pub(super) fn candidates(&self, (key, value): Entry<'_>) -> Vec<(String, bool, &RuleNode)> {
        let Some(values) = self.below.get(key) else { return Vec::new() };
        let exact = values.exact.get_key_value(value);
        let exact = exact.map(|(exact, node)| (format!("{key}={exact}"), true, node));
        let wildcards = values
            .wildcards
            .all()
            .map(|(pattern, node)| (format!("{key}={}", pattern.text()), pattern.matches(value), node));
        let any = values.any.as_deref().map(|node| (format!("{key} (any value)"), true, node));
        exact.into_iter().chain(wildcards).chain(any).collect()
    }

    /// The node below an entry: by its exact value, else by the first wildcard, else by its key alone.
    pub(super) fn below(&self, (key, value): Entry<'_>) -> Option<&RuleNode> {
        let values = self.below.get(key)?;
        let exact = values.exact.get(value);
        exact.or_else(|| values.wildcards.find(value)).or(values.any.as_deref())
    }
}

impl ValueNodes {
    fn get(&self, matcher: &ValueMatcher) -> Option<&RuleNode> {
        match matcher {
            ValueMatcher::Exact(value) => self.exact.get(&**value),
            ValueMatcher::Any => self.any.as_deref(),
            ValueMatcher::Wildcard { pattern, .. } => self.wildcards.get(pattern),
        }
    }

    fn node(&mut self, matcher: &ValueMatcher) -> Result<&mut RuleNode, RuleError> {
        Ok(match matcher {
            ValueMatcher::Exact(value) => self.exact.entry((&**value).into()).or_default(),
            ValueMatcher::Any => self.any.get_or_insert_default(),
            ValueMatcher::Wildcard { pattern, shared } => {
                let shared = || shared.then(|| (&**pattern).into());
                self.wildcards.node(pattern, || RuleNode { shared: shared(), ..RuleNode::default() })?
            }
        })
    }
}
