//! The gateway as a part of the running service: its socket, its threads, its end.

mod certificates;

use super::bounded::Bounded;
use super::ending::{Door, Ending};
use super::listeners::Tcp;
use crate::config::gateway as settings;
use crate::front::gateway::{Arrival, Counting, Crowd, Gateway, Limiting};
use crate::front::workers::{Ended, Workers};
use crate::telemetry::trace::Tracer;
use crate::tls::{self, Certificates};
use anyhow::Context;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;

/// Sends whoever comes to this port, until told to stop.
pub(super) async fn redirect(mut listener: Bounded<Tcp>, https_port: u16, door: Door) {
    let mut shut = pin!(door.shuts());
    loop {
        tokio::select! { biased;
            () = &mut shut => return,
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
        ending: &Ending,
    ) -> anyhow::Result<Self> {
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let tls = settings.front.tls.as_ref().map(certificates::load).transpose()?;
        let (tls, certificates) = tls.unzip();
        let started =
            Gateway::start(settings, limiting, tls, counted, workers.unwrap_or(cores), &ending.of_guests())
                .await;
        let (gateway, workers, ended) = started.context("starting the gateway")?;
        let crowd = gateway.crowd(&settings.front);
        Ok(Self { gateway: Arc::new(gateway), certificates, workers, listener, crowd, ended })
    }

    /// Deals out all connections that come, until told to stop; then waits for the last of them.
    pub(super) async fn serve(self, door: Door) {
        let Self { workers, mut listener, crowd, ended, .. } = self;
        {
            let mut shut = pin!(door.shuts());
            loop {
                tokio::select! { biased;
                    () = &mut shut => break,
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
        // Whoever comes now is told by the kernel, or served by the process that has taken over; the threads end once
        // nobody deals any more.
        drop((listener, workers));
        ended.wait().await;
    }
}
