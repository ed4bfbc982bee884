//! Files that people write: read whole, refused with every mistake's place and remedy.

mod document;
mod limit_reader;
mod problem;
mod reader;
mod rule_file;
mod rule_files;
#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "`serve` is their reader, and on its way"))]
mod settings;
mod toml_document;

pub(crate) use problem::Problems;
pub(crate) use rule_files::{load_rules, parse_rules};
