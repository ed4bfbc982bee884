//! Several nodes on one limit.
