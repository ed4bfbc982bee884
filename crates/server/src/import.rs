//! Conversion of other programs' configurations.

pub(crate) mod nginx;
