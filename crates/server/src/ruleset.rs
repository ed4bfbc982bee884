//! Rules as the service needs them: which limit answers is the core's business
//! ([`Rules`]); what to count them under and what to say beside the verdict is here.

use crate::storage::OnError;
use hivemind_core::{Entry, Rules};
use hivemind_telemetry::redact;
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// All rules in force, with what belongs to each. Swapped whole at a reload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ruleset {
    pub(crate) rules: Rules,
    /// One for each declaration, in the order in which the rules were added.
    pub(crate) extras: Vec<Extras>,
}

/// What a rule has beside its limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    pub(crate) place: Place,
    pub(crate) stat: StatPath,
    /// What Envoy is told where the rule lets a request pass.
    pub(crate) metadata: Option<Value>,
    pub(crate) response: Response,
    /// What it says where the shared store cannot; none: what is said for all.
    pub(crate) on_error: Option<OnError>,
}

/// Where a rule is declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: Arc<str>,
    pub(crate) line: usize,
}

impl Place {
    /// Its file for those who are not to know what folders this machine has: as it is called below `root`, from where
    /// all rules come.
    pub(crate) fn file_below(&self, root: &Path) -> String {
        let file = Path::new(&*self.file);
        let below = file.strip_prefix(root).ok().filter(|below| !below.as_os_str().is_empty());
        let shown = below.or_else(|| file.file_name().map(Path::new)).unwrap_or(file);
        shown.display().to_string()
    }
}

/// What a rule adds to the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Response {
    /// For the client, whether it passes or not.
    pub(crate) headers: Vec<(String, String)>,
    /// For the upstream, of a request that passes.
    pub(crate) request_headers: Vec<(String, String)>,
    /// For the client, of a request that does not.
    pub(crate) raw_body: Option<String>,
    pub(crate) quota: Option<Quota>,
}

/// A share of the budget that a client may spend without asking again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    pub(crate) id: String,
    pub(crate) valid_for: Duration,
}

/// What a rule is counted under: a part for each entry of its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatPath(pub(crate) Vec<StatPart>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StatPart {
    /// As in the rule: `key`, `key_value` or `key_pattern*`.
    Fixed(String),
    /// `key_value` with the value of the request.
    OfRequest,
}

impl StatPath {
    /// Whether every request of this rule is counted under one name.
    pub(crate) fn is_fixed(&self) -> bool {
        self.0.iter().all(|part| matches!(part, StatPart::Fixed(_)))
    }

    /// The name for a request with these entries.
    pub(crate) fn name(&self, entries: &[Entry<'_>]) -> Vec<String> {
        let parts = self.0.iter().zip(entries.iter().map(Some).chain(std::iter::repeat(None)));
        parts
            .map(|(part, entry)| match (part, entry) {
                (StatPart::Fixed(text), _) => text.clone(),
                (StatPart::OfRequest, Some(entry)) => joined(*entry),
                (StatPart::OfRequest, None) => String::new(),
            })
            .collect()
    }
}

/// The name of an entry in statistics, where an empty value leaves no trace, and what opens something a hash: whoever reads
/// metrics needs no token.
pub(crate) fn joined((key, value): Entry<'_>) -> String {
    if value.is_empty() { key.to_owned() } else { format!("{key}_{}", redact(key, value).0) }
}

#[cfg(test)]
mod tests {
    use super::{Path, Place, joined};

    // Seen failing on: the value as it came.
    #[test]
    fn no_credential_is_part_of_a_name_in_statistics() {
        assert_eq!(joined(("user", "ada")), "user_ada");
        assert_eq!(joined(("x-api-key", "")), "x-api-key");
        for (key, value) in [("x-api-key", "open"), ("path", "/cb?access_token=open"), ("h", "Bearer open")] {
            let name = joined((key, value));
            assert!(name.starts_with(&format!("{key}_sha256:")) && !name.contains("open"), "{name}");
        }
    }

    // Seen failing on: the whole path.
    #[test]
    fn a_file_is_told_to_strangers_as_it_is_called_below_where_rules_come_from() {
        for (file, root, told) in [
            ("/etc/hivemind/rules/shop.yaml", "/etc/hivemind/rules", "shop.yaml"),
            ("/etc/hivemind/rules/eu/shop.yaml", "/etc/hivemind/rules/", "eu/shop.yaml"),
            ("/etc/hivemind/rules.yaml", "/etc/hivemind/rules.yaml", "rules.yaml"),
            ("rules/shop.yaml", "rules", "shop.yaml"),
            ("/moved/since/shop.yaml", "/etc/hivemind/rules", "shop.yaml"),
            ("", "/etc", ""),
        ] {
            let place = Place { file: file.into(), line: 1 };
            assert_eq!(place.file_below(Path::new(root)), told, "{file}");
        }
    }
}
