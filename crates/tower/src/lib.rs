//! Rate limiting for axum, tonic, hyper or any tower stack, safe by default: it knows
//! its clients, refuses before anything behind it is asked, and answers well.
//!
//! ```
//! use hivemind_tower::{Limits, PartialLimit, RateLimitLayer};
//!
//! let limits = Limits::new().platform(PartialLimit::per_second(10).burst(20));
//! let layer = RateLimitLayer::new(limits)?;
//! // On axum: Router::new().route("/", get(hello)).layer(layer), with the feature `axum`.
//! # let _ = layer;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A request's way: the [`Identity`] names its [`Client`]; its service, method and path
//! find the limit; the client's bucket and, if the client named itself, the guard of its
//! address are charged in one step; then it goes on with the [`Decision`] in its
//! extensions, or is answered 429 without a word to the service behind.

mod accept;
mod address_text;
mod admission;
mod answer;
mod answer_body;
mod backend;
mod bucket;
mod client;
mod decision;
mod effective_limit;
mod endpoints;
mod forwarded;
mod future;
mod gate;
mod identity;
mod layer;
mod level;
mod limiter;
mod limiter_builder;
mod limits;
mod limits_error;
mod named_counter;
mod open_connections;
mod order;
mod partial_limit;
pub mod path;
mod peer;
mod problem;
mod refusal_log;
mod resolved;
mod retry_after;
mod service;
mod service_limits;
mod settle;
pub mod tokens;
mod trust;
pub mod websocket;

/// What cannot be put in force, and what to write instead.
pub mod error {
    pub use crate::identity::IdentityError;
    pub use crate::limiter::LimiterError;
    pub use crate::limits_error::LimitsError;
    pub use crate::refusal_log::LogError;
    pub use crate::trust::TrustError;
}

/// What [`Gate::admit_noting`] tells.
pub mod trace {
    pub use crate::gate::Stage;
}

/// What an operator asks of the limits in force: which they are, where they were said, and what has been counted.
pub mod operator {
    pub use crate::effective_limit::EffectiveLimit;
    pub use crate::level::{Level, Origin};
    pub use crate::named_counter::NamedCounter;
}

/// The types that a layered service answers with, for those who have to name them.
pub mod response {
    pub use crate::answer_body::AnswerBody;
    pub use crate::future::ResponseFuture;
}

pub use answer::Headers;
pub use bucket::LimitKind;
pub use client::Client;
pub use decision::Decision;
pub use forwarded::ForwardingHeader;
pub use gate::{Gate, Pass, Passage};
pub use identity::{Identity, Step};
pub use layer::RateLimitLayer;
pub use limiter::RateLimiter;
pub use limiter_builder::RateLimiterBuilder;
pub use limits::Limits;
pub use partial_limit::{Algorithm, PartialLimit};
pub use peer::Peer;
pub use refusal_log::{LogSampling, Refusal, RefusalLog};
pub use retry_after::RetryAfter;
pub use service::RateLimit;
pub use service_limits::ServiceLimits;
pub use trust::ClientAddress;
