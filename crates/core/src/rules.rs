//! Rate limit rules: the limits that apply to a descriptor. A rule set is an immutable
//! value: it is built and swapped whole, so a decision never sees half of a change.
//!
//! Matching follows the reference service. At each entry: the exact value, else the
//! first wildcard in the order of declaration, else the rule without a value. The
//! depth must be equal, a parent's limit does not replace a missing child's, and the
//! search does not backtrack. Key and value are compared separately, never as a joined
//! string.
//!
//! ```
//! use hivemind_core::rules::{ExplanationEnd, Matcher, Rule, Rules};
//! use hivemind_core::{Limit, Period};
//!
//! let of = |requests| Rule::limit(Limit::fixed_window(requests, Period::MINUTE));
//! let rules = Rules::new()
//!     .with("shop", &[Matcher::any("user")], of(10))?
//!     .with("shop", &[Matcher::wildcard("user", "bot-*")], of(2))?
//!     .with("shop", &[Matcher::exact("user", "bot-7")], of(5))?;
//! let number = |user| match rules.explain("shop", &[("user", user)]).end {
//!     ExplanationEnd::Rule(number, _) => number,
//!     other => unreachable!("{other:?}"),
//! };
//! assert_eq!([number("ada"), number("bot-1"), number("bot-7")], [0, 1, 2]);
//! # Ok::<(), hivemind_core::RuleError>(())
//! ```

mod explanation;
mod middle_index;
mod node;
mod pattern;
mod prefixes;
mod resolved;
mod rule;
mod wildcards;

pub use explanation::{CandidateOutcome, ExplainedEntry, Explanation, ExplanationEnd};
pub use resolved::{ResolvedRequest, RuleMatch};
pub use rule::{Budget, Matcher, Rule};

use crate::key::{Entry, KeySeed};
use crate::limit::Limit;
use crate::store::Op;
use crate::verdict::Cost;
use node::RuleNode;
use prefixes::Prefixes;
use resolved::DescriptorMatch;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// A request's entries and cost: charged to the limits of the matching rule.
///
/// ```
/// use hivemind_core::store::Op;
/// use hivemind_core::{Cost, Descriptor, Limit, Period};
///
/// let request = Descriptor::new(&[("user", "ada"), ("path", "/search")]);
/// assert_eq!((request.cost, request.op), (Cost::ONE, Op::Spend));
// A request that costs five, under a limit of its own.
/// let heavy = Descriptor { cost: Cost::new(5), limit: Some(Limit::fixed_window(9, Period::DAY)), ..request };
/// assert_eq!(heavy.entries, request.entries);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    /// Its entries, in order.
    pub entries: &'a [Entry<'a>],
    /// Its cost.
    pub cost: Cost,
    /// The operation.
    pub op: Op,
    /// A limit in the request, which replaces the limits of the rules.
    pub limit: Option<Limit>,
}

impl<'a> Descriptor<'a> {
    /// One request with these `entries`, at a cost of one.
    ///
    /// ```
    /// # use hivemind_core::Descriptor;
    /// let ada = Descriptor::new(&[("user", "ada")]);
    /// assert!(ada.limit.is_none()); // The rules decide.
    /// ```
    #[must_use]
    pub const fn new(entries: &'a [Entry<'a>]) -> Self {
        Self { entries, cost: Cost::ONE, op: Op::Spend, limit: None }
    }
}

/// An invalid rule.
///
/// ```
/// use hivemind_core::{Budget, Matcher, Rule, RuleError, Rules};
///
/// let nothing = Rule::new(Budget::Limits(vec![]));
/// let error = Rules::new().with("shop", &[Matcher::any("user")], nothing).unwrap_err();
/// assert_eq!(error, RuleError::NoLimits);
/// assert_eq!(error.to_string(), "rule without limits; add one, or make the rule unlimited to pass all requests");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// A domain without a name.
    #[error("empty domain name; write `domain: my-app`")]
    EmptyDomain,
    /// A rule without entries to match.
    #[error("rule without entries to match; give it a key")]
    EmptyPath,
    /// An entry without a key.
    #[error("entry without a key; write `key: remote_address`")]
    EmptyKey,
    /// A rule without limits that is not unlimited.
    #[error("rule without limits; add one, or make the rule unlimited to pass all requests")]
    NoLimits,
    /// A second rule for the same entries.
    #[error("these entries already have a rule; merge the two, or give one of them another value")]
    Duplicate,
    /// More patterns under one key than the index supports.
    #[error("a key has more than {most} patterns; match several values by one pattern, or list exact values")]
    TooManyPatterns {
        /// The bound.
        most: usize,
    },
    /// More pairs of lengths, before the first star and after the last, than the index supports.
    #[error(
        "the patterns of a key have more than {most} pairs of lengths before their first `*` and after their last; \
         shorten them to equal lengths"
    )]
    TooManyPatternLengths {
        /// The bound.
        most: usize,
    },
    /// A pattern that is too long.
    #[error("a pattern is longer than {most} bytes; shorten it to the part that differs")]
    LongPattern {
        /// The bound.
        most: usize,
    },
}

/// A set of rules.
///
/// ```
/// use hivemind_core::{Descriptor, Limit, Matcher, Period, Rule, Rules};
///
/// let rule = Rule::limit(Limit::fixed_window(100, Period::MINUTE));
/// let rules = Rules::new().with("shop", &[Matcher::any("user"), Matcher::exact("path", "/search")], rule)?;
/// let descriptors =
///     [Descriptor::new(&[("user", "ada"), ("path", "/search")]), Descriptor::new(&[("user", "ada")])];
/// let resolved = rules.resolve("shop", &descriptors);
// The second is not as deep as the rule, so no rule matches it.
/// assert_eq!(resolved.rule_matches().map(|found| found.declared).collect::<Vec<_>>(), [Some(0), None]);
/// # Ok::<(), hivemind_core::RuleError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Rules {
    domains: BTreeMap<Arc<str>, RuleNode>,
    /// All declarations, in their order.
    declared: Vec<Declaration>,
    prefixes: Option<Prefixes>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Declaration {
    domain: Arc<str>,
    path: Box<[Matcher]>,
    rule: Option<Rule>,
}

impl Declaration {
    /// What a later rule set may declare, too.
    fn name(&self) -> (&str, &[Matcher]) {
        (&self.domain, &self.path)
    }
}

impl Rules {
    /// No rules: everything passes.
    ///
    /// ```
    /// # use hivemind_core::Rules;
    /// assert_eq!(Rules::new().declarations().count(), 0);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// These rules plus one; see [`Rules::add`].
    ///
    /// ```
    /// # use hivemind_core::{Limit, Matcher, Period, Rule, RuleError, Rules};
    /// let rule = Rule::limit(Limit::fixed_window(1, Period::DAY));
    /// let rules = Rules::new().with("shop", &[Matcher::any("user")], rule.clone())?;
    /// let again = rules.with("shop", &[Matcher::any("user")], rule);
    /// assert_eq!(again.unwrap_err(), RuleError::Duplicate);
    /// # Ok::<(), RuleError>(())
    /// ```
    ///
    /// # Errors
    /// If the same entries already have a rule, or a name is empty.
    pub fn with(mut self, domain: &str, path: &[Matcher], rule: Rule) -> Result<Self, RuleError> {
        self.add(domain, path, Some(rule))?;
        Ok(self)
    }

    /// Adds a rule. With `None`, requests that match the path are not limited, even where a
    /// rule without a value would match them. After an error the rules are unchanged.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Matcher, Period, Rule, Rules, rules::ExplanationEnd};
    /// let mut rules = Rules::new();
    /// let rule = Rule::limit(Limit::fixed_window(1, Period::DAY));
    /// rules.add("shop", &[Matcher::any("user")], Some(rule))?;
    /// rules.add("shop", &[Matcher::exact("user", "root")], None)?; // All users except this one.
    /// assert_eq!(rules.explain("shop", &[("user", "root")]).end, ExplanationEnd::NoLimit);
    /// # Ok::<(), hivemind_core::RuleError>(())
    /// ```
    ///
    /// # Errors
    /// If the same entries already have a rule, or a name is empty.
    pub fn add(&mut self, domain: &str, path: &[Matcher], rule: Option<Rule>) -> Result<(), RuleError> {
        if domain.is_empty() {
            return Err(RuleError::EmptyDomain);
        }
        if path.is_empty() {
            return Err(RuleError::EmptyPath);
        }
        if path.iter().any(|matcher| matcher.key.is_empty()) {
            return Err(RuleError::EmptyKey);
        }
        if rule.as_ref().is_some_and(|rule| rule.limits().is_some_and(<[Limit]>::is_empty)) {
            return Err(RuleError::NoLimits);
        }
        let name = if let Some((name, root)) = self.domains.get_key_value(domain) {
            root.check(path)?;
            Arc::clone(name)
        } else {
            RuleNode::default().check(path)?;
            domain.into()
        };
        let root = self.domains.entry(Arc::clone(&name)).or_default();
        root.declare(path, self.declared.len())?;
        self.declared.push(Declaration { domain: name, path: path.into(), rule });
        Ok(())
    }

    /// These rules, with the fixed part of their counters' keys already hashed under
    /// `seed`. [`ResolvedRequest::charges`] is then cheaper under that seed, with the same result.
    ///
    /// ```
    /// # use hivemind_core::{Descriptor, Limit, Matcher, Period, Rule, Rules, store::KeySeed};
    /// # let rule = Rule::limit(Limit::fixed_window(1, Period::DAY));
    /// # let rules = Rules::new().with("shop", &[Matcher::any("user")], rule)?;
    /// let (seed, ada) = (KeySeed::new([7; 16]), [Descriptor::new(&[("user", "ada")])]);
    /// let key = |rules: &Rules| rules.resolve("shop", &ada).charges(&seed)[0].key;
    /// assert_eq!(key(&rules), key(&rules.clone().seeded(seed)));
    /// # Ok::<(), hivemind_core::RuleError>(())
    /// ```
    #[must_use]
    pub fn seeded(mut self, seed: KeySeed) -> Self {
        self.prefixes = Some(Prefixes::new(seed, &self.declared));
        self
    }

    /// Finds the rule of each descriptor of a request, and drops the replaced rules.
    ///
    /// ```
    /// # use hivemind_core::{Descriptor, Limit, Matcher, Period, Rule, Rules};
    /// # let rule = Rule::limit(Limit::fixed_window(1, Period::DAY));
    /// let rules = Rules::new().with("shop", &[Matcher::any("user")], rule)?;
    /// let ada = [Descriptor::new(&[("user", "ada")])];
    /// assert!(rules.resolve("shop", &ada).rule_matches().all(|found| found.rule.is_some()));
    /// assert!(rules.resolve("blog", &ada).rule_matches().all(|found| found.rule.is_none()));
    /// # Ok::<(), hivemind_core::RuleError>(())
    /// ```
    #[must_use]
    pub fn resolve<'a>(&'a self, domain: &'a str, descriptors: &'a [Descriptor<'a>]) -> ResolvedRequest<'a> {
        let root = self.domains.get(domain);
        let matched = descriptors.iter().map(|descriptor| match root {
            Some(root) => self.matched(root, descriptor),
            None => DescriptorMatch::none(descriptor.entries), // Not even a limit in the request.
        });
        ResolvedRequest::new(domain, descriptors, matched.collect(), self.prefixes.as_ref())
    }

    fn matched<'a>(&'a self, root: &'a RuleNode, descriptor: &'a Descriptor<'a>) -> DescriptorMatch<'a> {
        let mut matched = DescriptorMatch::none(descriptor.entries);
        if let Some(limit) = &descriptor.limit {
            matched.set_request_limit(limit);
            return matched;
        }
        let mut node = root;
        for (index, entry) in descriptor.entries.iter().enumerate() {
            let Some(below) = node.below(*entry) else { return DescriptorMatch::none(descriptor.entries) };
            if let Some(pattern) = below.shared_pattern() {
                matched.share_value(index, pattern);
            }
            node = below;
        }
        let rule = |number: usize| self.declared.get(number).and_then(|declared| declared.rule.as_ref());
        if let Some(number) = node.declared()
            && let Some(rule) = rule(number)
        {
            matched.set_rule(number, rule);
        }
        matched
    }

    /// Whether a domain is known, even if it has no rules.
    ///
    /// ```
    /// # use hivemind_core::Rules;
    /// assert!(!Rules::new().has_domain("shop"));
    /// ```
    #[must_use]
    pub fn has_domain(&self, domain: &str) -> bool {
        self.domains.contains_key(domain)
    }

    /// Adds a domain without rules.
    ///
    /// ```
    /// # use hivemind_core::{RuleError, Rules};
    /// let mut rules = Rules::new();
    /// rules.add_domain("shop")?;
    /// assert!(rules.has_domain("shop"));
    /// assert_eq!(rules.add_domain(""), Err(RuleError::EmptyDomain));
    /// # Ok::<(), RuleError>(())
    /// ```
    ///
    /// # Errors
    /// If its name is empty.
    pub fn add_domain(&mut self, domain: &str) -> Result<(), RuleError> {
        if domain.is_empty() {
            return Err(RuleError::EmptyDomain);
        }
        self.domains.entry(domain.into()).or_default();
        Ok(())
    }

    /// The known domains, in order of their names.
    ///
    /// ```
    /// # use hivemind_core::Rules;
    /// let mut rules = Rules::new();
    /// rules.add_domain("shop")?;
    /// rules.add_domain("blog")?;
    /// assert_eq!(rules.domains().collect::<Vec<_>>(), ["blog", "shop"]);
    /// # Ok::<(), hivemind_core::RuleError>(())
    /// ```
    pub fn domains(&self) -> impl Iterator<Item = &str> {
        self.domains.keys().map(|domain| &**domain)
    }

    /// How long counters must be kept after the change from the rules that were active
    /// `before`, so that no count is lost; none if none can be lost.
    ///
    /// Only token buckets matter: the time when a bucket will be full depends on its rate,
    /// while a window's end does not depend on what it admits.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Matcher, Rate, Rule, Rules};
    /// let per_second = |rate| -> Result<Rules, Box<dyn std::error::Error>> {
    ///     let rule = Rule::limit(Limit::token_bucket(Rate::per_second(rate)?, 10)?);
    ///     Ok(Rules::new().with("shop", &[Matcher::any("user")], rule)?)
    /// };
    /// assert_eq!(per_second(1)?.longest_memory_after(&per_second(1)?), None);
    /// // The slower bucket may be ten tokens in debt, and has to earn twenty.
    /// assert_eq!(per_second(1)?.longest_memory_after(&per_second(9)?).map(|span| span.as_secs()), Some(20));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn longest_memory_after(&self, before: &Self) -> Option<Duration> {
        let known: HashMap<_, _> = before.declared.iter().map(|known| (known.name(), &known.rule)).collect();
        let kept: HashSet<_> = self.declared.iter().map(Declaration::name).collect();
        // A removed rule's counters may belong to any other rule of its domain now.
        let lost = before.declared.iter().filter(|known| !kept.contains(&known.name()));
        let lost: HashSet<&str> = lost.map(|known| &*known.domain).collect();
        let changed = self.declared.iter().filter(|declared| {
            lost.contains(&*declared.domain) || known.get(&declared.name()) != Some(&&declared.rule)
        });
        let rules = changed.filter_map(|declared| declared.rule.as_ref());
        let limits = rules.flat_map(|rule| rule.limits().unwrap_or_default());
        let buckets = limits.filter(|limit| matches!(limit, Limit::TokenBucket(_)));
        buckets.map(Limit::longest_memory).max()
    }
}
