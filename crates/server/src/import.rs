//! Configuration of other programs, made into ours.

pub(crate) mod nginx;
