//! The gateway as a part of the running service: its socket, its threads, its end.

mod certificates;

use super::bounded::Bounded;
use super::listeners::Tcp;
use super::until;
use crate::config::gateway as settings;
use crate::front::gateway::{Arrival, Counting, Crowd, Gateway, Limiting};
use crate::front::workers::{Ended, Workers};
use crate::telemetry::trace::Tracer;
use crate::tls::{self, Certificates};
use anyhow::Context;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use tokio::net::TcpListener;
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
    Ok(Bounded::new(Tcp::new(listener), front.max_connections.get()))
}

/// The socket that sends whoever comes in plain HTTP to HTTPS.
pub(super) async fn bind_redirect(front: &settings::Front) -> anyhow::Result<Option<Bounded<Tcp>>> {
    let Some(address) = front.tls.as_ref().and_then(|tls| tls.redirect_from) else { return Ok(None) };
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}; free it, or set gateway.tls.redirect_from to another address")
    })?;
    Ok(Some(Bounded::new(Tcp::new(listener), MOST_REDIRECTED)))
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
    /// None where TLS is not spoken.
    pub(super) certificates: Option<Arc<Certificates>>,
    workers: Workers<Arrival>,
    listener: Bounded<Tcp>,
    crowd: Crowd,
    ended: Ended,
}

impl Running {
    pub(super) async fn start(
        settings: &settings::Gateway,
        workers: Option<NonZeroUsize>,
        listener: Bounded<Tcp>,
        limiting: Limiting,
        counted: (Option<Arc<Tracer>>, Counting),
        stopped: &watch::Receiver<bool>,
    ) -> anyhow::Result<Self> {
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let tls = settings.front.tls.as_ref().map(certificates::load).transpose()?;
        let (tls, certificates) = tls.unzip();
        let started =
            Gateway::start(settings, limiting, tls, counted, workers.unwrap_or(cores), stopped).await;
        let (gateway, workers, ended) = started.context("starting the gateway")?;
        let crowd = gateway.crowd(&settings.front);
        Ok(Self { gateway: Arc::new(gateway), certificates, workers, listener, crowd, ended })
    }

    /// Deals out all connections that come, until told to stop; then waits for the last of them.
    pub(super) async fn serve(self, stopped: watch::Receiver<bool>) {
        let Self { workers, mut listener, crowd, ended, .. } = self;
        {
            let mut stopped = pin!(until(stopped));
            loop {
                tokio::select! { biased;
                    () = &mut stopped => break,
                    Some((stream, place, peer)) = listener.next() => {
                        let Some(seat) = crowd.enter(peer.ip()) else { continue };
                        match stream.into_std() {
                            Ok(stream) => workers.deal(Arrival { stream, peer, seat }, place),
                            Err(error) => tracing::warn!("a connection could not be dealt out: {error}"),
                        }
                    }
                }
            }
        }
        // Whoever comes now is told by the kernel; the threads end once nobody deals any more.
        drop((listener, workers));
        ended.wait().await;
    }
}
