//! What becomes of a request while the shared store cannot answer.

/// What a limit says where the shared store cannot be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnError {
    /// It passes, and is counted nowhere.
    #[default]
    Open,
    /// It does not pass.
    Closed,
    /// This node's own counters decide.
    Local,
}

impl OnError {
    /// The words of it in files.
    pub(crate) const CHOICES: &[(&str, Self)] =
        &[("open", Self::Open), ("closed", Self::Closed), ("local", Self::Local)];
}
