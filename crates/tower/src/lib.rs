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
mod backend;
mod bucket;
mod client;
mod client_address;
mod decision;
mod effective_limit;
mod endpoints;
mod forwarded;
mod future;
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
mod response_body;
mod retry_after;
mod service;
mod service_limiter;
mod service_limits;
mod settle;
pub mod tokens;
pub mod websocket;

/// What cannot be put in force, and what to write instead.
///
/// ```
/// use hivemind_tower::error::{LimiterError, LimitsError};
/// use hivemind_tower::{Limits, PartialLimit, RateLimiter};
///
/// let error = RateLimiter::new(Limits::new().platform(PartialLimit::new().requests(0))).unwrap_err();
/// assert!(matches!(error, LimiterError::Limits(LimitsError::Limit { .. })));
/// assert!(error.to_string().contains("a rate must be at least 1 request"));
/// ```
pub mod error {
    pub use crate::client_address::TrustError;
    pub use crate::identity::IdentityError;
    pub use crate::limiter::LimiterError;
    pub use crate::limits_error::LimitsError;
    pub use crate::refusal_log::LogError;
}

/// What [`ServiceLimiter::admit_with_observer`] tells.
///
/// ```
/// use hivemind_tower::{Limits, RateLimiter, trace::DecisionStage};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let limiter = RateLimiter::new(Limits::new())?.service_limiter("shop");
/// let (request, ()) = http::Request::get("/").body(())?.into_parts();
/// let mut stages = Vec::new();
/// runtime.block_on(limiter.admit_with_observer(&request, None, |stage| stages.push(stage)));
/// assert_eq!(stages, [DecisionStage::Resolved, DecisionStage::Decided]); // In this process nobody waits.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod trace {
    pub use crate::service_limiter::DecisionStage;
}

/// What an operator asks of the limits in force: which they are, where they were said, and what has been counted.
///
/// ```
/// use hivemind_tower::{LimitKind, Limits, PartialLimit, RateLimiter, operator::Level};
///
/// let limiter = RateLimiter::new(Limits::new().platform(PartialLimit::new().requests(80)))?;
/// for limit in limiter.effective_limits().iter().filter(|limit| limit.kind == LimitKind::Http) {
///     assert_eq!((limit.limit.requests(), limit.origin.requests), (80, Level::Platform));
///     assert_eq!(limit.origin.window, Level::BuiltIn); // Nobody said how long.
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod operator {
    pub use crate::effective_limit::EffectiveLimit;
    pub use crate::level::{Level, Origin};
    pub use crate::named_counter::NamedCounter;
}

/// The types that a layered service answers with, for those who have to name them.
///
/// ```
/// use hivemind_tower::response::{ResponseBody, ResponseFuture};
/// use http::{Request, Response};
/// use std::{convert::Infallible, future::Ready};
///
/// /// What a layered service is to who keeps it in a field or names it in a bound.
/// type Answer = Response<ResponseBody<String>>;
/// type Answering = ResponseFuture<Ready<Result<Response<String>, Infallible>>, String, Infallible>;
/// fn is_the_answer<F: Future<Output = Result<Answer, Infallible>>>() {}
/// is_the_answer::<Answering>();
/// ```
pub mod response {
    pub use crate::future::ResponseFuture;
    pub use crate::response_body::ResponseBody;
}

pub use answer::Headers;
pub use bucket::LimitKind;
pub use client::Client;
pub use client_address::ClientAddress;
pub use decision::Decision;
pub use forwarded::ForwardingHeader;
pub use identity::{Identity, IdentitySource};
pub use layer::RateLimitLayer;
pub use limiter::RateLimiter;
pub use limiter_builder::RateLimiterBuilder;
pub use limits::Limits;
pub use partial_limit::{Algorithm, PartialLimit};
pub use peer::Peer;
pub use refusal_log::{LogSampling, Refusal, RefusalLog};
pub use retry_after::RetryAfter;
pub use service::RateLimit;
pub use service_limiter::{Admission, AdmittedRequest, ServiceLimiter};
pub use service_limits::ServiceLimits;
