//! The mesh as this binary runs it: how nodes are named, and the certificates that vouch for their names.

pub(crate) mod certs;
pub(crate) mod name;
