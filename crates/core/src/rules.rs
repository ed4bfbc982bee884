//! Which limit answers a descriptor. Rules are an immutable value: they are built
//! whole, and a reload swaps the whole, so a decision never sees half of a change.
//!
//! Matching is that of the reference service. At each entry: the exact value, else
//! the first wildcard in the order of declaration, else the rule without a value.
//! The depth must be equal, a parent's limit does not stand in for a missing
//! child's, and what was once matched is not taken back. Key and value are
//! compared apart, never as a joined string.
//!
//! ```
//! use hivemind_core::rules::{Matcher, Rule, Rules, ExplanationEnd};
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
use node::Node;
use prefixes::Prefixes;
use resolved::Matched;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

/// What is charged for one thing: a client, a path, a pair of them.
///
/// ```
/// use hivemind_core::store::Op;
/// use hivemind_core::{Cost, Descriptor, Limit, Period};
///
/// let request = Descriptor::new(&[("user", "ada"), ("path", "/search")]);
/// assert_eq!((request.cost, request.op), (Cost::ONE, Op::Spend));
/// // A request that costs five, under a limit that it brings along.
/// let heavy = Descriptor { cost: Cost::new(5), limit: Some(Limit::fixed_window(9, Period::DAY)), ..request };
/// assert_eq!(heavy.entries, request.entries);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'a> {
    /// Who or what it is, in order.
    pub entries: &'a [Entry<'a>],
    /// How much.
    pub cost: Cost,
    /// What to do.
    pub op: Op,
    /// A limit that the request brings along, instead of that of the rules.
    pub limit: Option<Limit>,
}

impl<'a> Descriptor<'a> {
    /// One request of whoever `entries` name.
    ///
    /// ```
    /// # use hivemind_core::Descriptor;
    /// let ada = Descriptor::new(&[("user", "ada")]);
    /// assert!(ada.limit.is_none()); // The rules have one.
    /// ```
    #[must_use]
    pub const fn new(entries: &'a [Entry<'a>]) -> Self {
        Self { entries, cost: Cost::ONE, op: Op::Spend, limit: None }
    }
}

/// Why a rule cannot be added.
///
/// ```
/// use hivemind_core::{Budget, Matcher, Rule, RuleError, Rules};
///
/// let nothing = Rule::new(Budget::Limits(vec![]));
/// let error = Rules::new().with("shop", &[Matcher::any("user")], nothing).unwrap_err();
/// assert_eq!(error, RuleError::NoLimits);
/// assert_eq!(error.to_string(), "a rule must have at least one limit; to let everything pass, make it unlimited");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// A domain without a name.
    #[error("a domain must have a name; write `domain: my-app`")]
    EmptyDomain,
    /// A rule that matches nothing.
    #[error("a rule must match at least one entry; give it a key")]
    EmptyPath,
    /// An entry without a key.
    #[error("an entry must have a key; write `key: remote_address`")]
    EmptyKey,
    /// A rule that grants nothing and forbids nothing.
    #[error("a rule must have at least one limit; to let everything pass, make it unlimited")]
    NoLimits,
    /// A second rule for the same entries.
    #[error("there is a rule for these entries already; merge the two, or give one another value")]
    Duplicate,
}

/// A set of rules, ready to answer.
///
/// ```
/// use hivemind_core::{Descriptor, Limit, Matcher, Period, Rule, Rules};
///
/// let rule = Rule::limit(Limit::fixed_window(100, Period::MINUTE));
/// let rules = Rules::new().with("shop", &[Matcher::any("user"), Matcher::exact("path", "/search")], rule)?;
/// let asked = [Descriptor::new(&[("user", "ada"), ("path", "/search")]), Descriptor::new(&[("user", "ada")])];
/// let resolved = rules.resolve("shop", &asked);
/// // The second is not as deep as the rule, so no rule answers it.
/// assert_eq!(resolved.rule_matches().map(|ruling| ruling.declared).collect::<Vec<_>>(), [Some(0), None]);
/// # Ok::<(), hivemind_core::RuleError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Rules {
    domains: BTreeMap<Box<str>, Node>,
    /// Every rule, in the order of declaration.
    declared: Vec<Declared>,
    prefixes: Option<Prefixes>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Declared {
    domain: Box<str>,
    path: Vec<Matcher>,
    rule: Option<Rule>,
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

    /// These rules and one more; see [`Rules::add`].
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
    /// If the same entries have a rule already, or a name is empty.
    pub fn with(mut self, domain: &str, path: &[Matcher], rule: Rule) -> Result<Self, RuleError> {
        self.add(domain, path, Some(rule))?;
        Ok(self)
    }

    /// Adds a rule. With `None`, what the path names is let through, also where a
    /// rule without a value would have matched it. After an error the rules are as before.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Matcher, Period, Rule, Rules, rules::ExplanationEnd};
    /// let mut rules = Rules::new();
    /// let rule = Rule::limit(Limit::fixed_window(1, Period::DAY));
    /// rules.add("shop", &[Matcher::any("user")], Some(rule))?;
    /// rules.add("shop", &[Matcher::exact("user", "root")], None)?; // Everybody but this one.
    /// assert_eq!(rules.explain("shop", &[("user", "root")]).end, ExplanationEnd::NoLimit);
    /// # Ok::<(), hivemind_core::RuleError>(())
    /// ```
    ///
    /// # Errors
    /// If the same entries have a rule already, or a name is empty.
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
        let root = self.domains.entry(domain.into()).or_default();
        root.declare(path, self.declared.len())?;
        self.declared.push(Declared { domain: domain.into(), path: path.to_vec(), rule });
        Ok(())
    }

    /// These rules, with all that they fix of their counters' keys hashed under
    /// `seed`. [`ResolvedRequest::charges`] is then cheaper under that seed, and gives the same.
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

    /// Which rule answers each descriptor of a request, and which are left aside.
    ///
    /// ```
    /// # use hivemind_core::{Descriptor, Limit, Matcher, Period, Rule, Rules};
    /// # let rule = Rule::limit(Limit::fixed_window(1, Period::DAY));
    /// let rules = Rules::new().with("shop", &[Matcher::any("user")], rule)?;
    /// let ada = [Descriptor::new(&[("user", "ada")])];
    /// assert!(rules.resolve("shop", &ada).rule_matches().all(|ruling| ruling.rule.is_some()));
    /// assert!(rules.resolve("blog", &ada).rule_matches().all(|ruling| ruling.rule.is_none()));
    /// # Ok::<(), hivemind_core::RuleError>(())
    /// ```
    #[must_use]
    pub fn resolve<'a>(&'a self, domain: &'a str, descriptors: &'a [Descriptor<'a>]) -> ResolvedRequest<'a> {
        let root = self.domains.get(domain);
        let matched = descriptors.iter().map(|descriptor| match root {
            Some(root) => self.matched(root, descriptor),
            None => Matched::nothing(descriptor.entries), // Not even a limit that the request brings.
        });
        ResolvedRequest::new(domain, descriptors, matched.collect(), self.prefixes.as_ref())
    }

    fn matched<'a>(&'a self, root: &'a Node, descriptor: &'a Descriptor<'a>) -> Matched<'a> {
        let mut matched = Matched::nothing(descriptor.entries);
        if let Some(limit) = &descriptor.limit {
            matched.brought(limit);
            return matched;
        }
        let mut node = root;
        for (index, entry) in descriptor.entries.iter().enumerate() {
            let Some(below) = node.below(*entry) else { return Matched::nothing(descriptor.entries) };
            if let Some(pattern) = below.shared_pattern() {
                matched.share(index, pattern);
            }
            node = below;
        }
        let rule = |number: usize| self.declared.get(number).and_then(|declared| declared.rule.as_ref());
        if let Some(number) = node.declared()
            && let Some(rule) = rule(number)
        {
            matched.ruled(number, rule);
        }
        matched
    }

    /// Whether there are rules for a domain, be it none but its name.
    ///
    /// ```
    /// # use hivemind_core::Rules;
    /// assert!(!Rules::new().has_domain("shop"));
    /// ```
    #[must_use]
    pub fn has_domain(&self, domain: &str) -> bool {
        self.domains.contains_key(domain)
    }

    /// Makes a domain known that has no rules yet.
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

    /// The domains that have rules, in order of their names.
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

    /// How long a counter may have to be remembered so that nothing is lost by the
    /// change from the rules that were in force `before`; none if nothing can be.
    ///
    /// Only token buckets matter: when one will be full was reckoned with the rate it
    /// had, while a window ends when it ends, whatever it may admit.
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
        let named = |declared: &'_ Declared| (declared.domain.clone(), declared.path.clone());
        let known: HashMap<_, _> = before.declared.iter().map(|known| (named(known), &known.rule)).collect();
        let kept: HashSet<_> = self.declared.iter().map(named).collect();
        // What a removed rule counted goes to another rule of its domain, whichever that is.
        let lost = before.declared.iter().filter(|known| !kept.contains(&named(known)));
        let lost: HashSet<&str> = lost.map(|known| &*known.domain).collect();
        let changed = self.declared.iter().filter(|declared| {
            lost.contains(&*declared.domain) || known.get(&named(declared)) != Some(&&declared.rule)
        });
        let rules = changed.filter_map(|declared| declared.rule.as_ref());
        let limits = rules.flat_map(|rule| rule.limits().unwrap_or_default());
        let buckets = limits.filter(|limit| matches!(limit, Limit::TokenBucket(_)));
        buckets.map(Limit::longest_memory).max()
    }
}
