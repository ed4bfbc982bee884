//! Configuration reader: documents with source spans, problems with place and remedy, environment, schema.
//!
//! It reads key by key and knows no section: each component owns its section and reads it with these types.

#![expect(missing_docs, clippy::missing_errors_doc, clippy::must_use_candidate, reason = "an internal crate")]

pub mod bounded_file;
pub mod document;
pub mod environment;
pub mod kind;
pub mod leaves;
mod masked;
pub mod places;
pub mod ports;
pub mod problem;
pub mod reading;
pub mod reference;
pub mod schema;
pub mod shape;
pub mod toml_document;
mod unknown;
pub mod words;
