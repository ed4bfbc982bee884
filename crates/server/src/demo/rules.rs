//! The built-in rules, used when no rules are configured.

use hivemind_config::problem::Problems;
use hivemind_engine::rule_files::{LoadedRules, parse_rules};

pub(crate) fn demo_rules() -> Result<LoadedRules, Problems> {
    parse_rules("built-in demo rules", include_str!("../../demo/rules.yaml"))
}
