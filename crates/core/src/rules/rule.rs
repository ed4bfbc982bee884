//! Rules: matchers for entries, the granted budget and options.

use crate::limit::Limit;
use crate::sharing::Sharing;
use crate::store::Mode;
use std::fmt;
use std::sync::Arc;

/// The budget of a rule.
///
/// ```
/// use hivemind_core::{Budget, Limit, Period, Rate};
///
/// let both = vec![Limit::token_bucket(Rate::per_second(5)?, 10)?, Limit::fixed_window(1_000, Period::DAY)];
/// assert_eq!(
///     Budget::Limits(both).to_string(),
///     "token bucket of 10 refilled by 5 in 1s, and 1000 in each window of 86400s"
/// );
/// # Ok::<(), hivemind_core::LimitError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Budget {
    /// No limit; requests are not counted.
    Unlimited,
    /// All these limits, decided together.
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
///
/// ```
/// use hivemind_core::store::Mode;
/// use hivemind_core::{Limit, Period, Rule};
///
/// let mut rule = Rule::limit(Limit::fixed_window(100, Period::MINUTE));
/// assert_eq!(rule.mode, Mode::Enforce);
/// rule.mode = Mode::Shadow; // First observe which requests it would refuse.
/// rule.name = Some("search".into());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rule {
    /// Its budget.
    pub budget: Budget,
    /// The effect of its refusals.
    pub mode: Mode,
    /// The name that responses show and `replaces` refers to.
    pub name: Option<String>,
    /// The names of rules that are dropped when this one matches the same request.
    pub replaces: Vec<String>,
    /// How its counters are shared, in stores that share them.
    pub sharing: Sharing,
}

impl Rule {
    /// A rule that enforces one limit.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Period, Rule};
    /// let limit = Limit::fixed_window(100, Period::MINUTE);
    /// assert_eq!(Rule::limit(limit).limits(), Some(&[limit][..]));
    /// ```
    #[must_use]
    pub fn limit(limit: Limit) -> Self {
        Self::new(Budget::Limits(vec![limit]))
    }

    /// A rule that enforces `budget`.
    ///
    /// ```
    /// # use hivemind_core::{Budget, Rule};
    /// assert_eq!(Rule::new(Budget::Unlimited).limits(), None);
    /// ```
    #[must_use]
    pub fn new(budget: Budget) -> Self {
        Self { budget, mode: Mode::Enforce, name: None, replaces: Vec::new(), sharing: Sharing::default() }
    }

    /// Its limits; none if it is unlimited.
    ///
    /// ```
    /// # use hivemind_core::{Budget, Limit, Period, Rule};
    /// let limits = vec![Limit::fixed_window(5, Period::SECOND), Limit::fixed_window(50, Period::HOUR)];
    /// assert_eq!(Rule::new(Budget::Limits(limits.clone())).limits(), Some(&limits[..]));
    /// ```
    #[must_use]
    pub fn limits(&self) -> Option<&[Limit]> {
        match &self.budget {
            Budget::Unlimited => None,
            Budget::Limits(limits) => Some(limits),
        }
    }
}

/// A condition on one entry.
///
/// ```
/// use hivemind_core::Matcher;
///
/// let path = [Matcher::any("user"), Matcher::wildcard("path", "/api/*")];
/// assert_eq!((path[0].key(), path[0].value()), ("user", None));
/// assert_eq!((path[1].key(), path[1].value()), ("path", Some("/api/*")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Matcher {
    // Shared, because each rule has a copy of its whole path.
    pub(super) key: Arc<str>,
    pub(super) value: ValueMatcher,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ValueMatcher {
    Exact(Arc<str>),
    Wildcard { pattern: Arc<str>, shared: bool },
    Any,
}

impl Matcher {
    /// An entry with exactly this key and value.
    ///
    /// ```
    /// # use hivemind_core::Matcher;
    /// assert_eq!(Matcher::exact("user", "ada").value(), Some("ada"));
    /// ```
    #[must_use]
    pub fn exact(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into().into(), value: ValueMatcher::Exact(value.into().into()) }
    }

    /// An entry with this key and any value; each value has its own counter.
    ///
    /// ```
    /// # use hivemind_core::Matcher;
    /// assert_eq!(Matcher::any("user").value(), None);
    /// ```
    #[must_use]
    pub fn any(key: impl Into<String>) -> Self {
        Self { key: key.into().into(), value: ValueMatcher::Any }
    }

    /// An entry with this key and a value that matches the pattern, where `*` matches any
    /// text. Each value has its own counter.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Limiter, Matcher, Period, Rule, Rules};
    /// let blocked = Rule::limit(Limit::fixed_window(0, Period::DAY));
    /// let limiter = Limiter::new(Rules::new().with("shop", &[Matcher::wildcard("agent", "*bot*")], blocked)?)?;
    /// assert!(!limiter.allow("shop", &[("agent", "a bot/1.0")]) && limiter.allow("shop", &[("agent", "curl")]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn wildcard(key: impl Into<String>, pattern: impl Into<String>) -> Self {
        Self {
            key: key.into().into(),
            value: ValueMatcher::Wildcard { pattern: pattern.into().into(), shared: false },
        }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value or pattern; none if any value matches.
    #[must_use]
    pub fn value(&self) -> Option<&str> {
        match &self.value {
            ValueMatcher::Exact(value) | ValueMatcher::Wildcard { pattern: value, .. } => Some(value),
            ValueMatcher::Any => None,
        }
    }

    /// Like [`Matcher::wildcard`], but all matching values share one counter.
    ///
    /// ```
    /// # use hivemind_core::{Limit, Limiter, LimiterOptions, ManualClock, Matcher, Period, Rule, Rules};
    /// let rule = Rule::limit(Limit::fixed_window(1, Period::DAY));
    /// let rules = Rules::new().with("shop", &[Matcher::shared_wildcard("path", "/api/*")], rule)?;
    /// let limiter = Limiter::with_clock(rules, ManualClock::default(), LimiterOptions::default())?;
    /// assert!(limiter.allow("shop", &[("path", "/api/a")]) && !limiter.allow("shop", &[("path", "/api/b")]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn shared_wildcard(key: impl Into<String>, pattern: impl Into<String>) -> Self {
        Self {
            key: key.into().into(),
            value: ValueMatcher::Wildcard { pattern: pattern.into().into(), shared: true },
        }
    }
}
