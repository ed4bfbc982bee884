//! Component states as reported by `/readyz`.

use serde_json::{Map, Value, json};

/// State of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComponentState {
    Ok,
    /// It has a problem, but requests are served.
    Degraded,
    /// It makes the service not ready.
    Failed,
    /// It is not configured.
    Off,
}

impl ComponentState {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
            Self::Off => "off",
        }
    }
}

/// A component of the service.
#[derive(Debug)]
pub struct Component {
    pub(super) name: &'static str,
    pub(super) state: ComponentState,
    reasons: Vec<String>,
}

impl Component {
    /// A component with the reason of its failure, if it failed, and its other problems.
    pub(super) fn new(
        name: &'static str,
        failed: Option<String>,
        problems: impl IntoIterator<Item = String>,
    ) -> Self {
        let has_failed = failed.is_some();
        let reasons: Vec<String> = failed.into_iter().chain(problems).collect();
        let state = match (has_failed, reasons.is_empty()) {
            (true, _) => ComponentState::Failed,
            (false, false) => ComponentState::Degraded,
            (false, true) => ComponentState::Ok,
        };
        Self { name, state, reasons }
    }

    /// Marks the component as off if it is not configured. Problems are reported in any case.
    pub(super) fn off_unless(self, is_used: bool) -> Self {
        let state =
            if is_used || self.state != ComponentState::Ok { self.state } else { ComponentState::Off };
        Self { state, ..self }
    }

    /// All reasons in one text.
    pub(super) fn reason(&self) -> String {
        self.reasons.join("; ")
    }

    /// All components as JSON, by name.
    pub fn shown(all: &[Self]) -> Value {
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
