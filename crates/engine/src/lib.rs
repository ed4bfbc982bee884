//! Decision engine of the service: rule files become active rules, which decide requests on the counter storage.
//! Terms: `docs/GLOSSARY.md`.

#![expect(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate, reason = "an internal crate")]

pub mod block_list;
pub mod explanation_text;
pub mod health;
pub mod key_counters;
pub mod mesh;
pub mod rate_limiting;
pub mod replay;
pub mod rule_files;
pub mod ruleset;
pub mod service;
pub mod storage;
#[cfg(any(test, fuzzing, feature = "testing"))]
pub mod testing;
