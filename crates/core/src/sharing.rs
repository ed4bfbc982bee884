//! What a rule says to a store whose counters are shared by peers: how exactly its limits are
//! shared, and what to do while whoever keeps a counter cannot be reached. A store whose
//! counters are in one place has no use for it.

use std::fmt;

/// How exactly a limit is shared.
///
/// ```
/// use hivemind_core::{Consistency, Limit, Period, Rule};
///
/// let mut rule = Rule::limit(Limit::fixed_window(1_000, Period::MINUTE));
/// rule.sharing.consistency = Some(Consistency::Eventual); // A little over is better than a wait.
/// assert_eq!(rule.sharing.to_string(), "consistency: eventual");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// Never above the limit and hardly ever below: a node that holds no rights asks the counter's owner.
    #[default]
    Exact,
    /// Never above the limit, and never waits: a node that holds no rights refuses, and asks for the next one.
    Bounded,
    /// Never below the limit: what others have admitted counts once it is heard of.
    Eventual,
    /// Not shared.
    Local,
}

impl Consistency {
    /// All of them, as files name them.
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

/// What to do while the owner of a counter cannot be reached.
///
/// ```
/// use hivemind_core::{OnUnreachable, Sharing};
///
/// let login = Sharing { on_unreachable: Some(OnUnreachable::Refuse), ..Sharing::default() };
/// assert_eq!(login.to_string(), "on_unreachable: refuse");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnUnreachable {
    /// Up to an even share of the window, what is held included.
    #[default]
    Share,
    /// Nothing past what is held.
    Refuse,
    /// Everything.
    Admit,
}

impl OnUnreachable {
    /// All of them, as files name them.
    ///
    /// ```
    /// # use hivemind_core::OnUnreachable;
    /// assert!(OnUnreachable::NAMED.contains(&("share", OnUnreachable::default())));
    /// ```
    pub const NAMED: [(&'static str, Self); 3] =
        [("share", Self::Share), ("refuse", Self::Refuse), ("admit", Self::Admit)];
}

/// What a rule says about sharing; what it does not say, the store's own settings do.
///
/// ```
/// use hivemind_core::{Consistency, OnUnreachable, Sharing};
///
/// assert_eq!(Sharing::default().to_string(), ""); // All is left to the store.
/// let bounded = Some(Consistency::Bounded);
/// let said = Sharing { consistency: bounded, on_unreachable: Some(OnUnreachable::Share) };
/// assert_eq!(said.to_string(), "consistency: bounded, on_unreachable: share");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sharing {
    /// How exactly its limits are shared.
    pub consistency: Option<Consistency>,
    /// What to do while the owner of one of its counters cannot be reached.
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
