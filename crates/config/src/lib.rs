//! Configuration reader: documents with source spans, problems with place and remedy, environment, schema. Terms:
//! `docs/GLOSSARY.md`.
//!
//! It reads key by key and knows no section: each component owns its section and reads it with these types.

#![expect(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate, reason = "an internal crate")]

pub mod bounded_file;
pub mod cancellation;
pub mod document;
pub mod environment;
pub mod form;
pub mod key_type;
mod password_mask;
pub mod ports;
pub mod problem;
pub mod reader;
pub mod reference;
pub mod schema;
pub mod source_map;
pub mod spelling;
pub mod toml_document;
mod unknown_keys;
pub mod value_hashes;
pub mod value_kind;
