//! Rule set of the service: the matching rules of the core ([`Rules`]) with the statistics names and
//! response parts of each rule.

use crate::storage::OnError;
use hivemind_core::{Entry, Rules};
use hivemind_telemetry::redact;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// All rules with their extras. A reload replaces it as a whole.
#[derive(Clone, Debug, Default)]
pub struct Ruleset {
    pub rules: Rules,
    /// One for each declaration, in the order in which the rules were added.
    pub extras: Vec<Extras>,
}

/// Properties of a rule other than its limits.
#[derive(Clone, Debug, Default)]
pub struct Extras {
    pub place: RulePlace,
    pub stat: StatPath,
    /// Dynamic metadata for Envoy if the rule admits a request.
    pub metadata: Option<Value>,
    pub response: RuleResponse,
    /// Policy while the shared store is unavailable; none: the default of the storage.
    pub on_error: Option<OnError>,
}

/// Where a rule is declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulePlace {
    pub file: Arc<str>,
    pub line: usize,
}

impl RulePlace {
    /// The file's path relative to `root`, the folder of all rules. For readers that must not learn this machine's
    /// folders.
    pub fn file_below(&self, root: &Path) -> String {
        let file = Path::new(&*self.file);
        let below = file.strip_prefix(root).ok().filter(|below| !below.as_os_str().is_empty());
        let shown = below.or_else(|| file.file_name().map(Path::new)).unwrap_or(file);
        shown.display().to_string()
    }
}

/// Parts that a rule adds to the response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleResponse {
    /// Headers for the client, on pass and on refusal.
    pub headers: Vec<(String, String)>,
    /// Headers for the upstream of an admitted request.
    pub request_headers: Vec<(String, String)>,
    /// Body for the client of a refused request.
    pub raw_body: Option<String>,
    pub quota: Option<Quota>,
}

/// A part of the budget that a client may spend without further calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    pub id: String,
    pub valid_for: Duration,
}

/// Statistics name of a rule: one part for each entry of its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatPath(pub Vec<StatPart>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatPart {
    /// As in the rule: `key`, `key_value` or `key_pattern*`.
    Fixed(Arc<str>),
    /// `key_value` with the value of the request.
    OfRequest,
}

impl StatPath {
    /// Whether every request of this rule is counted under one name.
    pub(crate) fn is_fixed(&self) -> bool {
        self.0.iter().all(|part| matches!(part, StatPart::Fixed(_)))
    }

    /// The name for a request with these entries.
    pub fn name(&self, entries: &[Entry<'_>]) -> Vec<String> {
        let parts = self.0.iter().zip(entries.iter().map(Some).chain(std::iter::repeat(None)));
        parts
            .map(|(part, entry)| match (part, entry) {
                (StatPart::Fixed(text), _) => text.to_string(),
                (StatPart::OfRequest, Some(entry)) => joined(*entry),
                (StatPart::OfRequest, None) => String::new(),
            })
            .collect()
    }
}

/// The statistics name of an entry. An empty value is omitted, and a credential is replaced by its hash, because
/// metrics are readable without a token.
pub fn joined((key, value): Entry<'_>) -> String {
    if value.is_empty() { key.to_owned() } else { format!("{key}_{}", redact(key, value).0) }
}

#[cfg(test)]
mod tests {
    use super::{Path, RulePlace, joined};

    // Seen failing on: the value in clear.
    #[test]
    fn stat_name_contains_no_credential() {
        assert_eq!(joined(("user", "ada")), "user_ada");
        assert_eq!(joined(("x-api-key", "")), "x-api-key");
        for (key, value) in [("x-api-key", "open"), ("path", "/cb?access_token=open"), ("h", "Bearer open")] {
            let name = joined((key, value));
            assert!(name.starts_with(&format!("{key}_sha256:")) && !name.contains("open"), "{name}");
        }
    }

    // Seen failing on: the absolute path.
    #[test]
    fn rule_file_is_displayed_relative_to_the_rules_folder() {
        for (file, root, expected) in [
            ("/etc/hivemind/rules/shop.yaml", "/etc/hivemind/rules", "shop.yaml"),
            ("/etc/hivemind/rules/eu/shop.yaml", "/etc/hivemind/rules/", "eu/shop.yaml"),
            ("/etc/hivemind/rules.yaml", "/etc/hivemind/rules.yaml", "rules.yaml"),
            ("rules/shop.yaml", "rules", "shop.yaml"),
            ("/moved/since/shop.yaml", "/etc/hivemind/rules", "shop.yaml"),
            ("", "/etc", ""),
        ] {
            let place = RulePlace { file: file.into(), line: 1 };
            assert_eq!(place.file_below(Path::new(root)), expected, "{file}");
        }
    }
}
