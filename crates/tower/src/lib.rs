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

mod client;
mod forwarded;
mod identity;
mod refusal_log;
mod retry_after;
mod trust;

pub use client::Client;
pub use forwarded::ForwardingHeader;
pub use identity::{Identity, IdentityError, Step};
pub use refusal_log::{LogError, LogSampling, Refusal, RefusalLog};
pub use retry_after::RetryAfter;
pub use trust::{ClientAddress, TrustError};
