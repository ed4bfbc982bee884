//! Configuration and rule files: loading, validation and schemas. Each error has its place and remedy.

mod limit_reader;
mod reader;
mod response_reader;
mod rule_file;
mod rule_files;
mod rule_schema;
mod settings;

#[cfg(any(test, fuzzing))]
pub(crate) use rule_files::parse_rules;
pub(crate) use rule_files::{LoadedRules, RuleTexts, demo_rules, load_rules};
pub(crate) use rule_schema::rules as rules_schema;
/// The gateway's settings.
pub(crate) use settings::gateway;
pub(crate) use settings::{
    LARGEST_CONFIGURATION, Loaded, Mesh, MeshFiles, RateLimiting, Redis, SECTIONS, Settings, SettingsText,
    Topology, configuration_schema, environment, load_settings,
};
