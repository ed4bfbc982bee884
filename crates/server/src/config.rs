//! Files that people write: read whole, refused with every mistake's place and remedy.

mod document;
mod limit_reader;
mod masked;
mod problem;
mod reader;
mod reference;
mod response_reader;
mod rule_file;
mod rule_files;
mod rule_schema;
mod settings;
mod toml_document;

#[cfg(any(test, fuzzing))]
pub(crate) use problem::Problem;
pub(crate) use problem::Problems;
#[cfg(any(test, fuzzing))]
pub(crate) use rule_files::parse_rules;
pub(crate) use rule_files::{LoadedRules, RuleTexts, demo_rules, load_rules, read_bounded};
pub(crate) use rule_schema::rules as rules_schema;
/// The gateway's settings.
pub(crate) use settings::gateway;
pub(crate) use settings::{
    DecisionLines, Destination, LARGEST_CONFIGURATION, Leaves, Loaded, Log, LogFormat, LogLevel, LogLevels,
    Mesh, MeshFiles, NamedService, OtlpProtocol, RateLimiting, Redis, SECTIONS, Security, Settings,
    SettingsText, Told, Topology, Tracing, configuration as configuration_schema, duration, environment,
    is_secret, is_short_secret, load_settings, module_name,
};
