//! The front doors.

pub(crate) mod rls;
