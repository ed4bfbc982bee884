//! `on_error`: policy for requests while the shared store is unavailable.

/// Decision of a limit while the shared store is unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Admit without counting.
    #[default]
    Open,
    /// Refuse.
    Closed,
    /// Decide by this node's own counters.
    Local,
}

impl OnError {
    /// Configuration values.
    pub const CHOICES: &[(&str, Self)] =
        &[("open", Self::Open), ("closed", Self::Closed), ("local", Self::Local)];
}
