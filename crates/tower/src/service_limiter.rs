//! A rate limiter for one service, without tower.
//!
//! For servers that forward requests themselves: the future stays on its thread, and the decision is returned
//! instead of being stored in the extensions of the request.

use crate::active_limits::ActiveLimits;
use crate::admission::{Conclusion, DecisionPlan};
use crate::backend::BackendReply;
use crate::decision::Decision;
use crate::limiter::RateLimiter;
use crate::refusal_response::unavailable;
use crate::websocket::ConnectionGuard;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Response};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// A rate limiter for one service, called explicitly instead of through a layer. It keeps the limits that were
/// active when it was created: after a [reload](RateLimiter::reload) create another one.
///
/// ```
/// use hivemind_tower::{Limits, Admission, PartialLimit, RateLimiter};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let limiter = RateLimiter::new(Limits::new().platform(PartialLimit::per_second(1).burst(1)))?;
/// let limiter = limiter.service_limiter("shop");
/// let (request, ()) = http::Request::get("/").body(())?.into_parts();
/// let peer = Some([203, 0, 113, 9].into());
/// assert!(matches!(limiter.admit(&request, peer).await, Admission::Admitted(_)));
/// let Admission::Refused(_, response) = limiter.admit(&request, peer).await else { panic!("passed") };
/// assert_eq!(response.status(), 429);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ServiceLimiter {
    limiter: RateLimiter,
    /// The limits at creation, so that a proxy can swap its routes and their limiters together.
    limits: Arc<ActiveLimits>,
    service: Arc<str>,
}

/// The stage that a decision has reached.
///
/// ```
/// use hivemind_tower::{Limits, RateLimiter, trace::DecisionStage};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let off = RateLimiter::new(Limits::new().enabled(false))?.service_limiter("shop");
/// let (request, ()) = http::Request::get("/").body(())?.into_parts();
/// let mut stages = Vec::<DecisionStage>::new();
/// runtime.block_on(off.admit_with_observer(&request, None, |stage| stages.push(stage)));
/// assert!(stages.is_empty()); // Without limits there is nothing to decide.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecisionStage {
    /// The limits and counters of the request are known.
    Resolved,
    /// The request waits for the store.
    Waiting,
    /// The store has decided or failed.
    Decided,
}

/// The result of [`ServiceLimiter::admit`].
///
/// ```
/// use hivemind_tower::{Limits, Admission, RateLimiter};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let limiter = RateLimiter::new(Limits::new())?.service_limiter("shop");
/// let (request, ()) = http::Request::get("/").body(())?.into_parts();
/// match runtime.block_on(limiter.admit(&request, None)) {
///     Admission::Admitted(pass) => assert!(pass.guard().is_none()), // Not a WebSocket upgrade.
///     Admission::Refused(_, response) => println!("{}", response.status()),
///     _ => unreachable!(),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Admission {
    /// The request is admitted.
    Admitted(AdmittedRequest),
    /// The request is refused with this response. The decision is missing if the store failed and the limiter
    /// fails closed.
    Refused(Option<Decision>, Response<Bytes>),
}

/// An admitted request: its decision, and its guard if it opens a WebSocket.
///
/// ```
/// use hivemind_tower::{Limits, Admission, RateLimiter};
/// use http::HeaderMap;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let limiter = RateLimiter::new(Limits::new())?.service_limiter("shop");
/// let (request, ()) = http::Request::get("/").body(())?.into_parts();
/// let Admission::Admitted(pass) = runtime.block_on(limiter.admit(&request, None)) else { panic!("refused") };
/// assert!(pass.decision().is_some() && pass.guard().is_none());
/// let mut headers = HeaderMap::new(); // The headers of the upstream response.
/// pass.write_headers(&mut headers);
/// assert_eq!(headers["x-ratelimit-limit"], "100");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AdmittedRequest {
    decision: Option<Decision>,
    guard: Option<ConnectionGuard>,
}

impl RateLimiter {
    /// A limiter for the service of this name, to call explicitly instead of through a layer.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// assert_eq!(RateLimiter::new(Limits::new())?.service_limiter("shop").service(), "shop");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn service_limiter(&self, service: &str) -> ServiceLimiter {
        let limits = self.0.state.limits.load_full();
        ServiceLimiter { limiter: self.clone(), limits, service: service.into() }
    }
}

impl ServiceLimiter {
    /// The name of the service in the limits.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// assert_eq!(RateLimiter::new(Limits::new())?.service_limiter("shop").service(), "shop");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Decides on a request, and delays it if its limit does.
    pub async fn admit(&self, parts: &Parts, peer: Option<IpAddr>) -> Admission {
        self.admit_with_observer(parts, peer, |_| {}).await
    }

    /// Like [`admit`](Self::admit), and calls `observe` at each stage, for tracing.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # let limiter = RateLimiter::new(Limits::new())?.service_limiter("shop");
    /// # let (request, ()) = http::Request::get("/").body(())?.into_parts();
    /// runtime.block_on(limiter.admit_with_observer(&request, None, |stage| println!("{stage:?}")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn admit_with_observer(
        &self,
        parts: &Parts,
        peer: Option<IpAddr>,
        mut observe: impl FnMut(DecisionStage),
    ) -> Admission {
        let inner = &self.limiter.0;
        let pending = match inner.prepare(&self.limits, &self.service, parts, || peer) {
            DecisionPlan::Decide(pending) => pending,
            DecisionPlan::Skip(guard) => {
                return Admission::Admitted(AdmittedRequest { decision: None, guard });
            }
        };
        observe(DecisionStage::Resolved);
        let verdicts = match inner.decide(&pending) {
            BackendReply::Ready(verdicts) => Ok(verdicts),
            BackendReply::Pending(verdicts) => {
                observe(DecisionStage::Waiting);
                inner.state.await_verdicts(verdicts).await
            }
        };
        observe(DecisionStage::Decided);
        match inner.conclude(pending, verdicts, parts) {
            Conclusion::Passed { decision, guard } => {
                if let Some(decision) = &decision {
                    inner.state.pause(decision.delay()).await;
                }
                Admission::Admitted(AdmittedRequest { decision, guard })
            }
            Conclusion::Refused(decision) => {
                let response = inner.refusal_body.refusal(parts, &decision);
                Admission::Refused(Some(decision), response)
            }
            Conclusion::Undecided => Admission::Refused(None, unavailable()),
        }
    }
}

impl fmt::Debug for ServiceLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceLimiter").field("service", &self.service).finish_non_exhaustive()
    }
}

impl AdmittedRequest {
    /// The decision; `None` if limits are disabled or the store failed.
    #[must_use]
    pub const fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// The guard of a request that opens a WebSocket.
    #[must_use]
    pub const fn guard(&self) -> Option<&ConnectionGuard> {
        self.guard.as_ref()
    }

    /// Writes the decision into the headers of the response.
    pub fn write_headers(&self, headers: &mut HeaderMap) {
        if let Some(decision) = &self.decision {
            decision.write_headers(headers);
        }
    }
}
