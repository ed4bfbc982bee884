//! nginx's `limit_req`, and what belongs to it, as a `gateway` section.
//!
//! Read like nginx does: a tree of directives, where inner blocks inherit what they do not say
//! themselves. Whatever is not carried over has a note with its place: nothing is dropped in silence.

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

pub(crate) use report::{Note, Place};

use report::Report;
use section::Section;
use std::path::Path;

/// What became of a configuration of nginx.
#[derive(Debug)]
pub(crate) struct Imported {
    /// A configuration with a `gateway` section.
    pub(crate) yaml: String,
    /// What was not carried over, or not exactly, in the order of the files.
    pub(crate) notes: Vec<Note>,
    /// Whether a limit, or TLS, was among it: what was made protects less than nginx did.
    pub(crate) is_weaker: bool,
}

/// Why nothing could be made of it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    #[error("{place}: {cause}; {remedy}")]
    Broken { place: Place, cause: String, remedy: &'static str },
    #[error(
        "there is no `location` with a `proxy_pass` in it that could become a service; name the file that has your `server` blocks"
    )]
    Nothing { notes: Vec<Note> },
}

/// Reads a configuration of nginx with everything that it includes.
pub(crate) fn import(path: &Path) -> Result<Imported, ImportError> {
    let directives = tree::read(path)?;
    let mut report = Report::default();
    let section = Section::of(&directives, &mut report);
    let (notes, is_weaker) = report.in_order();
    if section.services.is_empty() {
        return Err(ImportError::Nothing { notes });
    }
    Ok(Imported { yaml: yaml::write(&section, &notes), notes, is_weaker })
}
