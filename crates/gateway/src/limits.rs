//! Rate limiter of the gateway, built from its settings.

use crate::settings::{Clients, Forwarding, Front, GatewaySettings, IdentityStep, LimitHeaders, LogTarget};
use hivemind_core::Ipv6Prefix;
use hivemind_core::store::KeySeed;
use hivemind_engine::storage::{Storage, counting};
use hivemind_telemetry::logging::DecisionLog;
use hivemind_tower::error::{IdentityError, LimiterError, LogError, TrustError};
use hivemind_tower::{
    ClientAddress, ForwardingHeader, Headers, Identity, IdentitySource, RateLimiter, RateLimiterBuilder,
    RefusalLog,
};
use std::sync::Arc;
use std::time::Duration;

/// Why the limiter cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum GatewayLimitsError {
    #[error("gateway.client_ip: {0}")]
    Trust(#[from] TrustError),
    #[error("gateway.client_ip.ipv6_prefix: {0}")]
    Prefix(#[from] hivemind_core::Ipv6PrefixError),
    #[error("gateway.identity: {0}")]
    Identity(#[from] IdentityError),
    #[error("gateway.refusal_log: {0}")]
    Log(#[from] LogError),
    #[error(transparent)]
    Limiter(#[from] LimiterError),
}

/// The limiter, and the logs of refusals and decisions.
pub struct Limiting {
    pub limiter: RateLimiter,
    pub refusals: Arc<RefusalLog>,
    pub decisions: Arc<DecisionLog>,
}

/// Builds a limiter that counts in `storage`, which other components use and sweep. `max_wait` limits the wait for a
/// shared store.
pub fn limiter(
    gateway: &GatewaySettings,
    storage: &Arc<Storage>,
    max_wait: Option<Duration>,
    seed: KeySeed,
    decisions: &Arc<DecisionLog>,
) -> Result<Limiting, GatewayLimitsError> {
    let (builder, refusals) = builder(gateway)?;
    let limiter = counting(builder, storage, max_wait, seed).build()?;
    Ok(Limiting { limiter, refusals, decisions: Arc::clone(decisions) })
}

fn builder(gateway: &GatewaySettings) -> Result<(RateLimiterBuilder, Arc<RefusalLog>), GatewayLimitsError> {
    let Front { clients, headers, reset_is_delta, text_body, refusal_log, .. } = &gateway.front;
    let headers = match headers {
        LimitHeaders::Ietf => Headers::Ietf,
        LimitHeaders::X => Headers::X,
        LimitHeaders::Both => Headers::Both,
        LimitHeaders::Off => Headers::Off,
    };
    let log = match refusal_log {
        None => RefusalLog::events(),
        Some(LogTarget::Stdout) => RefusalLog::standard_output()?,
        Some(LogTarget::File(path)) => RefusalLog::appending_to(path)?,
    };
    let log = Arc::new(log);
    let mut builder = RateLimiter::builder(gateway.routing.limits())
        .identity(identity(clients)?)
        .headers(headers)
        .refusal_log(Arc::clone(&log));
    if *reset_is_delta {
        builder = builder.reset_delta();
    }
    if *text_body {
        builder = builder.text_body();
    }
    Ok((builder, log))
}

/// The source of client addresses, with the trusted proxies.
pub fn client_address(clients: &Clients) -> Result<ClientAddress, GatewayLimitsError> {
    let header = match clients.header {
        Forwarding::XForwardedFor => ForwardingHeader::XForwardedFor,
        Forwarding::Forwarded => ForwardingHeader::Forwarded,
    };
    let address = if clients.legacy_leftmost {
        ClientAddress::legacy_leftmost(header)
    } else if let Some(hops) = clients.trusted_hops {
        ClientAddress::behind_hops(usize::try_from(hops).unwrap_or(usize::MAX), header)?
    } else if clients.trusted_proxies.is_empty() {
        ClientAddress::peer()
    } else {
        ClientAddress::behind_proxies(&clients.trusted_proxies, header)?
    };
    Ok(address.with_ipv6_prefix(Ipv6Prefix::new(clients.ipv6_prefix)?))
}

fn identity(clients: &Clients) -> Result<Identity, GatewayLimitsError> {
    let address = client_address(clients)?;
    let mut steps = Vec::new();
    for step in &clients.identity {
        steps.extend(match step {
            IdentityStep::Session => {
                Some(IdentitySource::session_in(&clients.session_cookie, "x-session-id")?)
            }
            IdentityStep::Bearer => Some(IdentitySource::bearer()),
            IdentityStep::ApiKey => Some(IdentitySource::api_key_id()),
            // The fallback if no step identifies the client.
            IdentityStep::Ip => None,
        });
    }
    Ok(Identity::new(steps, address)?)
}
