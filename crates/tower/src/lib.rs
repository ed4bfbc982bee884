//! Rate limiting middleware for axum, tonic, hyper and any tower stack. Terms: `docs/GLOSSARY.md`.
//!
//! Clients are identified by session, bearer token, API key id or address. Requests over the limit get `429` with
//! `Retry-After`; the inner service is not called.
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
//! The path of a request: [`Identity`] names its [`Client`]; its service, method and path select the limit; the
//! client's bucket and, unless the client is identified by its address, the guard of its address are charged in
//! one step. An admitted request reaches the inner service with its [`Decision`] in the extensions.

mod accept;
mod active_limits;
mod address_text;
mod admission;
mod backend;
mod bucket;
mod charge_plan;
mod client;
mod client_address;
mod decision;
mod effective_limit;
mod endpoints;
mod forwarded;
mod future;
mod header_format;
mod identity;
mod layer;
mod level;
mod limit_kind;
mod limiter;
mod limiter_builder;
mod limiter_state;
mod limits;
mod limits_error;
mod named_counter;
mod open_connections;
mod partial_limit;
pub mod path;
mod peer;
mod policy;
mod problem;
mod refusal_log;
mod refusal_response;
mod response_body;
mod response_headers;
mod retry_after;
mod service;
mod service_limiter;
mod service_limits;
mod settlement;
mod spent_costs;
pub mod tokens;
pub mod websocket;

/// Errors of invalid configuration, with the place and the remedy.
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

/// The stages that [`ServiceLimiter::admit_with_observer`] reports.
///
/// ```
/// use hivemind_tower::{Limits, RateLimiter, trace::DecisionStage};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let limiter = RateLimiter::new(Limits::new())?.service_limiter("shop");
/// let (request, ()) = http::Request::get("/").body(())?.into_parts();
/// let mut stages = Vec::new();
/// runtime.block_on(limiter.admit_with_observer(&request, None, |stage| stages.push(stage)));
/// assert_eq!(stages, [DecisionStage::Resolved, DecisionStage::Decided]); // A store in this process does not wait.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod trace {
    pub use crate::service_limiter::DecisionStage;
}

/// Views for operators: the active limits, their origin and their counters.
///
/// ```
/// use hivemind_tower::{LimitKind, Limits, PartialLimit, RateLimiter, operator::Level};
///
/// let limiter = RateLimiter::new(Limits::new().platform(PartialLimit::new().requests(80)))?;
/// for limit in limiter.effective_limits().iter().filter(|limit| limit.kind == LimitKind::Http) {
///     assert_eq!((limit.limit.requests(), limit.origin.requests), (80, Level::Platform));
///     assert_eq!(limit.origin.window, Level::BuiltIn); // The default window.
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub mod operator {
    pub use crate::effective_limit::EffectiveLimit;
    pub use crate::level::{Level, Origin};
    pub use crate::named_counter::NamedCounter;
}

/// The response types of a limited service, for code that has to name them.
///
/// ```
/// use hivemind_tower::response::{ResponseBody, ResponseFuture};
/// use http::{Request, Response};
/// use std::{convert::Infallible, future::Ready};
///
/// /// The output and the future of a limited service, for a field or a trait bound.
/// type LimitedResponse = Response<ResponseBody<String>>;
/// type LimitedFuture = ResponseFuture<Ready<Result<Response<String>, Infallible>>, String, Infallible>;
/// fn assert_output<F: Future<Output = Result<LimitedResponse, Infallible>>>() {}
/// assert_output::<LimitedFuture>();
/// ```
pub mod response {
    pub use crate::future::ResponseFuture;
    pub use crate::response_body::ResponseBody;
}

pub use client::Client;
pub use client_address::ClientAddress;
pub use decision::Decision;
pub use forwarded::ForwardingHeader;
pub use header_format::Headers;
pub use identity::{Identity, IdentitySource};
pub use layer::RateLimitLayer;
pub use limit_kind::LimitKind;
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
