//! Sharing options of a rule, for stores whose counters are shared by peers: how exactly its
//! limits are shared, and what happens while a counter's owner is unreachable. Stores with
//! counters in one place ignore them.

use std::fmt;

/// How exactly a limit is shared.
///
/// ```
/// use hivemind_core::{Consistency, Limit, Period, Rule};
///
/// let mut rule = Rule::limit(Limit::fixed_window(1_000, Period::MINUTE));
/// rule.sharing.consistency = Some(Consistency::Eventual); // Slightly over is better than a wait.
/// assert_eq!(rule.sharing.to_string(), "consistency: eventual");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// Never above the limit and rarely below: a node without allowance requests one from the counter's owner.
    #[default]
    Exact,
    /// Never above the limit, and never waits: a node without allowance refuses, and requests one for later.
    Bounded,
    /// Never below the limit: other nodes' admissions count once this node receives them.
    Eventual,
    /// Not shared.
    Local,
}

impl Consistency {
    /// All variants with their names in files.
    ///
    /// ```
    /// # use hivemind_core::Consistency;
    /// let named = Consistency::NAMED.iter().find(|(name, _)| *name == "bounded");
    /// assert_eq!(named.map(|(_, chosen)| *chosen), Some(Consistency::Bounded));
    /// ```
    pub const NAMED: [(&'static str, Self); 4] = [
        ("exact", Self::Exact),
        ("bounded", Self::Bounded),
        ("eventual", Self::Eventual),
        ("local", Self::Local),
    ];
}

/// The behavior while the owner of a counter is unreachable.
///
/// ```
/// use hivemind_core::{OnUnreachable, Sharing};
///
/// let login = Sharing { on_unreachable: Some(OnUnreachable::Refuse), ..Sharing::default() };
/// assert_eq!(login.to_string(), "on_unreachable: refuse");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnUnreachable {
    /// Admits up to an even share of the window, including the allowance held.
    #[default]
    Share,
    /// Admits only the allowance held.
    Refuse,
    /// Admits everything.
    Admit,
}

impl OnUnreachable {
    /// All variants with their names in files.
    ///
    /// ```
    /// # use hivemind_core::OnUnreachable;
    /// assert!(OnUnreachable::NAMED.contains(&("share", OnUnreachable::default())));
    /// ```
    pub const NAMED: [(&'static str, Self); 3] =
        [("share", Self::Share), ("refuse", Self::Refuse), ("admit", Self::Admit)];
}

/// A rule's sharing options; the store's own settings replace those that are unset.
///
/// ```
/// use hivemind_core::{Consistency, OnUnreachable, Sharing};
///
/// assert_eq!(Sharing::default().to_string(), ""); // The store's settings apply.
/// let bounded = Some(Consistency::Bounded);
/// let sharing = Sharing { consistency: bounded, on_unreachable: Some(OnUnreachable::Share) };
/// assert_eq!(sharing.to_string(), "consistency: bounded, on_unreachable: share");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sharing {
    /// How exactly its limits are shared.
    pub consistency: Option<Consistency>,
    /// The behavior while the owner of one of its counters is unreachable.
    pub on_unreachable: Option<OnUnreachable>,
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        if let Some(chosen) = self.consistency {
            let named = Consistency::NAMED.iter().find(|(_, known)| *known == chosen);
            words.extend(named.map(|(name, _)| format!("consistency: {name}")));
        }
        if let Some(chosen) = self.on_unreachable {
            let named = OnUnreachable::NAMED.iter().find(|(_, known)| *known == chosen);
            words.extend(named.map(|(name, _)| format!("on_unreachable: {name}")));
        }
        f.write_str(&words.join(", "))
    }
}
