//! Rule files: loading, validation and JSON Schema. Each error has its place and remedy.

mod bounds;
mod limit_reader;
mod loader;
mod pattern_costs;
mod reader;
mod response_reader;
mod rule_file;
mod schema;

pub use bounds::RuleBounds;
pub use hivemind_config::cancellation::Cancellation;
pub use loader::{LoadedRules, RuleTexts, load_rules, parse_rules};
pub use schema::rules as schema;
