//! nginx import: converts `limit_req` and related directives to a `gateway` section.
//!
//! Files are parsed as nginx does: a tree of directives, where inner blocks inherit from outer ones. Everything that
//! is not converted gets a note with its place; nothing is dropped silently.

mod context;
mod glob;
mod key;
mod lexer;
mod limit;
mod location;
mod others;
mod real_ip;
mod report;
mod section;
mod server;
#[cfg(test)]
mod tests;
mod tree;
mod unit;
mod upstream;
mod yaml;
mod zone;

pub(crate) use report::{FilePosition, ImportNote};

use report::ImportReport;
use section::GatewaySection;
use std::path::Path;

/// The result of an import.
#[derive(Debug)]
pub(crate) struct ImportedConfiguration {
    /// A configuration with a `gateway` section.
    pub(crate) yaml: String,
    /// Directives that were not converted, or not exactly, in file order.
    pub(crate) notes: Vec<ImportNote>,
    /// Whether a limit, TLS or an access restriction was lost: the result protects less than nginx did.
    pub(crate) is_weaker: bool,
}

/// Why the import failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    #[error("{place}: {cause}; {remedy}")]
    Broken { place: FilePosition, cause: String, remedy: &'static str },
    #[error(
        "no `location` with a `proxy_pass` found that could become a service; name the file that contains your `server` blocks"
    )]
    Nothing { notes: Vec<ImportNote> },
}

/// Imports an nginx configuration with all included files.
pub(crate) fn import(path: &Path) -> Result<ImportedConfiguration, ImportError> {
    let directives = tree::read(path)?;
    let mut report = ImportReport::default();
    let section = GatewaySection::of(&directives, &mut report);
    let (notes, is_weaker) = report.in_order();
    if section.services.is_empty() {
        return Err(ImportError::Nothing { notes });
    }
    Ok(ImportedConfiguration { yaml: yaml::write(&section, &notes), notes, is_weaker })
}
