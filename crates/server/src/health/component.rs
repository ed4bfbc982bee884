//! A part of the service, as `/readyz` shows it.

use serde_json::{Map, Value, json};

/// How it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Ok,
    /// Something is the matter, and requests are answered all the same.
    Degraded,
    /// The service is not ready because of it.
    Failed,
    /// It is not used.
    Off,
}

impl State {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
            Self::Off => "off",
        }
    }
}

/// A part of the service.
#[derive(Debug)]
pub(crate) struct Component {
    pub(super) name: &'static str,
    pub(super) state: State,
    reasons: Vec<String>,
}

impl Component {
    /// With why it fails, if it does, and what else is the matter.
    pub(super) fn new(
        name: &'static str,
        failed: Option<String>,
        matters: impl IntoIterator<Item = String>,
    ) -> Self {
        let has_failed = failed.is_some();
        let reasons: Vec<String> = failed.into_iter().chain(matters).collect();
        let state = match (has_failed, reasons.is_empty()) {
            (true, _) => State::Failed,
            (false, false) => State::Degraded,
            (false, true) => State::Ok,
        };
        Self { name, state, reasons }
    }

    /// The same, where it is used at all. What is the matter is told in any case.
    pub(super) fn off_unless(self, is_used: bool) -> Self {
        let state = if is_used || self.state != State::Ok { self.state } else { State::Off };
        Self { state, ..self }
    }

    /// What is the matter, in one text.
    pub(super) fn reason(&self) -> String {
        self.reasons.join("; ")
    }

    /// All of them, by their names.
    pub(crate) fn shown(all: &[Self]) -> Value {
        let one = |component: &Self| {
            let state = component.state.as_str();
            let shown = match component.reasons.as_slice() {
                [] => json!({"state": state}),
                _ => json!({"state": state, "reason": component.reason()}),
            };
            (component.name.to_owned(), shown)
        };
        Value::Object(all.iter().map(one).collect::<Map<_, _>>())
    }
}
