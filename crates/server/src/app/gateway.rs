//! The gateway as a part of the running service: its socket, its threads, its end.

mod certificates;

use super::bounded::Bounded;
use super::listeners::{Tcp, without_delay};
use super::until;
use crate::config::gateway as settings;
use crate::front::gateway::{Arrival, Gateway};
use crate::front::workers::{Ended, Workers};
use crate::tls;
use anyhow::Context;
use hivemind_tower::RateLimiter;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Who is sent to HTTPS goes at once: so many of them are enough.
const MOST_REDIRECTED: usize = 1_024;

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

/// The socket that sends whoever comes in plain HTTP to HTTPS.
pub(super) async fn bind_redirect(front: &settings::Front) -> anyhow::Result<Option<Bounded<Tcp>>> {
    let Some(address) = front.tls.as_ref().and_then(|tls| tls.redirect_from) else { return Ok(None) };
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}; free it, or set gateway.tls.redirect_from to another address")
    })?;
    Ok(Some(Bounded::new(without_delay(listener), MOST_REDIRECTED)))
}

/// Sends whoever comes to this port, until told to stop.
pub(super) async fn redirect(mut listener: Bounded<Tcp>, https_port: u16, stopped: watch::Receiver<bool>) {
    let mut stopped = pin!(until(stopped));
    loop {
        tokio::select! { biased;
            () = &mut stopped => return,
            Some((stream, place, _)) = listener.next() => drop(tokio::spawn(async move {
                tls::redirect::serve(stream, https_port).await;
                drop(place);
            })),
        }
    }
}

/// The gateway that runs.
pub(super) struct Running {
    pub(super) gateway: Arc<Gateway>,
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
        let tls = match &settings.front.tls {
            None => None,
            Some(tls) => {
                let (acceptor, certificates) = certificates::load(tls)?;
                let hangup = signal(SignalKind::hangup()).context("listening for signals")?;
                tokio::spawn(certificates::follow(certificates, hangup));
                Some(acceptor)
            }
        };
        let started = Gateway::start(settings, limiter, tls, cores, stopped).await;
        let (gateway, workers, ended) = started.context("starting the gateway")?;
        Ok(Self { gateway: Arc::new(gateway), workers, listener, ended })
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
