//! Explanation of a rule match: the candidates at each entry and the reason for the result.

use super::node::RuleNode;
use super::rule::Rule;
use super::{Declaration, Rules, rule::Matcher};
use crate::key::Entry;

/// The path from a descriptor to its rule, or to the entry where matching ends.
///
/// ```
/// use hivemind_core::rules::{CandidateOutcome, ExplanationEnd};
/// use hivemind_core::{Limit, Matcher, Period, Rule, Rules};
///
/// let of = |requests| Rule::limit(Limit::fixed_window(requests, Period::DAY));
/// let rules = Rules::new()
///     .with("shop", &[Matcher::any("user")], of(9))?
///     .with("shop", &[Matcher::exact("user", "ada")], of(5))?;
/// let explanation = rules.explain("shop", &[("user", "ada")]);
/// assert!(matches!(explanation.end, ExplanationEnd::Rule(1, rule) if rule.limits().is_some()));
/// let taken = explanation.steps[0].candidates.iter().find(|(_, outcome)| *outcome == CandidateOutcome::Taken);
/// assert_eq!(taken.map(|(pattern, _)| pattern.as_str()), Some("user=ada"));
/// # Ok::<(), hivemind_core::RuleError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation<'a> {
    /// The candidates at each entry, up to the first entry without a match.
    pub steps: Vec<ExplainedEntry>,
    /// The result.
    pub end: ExplanationEnd<'a>,
}

/// The candidate rules at one entry.
///
/// ```
/// use hivemind_core::{Limit, Matcher, Period, Rule, Rules};
///
/// let rule = Rule::limit(Limit::fixed_window(5, Period::DAY));
/// let rules = Rules::new().with("shop", &[Matcher::exact("user", "ada")], rule)?;
/// let explanation = rules.explain("shop", &[("user", "bob")]);
/// for (value, outcome) in &explanation.steps[0].candidates {
///     println!("a rule for {value}: {outcome:?}");
/// }
/// # Ok::<(), hivemind_core::RuleError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExplainedEntry {
    /// The rules for its key: the pattern of each, such as `user=ada`, and its outcome.
    pub candidates: Vec<(String, CandidateOutcome)>,
}

/// The outcome of one candidate rule at one entry.
///
/// ```
/// use hivemind_core::rules::CandidateOutcome;
/// use hivemind_core::{Limit, Matcher, Period, Rule, Rules};
///
/// let rule = Rule::limit(Limit::fixed_window(5, Period::DAY));
/// let wildcards = [Matcher::wildcard("user", "b*"), Matcher::wildcard("user", "*b")];
/// let rules = Rules::new().with("shop", &wildcards[..1], rule.clone())?.with("shop", &wildcards[1..], rule)?;
/// let explanation = rules.explain("shop", &[("user", "bob")]);
/// let outcomes: Vec<_> = explanation.steps[0].candidates.iter().map(|(_, outcome)| *outcome).collect();
/// assert_eq!(outcomes, [CandidateOutcome::Taken, CandidateOutcome::PassedOver]); // The first match wins.
/// # Ok::<(), hivemind_core::RuleError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateOutcome {
    /// Its value does not match.
    DoesNotMatch,
    /// It matches, but an exact value or an earlier wildcard takes precedence.
    PassedOver,
    /// It is the match.
    Taken,
}

/// The result of matching a descriptor.
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
    /// The domain is unknown.
    UnknownDomain,
    /// No rule matches the entry with this number, counted from 0.
    NoMatch(usize),
    /// All entries match, but the last one has no limit: the request passes.
    NoLimit,
    /// This rule applies; its number counts from 0 in the order in which rules were added.
    Rule(usize, &'a Rule),
}

impl Rules {
    /// Explains why a rule applies to a descriptor with these entries, or why none does.
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
            steps.push(ExplainedEntry { candidates: node.candidate_outcomes(*entry) });
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

    /// All declarations: domain, path and rule, in the order in which they were added.
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
        self.declared.iter().map(Declaration::as_parts)
    }

    /// The declaration with this number, counted from 0 in that order.
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
        self.declared.get(number).map(Declaration::as_parts)
    }
}

impl Declaration {
    fn as_parts(&self) -> (&str, &[Matcher], Option<&Rule>) {
        (&self.domain, &self.path, self.rule.as_ref())
    }
}

impl RuleNode {
    fn candidate_outcomes(&self, entry: Entry<'_>) -> Vec<(String, CandidateOutcome)> {
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
