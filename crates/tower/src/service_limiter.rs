//! The same decision without tower, for servers that forward requests themselves: they
//! keep what belongs to their thread, and learn what was decided without looking for it
//! in the extensions of a request or of an answer.

use crate::admission::{Asking, Conclusion};
use crate::answer;
use crate::backend::Deciding;
use crate::decision::Decision;
use crate::limiter::RateLimiter;
use crate::resolved::Resolved;
use crate::websocket::ConnectionGuard;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Response};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// A limiter before one service, asked by hand, with the limits that were in force when it was made: after a
/// [reload](RateLimiter::reload) make another, together with whatever else changes.
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
/// let Admission::Refused(_, answer) = limiter.admit(&request, peer).await else { panic!("passed") };
/// assert_eq!(answer.status(), 429);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ServiceLimiter {
    limiter: RateLimiter,
    /// Those that were in force when it was made: whoever swaps gates with what is behind them swaps all at once.
    limits: Arc<Resolved>,
    service: Arc<str>,
}

/// How far a decision has come.
///
/// ```
/// use hivemind_tower::{Limits, RateLimiter, trace::DecisionStage};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let off = RateLimiter::new(Limits::new().enabled(false))?.service_limiter("shop");
/// let (request, ()) = http::Request::get("/").body(())?.into_parts();
/// let mut stages = Vec::<DecisionStage>::new();
/// runtime.block_on(off.admit_with_observer(&request, None, |stage| stages.push(stage)));
/// assert!(stages.is_empty()); // Nothing is decided where limits are switched off.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecisionStage {
    /// It is known which limits are asked, and by which counters.
    Resolved,
    /// Whoever keeps the counters has to be waited for.
    Waiting,
    /// They have decided, or could not.
    Decided,
}

/// What becomes of a request.
///
/// ```
/// use hivemind_tower::{Limits, Admission, RateLimiter};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let limiter = RateLimiter::new(Limits::new())?.service_limiter("shop");
/// let (request, ()) = http::Request::get("/").body(())?.into_parts();
/// match runtime.block_on(limiter.admit(&request, None)) {
///     Admission::Admitted(pass) => assert!(pass.guard().is_none()), // It goes on, and is no WebSocket.
///     Admission::Refused(_, answer) => println!("{}", answer.status()),
///     _ => unreachable!(),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Admission {
    /// It goes on.
    Admitted(AdmittedRequest),
    /// It is answered so, and nobody else is asked. Without a decision where none could be made and the
    /// limiter fails closed.
    Refused(Option<Decision>, Response<Bytes>),
}

/// What a request that goes on carries with it.
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
/// let mut headers = HeaderMap::new(); // Those of the answer from behind.
/// pass.write_headers(&mut headers);
/// assert_eq!(headers["x-ratelimit-limit"], "100");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AdmittedRequest {
    decision: Option<Decision>,
    guard: Option<ConnectionGuard>,
}

impl ServiceLimiter {
    pub(crate) fn new(limiter: RateLimiter, service: &str) -> Self {
        let limits = limiter.0.limits.load_full();
        Self { limiter, limits, service: service.into() }
    }

    /// The service, as the limits call it.
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

    /// Decides on a request, and holds it back where its limit delays.
    pub async fn admit(&self, parts: &Parts, peer: Option<IpAddr>) -> Admission {
        self.admit_with_observer(parts, peer, |_| {}).await
    }

    /// The same, with a word to `note` at each stage, for those who trace it.
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
        mut note: impl FnMut(DecisionStage),
    ) -> Admission {
        let shared = &self.limiter.0;
        let asked = match shared.ask(&self.limits, &self.service, parts, || peer) {
            Asking::Store(asked) => asked,
            Asking::Nothing(guard) => return Admission::Admitted(AdmittedRequest { decision: None, guard }),
        };
        note(DecisionStage::Resolved);
        let verdicts = match shared.decide(&asked) {
            Deciding::Now(verdicts) => Ok(verdicts),
            Deciding::Later(later) => {
                note(DecisionStage::Waiting);
                shared.in_time(later).await
            }
        };
        note(DecisionStage::Decided);
        match shared.conclude(asked, verdicts, parts) {
            Conclusion::Passed { decision, guard } => {
                if let Some(decision) = &decision {
                    shared.pause(decision.delay()).await;
                }
                Admission::Admitted(AdmittedRequest { decision, guard })
            }
            Conclusion::Refused(decision) => {
                let answer = shared.answers.refusal(parts, &decision);
                Admission::Refused(Some(decision), answer)
            }
            Conclusion::Undecided => Admission::Refused(None, answer::undecided()),
        }
    }
}

impl fmt::Debug for ServiceLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("service", &self.service).finish_non_exhaustive()
    }
}

impl AdmittedRequest {
    /// What was decided; none with limits switched off or a store that failed.
    #[must_use]
    pub const fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// The guard of a request that opens a WebSocket.
    #[must_use]
    pub const fn guard(&self) -> Option<&ConnectionGuard> {
        self.guard.as_ref()
    }

    /// Tells the client in the headers of its answer what was decided.
    pub fn write_headers(&self, headers: &mut HeaderMap) {
        if let Some(decision) = &self.decision {
            decision.shared().answers.tell(headers, decision);
        }
    }
}
