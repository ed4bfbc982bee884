//! What Hivemind says over HTTP. This crate will hold the layer for tower, axum
//! and tonic: it identifies the client, asks the engine of [`hivemind_core`], and
//! responds.
//!
//! There is one part of it yet: [`RetryAfter`], the wait that a refused client is
//! told. The layer itself, the identity chain, the `RateLimit` headers and the
//! problem body are not there.
//!
//! ```
//! use hivemind_core::store::Outcome;
//! use hivemind_tower::RetryAfter;
//! use std::time::Duration;
//!
//! let refused = Outcome::Refused { retry_after: Some(Duration::from_millis(1_200)) };
//! let told = RetryAfter::of(refused).and_then(RetryAfter::header_value);
//! assert_eq!(told.as_deref(), Some("2"));
//! ```

mod retry_after;

pub use retry_after::RetryAfter;
