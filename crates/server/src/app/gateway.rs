//! The gateway as a part of the running service: its socket, its threads, its end.

use super::bounded::Bounded;
use super::listeners::{Tcp, without_delay};
use super::until;
use crate::config::gateway as settings;
use crate::front::gateway::{Arrival, Gateway};
use crate::front::workers::{Ended, Workers};
use anyhow::Context;
use hivemind_tower::RateLimiter;
use std::num::NonZeroUsize;
use std::pin::pin;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The socket that the gateway listens on.
pub(super) async fn bind(front: &settings::Front) -> anyhow::Result<Bounded<Tcp>> {
    let address = front.listen;
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!(
            "cannot listen on {address}; free it, or set gateway.listen to another address, port 0 for any"
        )
    })?;
    Ok(Bounded::new(without_delay(listener), front.max_connections.get()))
}

/// The gateway that runs.
pub(super) struct Running {
    pub(super) gateway: Gateway,
    workers: Workers<Arrival>,
    listener: Bounded<Tcp>,
    ended: Ended,
}

impl Running {
    pub(super) async fn start(
        settings: &settings::Gateway,
        listener: Bounded<Tcp>,
        limiter: RateLimiter,
        stopped: &watch::Receiver<bool>,
    ) -> anyhow::Result<Self> {
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let started = Gateway::start(settings, limiter, None, cores, stopped).await;
        let (gateway, workers, ended) = started.context("starting the gateway")?;
        Ok(Self { gateway, workers, listener, ended })
    }

    /// Deals out all connections that come, until told to stop; then waits for the last of them.
    pub(super) async fn serve(self, stopped: watch::Receiver<bool>) {
        let Self { workers, mut listener, ended, gateway: _gateway } = self;
        {
            let mut stopped = pin!(until(stopped));
            loop {
                tokio::select! { biased;
                    () = &mut stopped => break,
                    Some((stream, place, peer)) = listener.next() => match stream.into_std() {
                        Ok(stream) => workers.deal(Arrival { stream, peer }, place),
                        Err(error) => tracing::warn!("a connection could not be dealt out: {error}"),
                    },
                }
            }
        }
        // Whoever comes now is told by the kernel; the threads end once nobody deals any more.
        drop((listener, workers));
        ended.wait().await;
    }
}

/// For now, until the settings' own.
pub(super) fn limiter(settings: &settings::Gateway) -> anyhow::Result<RateLimiter> {
    use hivemind_tower::{ClientAddress, ForwardingHeader, Identity, Limits, ServiceLimits};
    let mut limits = Limits::new().platform(settings.routing.platform.limit);
    for service in &settings.routing.services {
        limits = limits.service(ServiceLimits::new(&service.id).limit(service.limit));
    }
    let clients = &settings.front.clients;
    let address = if clients.trusted_proxies.is_empty() {
        ClientAddress::peer()
    } else {
        ClientAddress::behind_proxies(&clients.trusted_proxies, ForwardingHeader::XForwardedFor)?
    };
    Ok(RateLimiter::builder(limits).identity(Identity::usual(address)).build()?)
}
