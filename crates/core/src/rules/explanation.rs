//! Why a rule answers a descriptor, and why the others beside it do not.

use super::node::Node;
use super::rule::Rule;
use super::{Declared, Rules, rule::Matcher};
use crate::key::Entry;

/// The way from a descriptor to its rule, or to where it ends.
///
/// ```
/// use hivemind_core::rules::{CandidateOutcome, ExplanationEnd};
/// use hivemind_core::{Limit, Matcher, Period, Rule, Rules};
///
/// let of = |requests| Rule::limit(Limit::fixed_window(requests, Period::DAY));
/// let rules = Rules::new()
///     .with("shop", &[Matcher::any("user")], of(9))?
///     .with("shop", &[Matcher::exact("user", "ada")], of(5))?;
/// let why = rules.explain("shop", &[("user", "ada")]);
/// assert!(matches!(why.end, ExplanationEnd::Rule(1, rule) if rule.limits().is_some()));
/// let taken = why.steps[0].candidates.iter().find(|(_, became)| *became == CandidateOutcome::Taken);
/// assert_eq!(taken.map(|(asked_for, _)| asked_for.as_str()), Some("user=ada"));
/// # Ok::<(), hivemind_core::RuleError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation<'a> {
    /// What was considered at each entry, until one led nowhere.
    pub steps: Vec<ExplainedEntry>,
    /// Where the way ended.
    pub end: ExplanationEnd<'a>,
}

/// What was considered at one entry.
///
/// ```
/// use hivemind_core::{Limit, Matcher, Period, Rule, Rules};
///
/// let rule = Rule::limit(Limit::fixed_window(5, Period::DAY));
/// let rules = Rules::new().with("shop", &[Matcher::exact("user", "ada")], rule)?;
/// let why = rules.explain("shop", &[("user", "bob")]);
/// for (value, became) in &why.steps[0].candidates {
///     println!("a rule for {value}: {became:?}");
/// }
/// # Ok::<(), hivemind_core::RuleError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExplainedEntry {
    /// The rules for its key: what each asks for, such as `user=ada`, and what became of it.
    pub candidates: Vec<(String, CandidateOutcome)>,
}

/// What became of one rule at one entry.
///
/// ```
/// use hivemind_core::rules::CandidateOutcome;
/// use hivemind_core::{Limit, Matcher, Period, Rule, Rules};
///
/// let rule = Rule::limit(Limit::fixed_window(5, Period::DAY));
/// let wildcards = [Matcher::wildcard("user", "b*"), Matcher::wildcard("user", "*b")];
/// let rules = Rules::new().with("shop", &wildcards[..1], rule.clone())?.with("shop", &wildcards[1..], rule)?;
/// let why = rules.explain("shop", &[("user", "bob")]);
/// let became: Vec<_> = why.steps[0].candidates.iter().map(|(_, became)| *became).collect();
/// assert_eq!(became, [CandidateOutcome::Taken, CandidateOutcome::PassedOver]); // The first of them answers.
/// # Ok::<(), hivemind_core::RuleError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateOutcome {
    /// Its value does not fit.
    DoesNotMatch,
    /// It fits, but an exact value goes before, or an earlier wildcard.
    PassedOver,
    /// It answers.
    Taken,
}

/// Where the way of a descriptor through the rules ends.
///
/// ```
/// use hivemind_core::rules::ExplanationEnd;
/// use hivemind_core::{Limit, Matcher, Period, Rule, Rules};
///
/// let rule = Rule::limit(Limit::fixed_window(5, Period::DAY));
/// let rules = Rules::new().with("shop", &[Matcher::any("user"), Matcher::any("path")], rule)?;
/// let end = |domain, entries| rules.explain(domain, entries).end;
/// assert_eq!(end("blog", &[]), ExplanationEnd::UnknownDomain);
/// assert_eq!(end("shop", &[("agent", "curl")]), ExplanationEnd::NoMatch(0));
/// assert_eq!(end("shop", &[("user", "ada")]), ExplanationEnd::NoLimit); // The limit is one deeper.
/// # Ok::<(), hivemind_core::RuleError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExplanationEnd<'a> {
    /// No rules are known for the domain.
    UnknownDomain,
    /// No rule fits the entry of this number, counted from 0.
    NoMatch(usize),
    /// All entries fit, but there is no limit at the end: it is let through.
    NoLimit,
    /// This rule answers; its number counts from 0 in the order in which rules were added.
    Rule(usize, &'a Rule),
}

impl Rules {
    /// Why a rule answers a descriptor with these entries, or why none does.
    ///
    /// ```
    /// # use hivemind_core::{Rules, rules::ExplanationEnd};
    /// assert_eq!(Rules::new().explain("shop", &[("user", "ada")]).end, ExplanationEnd::UnknownDomain);
    /// ```
    #[must_use]
    pub fn explain(&self, domain: &str, entries: &[Entry<'_>]) -> Explanation<'_> {
        let mut steps = Vec::new();
        let Some(mut node) = self.domains.get(domain) else {
            return Explanation { steps, end: ExplanationEnd::UnknownDomain };
        };
        for (number, entry) in entries.iter().enumerate() {
            steps.push(ExplainedEntry { candidates: node.considered(*entry) });
            let Some(below) = node.below(*entry) else {
                return Explanation { steps, end: ExplanationEnd::NoMatch(number) };
            };
            node = below;
        }
        let end = node.declared().and_then(|number| {
            let rule = self.declared.get(number)?.rule.as_ref()?;
            Some(ExplanationEnd::Rule(number, rule))
        });
        Explanation { steps, end: end.unwrap_or(ExplanationEnd::NoLimit) }
    }

    /// Every declaration: its domain, its path and its rule, in the order in which they were added.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Matcher, Period, Rule, Rules};
    /// # let rule = Rule::limit(Limit::fixed_window(5, Period::DAY));
    /// let rules = Rules::new().with("shop", &[Matcher::any("user")], rule)?;
    /// for (domain, path, rule) in rules.declarations() {
    ///     assert_eq!((domain, path[0].key(), rule.is_some()), ("shop", "user", true));
    /// }
    /// # Ok::<(), hivemind_core::RuleError>(())
    /// ```
    pub fn declarations(&self) -> impl Iterator<Item = (&str, &[Matcher], Option<&Rule>)> {
        self.declared.iter().map(Declared::shown)
    }

    /// The declaration of this number, counted from 0 in that order.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Matcher, Period, Rule, Rules};
    /// # let rule = Rule::limit(Limit::fixed_window(5, Period::DAY));
    /// let rules = Rules::new().with("shop", &[Matcher::any("user")], rule)?;
    /// assert_eq!(rules.declaration(0).map(|(domain, ..)| domain), Some("shop"));
    /// assert!(rules.declaration(1).is_none());
    /// # Ok::<(), hivemind_core::RuleError>(())
    /// ```
    #[must_use]
    pub fn declaration(&self, number: usize) -> Option<(&str, &[Matcher], Option<&Rule>)> {
        self.declared.get(number).map(Declared::shown)
    }
}

impl Declared {
    fn shown(&self) -> (&str, &[Matcher], Option<&Rule>) {
        (&self.domain, &self.path, self.rule.as_ref())
    }
}

impl Node {
    fn considered(&self, entry: Entry<'_>) -> Vec<(String, CandidateOutcome)> {
        let taken = self.below(entry).map(std::ptr::from_ref);
        let mut considered = Vec::new();
        for (value, matches, node) in self.candidates(entry) {
            let outcome = match (matches, taken == Some(std::ptr::from_ref(node))) {
                (_, true) => CandidateOutcome::Taken,
                (true, false) => CandidateOutcome::PassedOver,
                (false, false) => CandidateOutcome::DoesNotMatch,
            };
            considered.push((value, outcome));
        }
        considered
    }
}
