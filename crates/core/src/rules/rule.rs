//! One rule: what it matches and what it grants.

use crate::limit::Limit;
use crate::sharing::Sharing;
use crate::store::Mode;
use std::fmt;

/// What a rule grants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Budget {
    /// Everything: counted by nobody.
    Unlimited,
    /// What all of these limits admit, decided together.
    Limits(Vec<Limit>),
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("unlimited"),
            Self::Limits(limits) => {
                let limits: Vec<String> = limits.iter().map(ToString::to_string).collect();
                f.write_str(&limits.join(", and "))
            }
        }
    }
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// What it grants.
    pub budget: Budget,
    /// What a refusal by it means.
    pub mode: Mode,
    /// The name that answers show and `replaces` refers to.
    pub name: Option<String>,
    /// The names of rules that are left aside when this one matches the same request.
    pub replaces: Vec<String>,
    /// How its counters are shared, where a store shares them.
    pub sharing: Sharing,
}

impl Rule {
    /// A rule that enforces one limit.
    #[must_use]
    pub fn limit(limit: Limit) -> Self {
        Self::new(Budget::Limits(vec![limit]))
    }

    /// A rule that enforces what `budget` says.
    #[must_use]
    pub fn new(budget: Budget) -> Self {
        Self { budget, mode: Mode::Enforce, name: None, replaces: Vec::new(), sharing: Sharing::default() }
    }

    /// Its limits; none if it is unlimited.
    #[must_use]
    pub fn limits(&self) -> Option<&[Limit]> {
        match &self.budget {
            Budget::Unlimited => None,
            Budget::Limits(limits) => Some(limits),
        }
    }
}

/// What a rule asks of one entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Matcher {
    pub(super) key: String,
    pub(super) value: ValueMatcher,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ValueMatcher {
    Exact(String),
    Wildcard { pattern: String, shared: bool },
    Any,
}

impl Matcher {
    /// An entry with exactly this key and value.
    #[must_use]
    pub fn exact(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), value: ValueMatcher::Exact(value.into()) }
    }

    /// An entry with this key, whatever its value; each value has a counter of its own.
    #[must_use]
    pub fn any(key: impl Into<String>) -> Self {
        Self { key: key.into(), value: ValueMatcher::Any }
    }

    /// An entry with this key and a value of this form, where `*` stands for any
    /// text. Each value has a counter of its own.
    #[must_use]
    pub fn wildcard(key: impl Into<String>, pattern: impl Into<String>) -> Self {
        Self { key: key.into(), value: ValueMatcher::Wildcard { pattern: pattern.into(), shared: false } }
    }

    /// The key it asks for.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value or pattern it asks for; none if any will do.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        match &self.value {
            ValueMatcher::Exact(value) | ValueMatcher::Wildcard { pattern: value, .. } => Some(value),
            ValueMatcher::Any => None,
        }
    }

    /// As [`Matcher::wildcard`], but all values of this form share one counter.
    #[must_use]
    pub fn shared_wildcard(key: impl Into<String>, pattern: impl Into<String>) -> Self {
        Self { key: key.into(), value: ValueMatcher::Wildcard { pattern: pattern.into(), shared: true } }
    }
}
