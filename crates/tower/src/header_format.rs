//! Header format: which rate limit headers a response carries.

/// Which headers report a client's limit.
///
/// ```
/// use hivemind_tower::{Headers, Limits, Admission, RateLimiter};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let limiter = RateLimiter::builder(Limits::new()).headers(Headers::Ietf).build()?.service_limiter("shop");
/// let (request, ()) = http::Request::get("/").body(())?.into_parts();
/// let Admission::Admitted(pass) = runtime.block_on(limiter.admit(&request, None)) else { panic!("refused") };
/// let mut headers = http::HeaderMap::new();
/// pass.write_headers(&mut headers);
/// assert_eq!(headers["ratelimit-policy"], r#""default";q=100;w=60"#);
/// assert_eq!(headers["ratelimit"], r#""default";r=99;t=1"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Headers {
    /// `RateLimit-Policy` and `RateLimit` of the IETF draft.
    Ietf,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    X,
    /// Both families.
    #[default]
    Both,
    /// None of them. Refusals still carry `Retry-After`.
    Off,
}

/// How limits are written into response headers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeaderFormat {
    pub(crate) headers: Headers,
    /// Whether `X-RateLimit-Reset` counts from now instead of the Unix epoch.
    pub(crate) reset_is_delta: bool,
}
