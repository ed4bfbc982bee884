//! The gateway within the running service: its socket, worker threads and shutdown.

mod certificates;

use super::SharedComponents;
use super::limited_listener::LimitedListener;
use super::listeners::Tcp;
use super::shutdown::{AcceptGate, Shutdown};
use crate::settings::Settings;
use anyhow::Context;
use hivemind_gateway as gateway;
use hivemind_gateway::Arrival;
use hivemind_gateway::Counting;
use hivemind_gateway::Gateway;
use hivemind_gateway::Limiting;
use hivemind_gateway::settings;
use hivemind_telemetry::trace::Tracer;
use hivemind_tls as tls;
use hivemind_tls::ServerCertificates;
use hivemind_tls::acme::Renewal;
use hivemind_tls::workers::{WorkerExit, Workers};
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Redirects every client of this port to HTTPS, until the listener closes.
async fn redirect_all(mut listener: LimitedListener<Tcp>, https_port: u16, gate: AcceptGate) {
    let mut closed = pin!(gate.closed());
    loop {
        tokio::select! { biased;
            () = &mut closed => return,
            (stream, permit, _) = listener.next() => drop(tokio::spawn(async move {
                tokio::select! {
                    () = tls::redirect::serve(stream, https_port) => {}
                    () = permit.evicted() => {}
                }
            })),
        }
    }
}

/// The running gateway.
pub(super) struct GatewayServer {
    pub(super) gateway: Arc<Gateway>,
    /// None without TLS.
    pub(super) certificates: Option<Arc<ServerCertificates>>,
    workers: Workers<Arrival>,
    listener: LimitedListener<Tcp>,
    ended: WorkerExit,
}

impl GatewayServer {
    pub(super) async fn start(
        settings: &settings::GatewaySettings,
        workers: Option<NonZeroUsize>,
        listener: LimitedListener<Tcp>,
        limiting: Limiting,
        counted: (Option<Arc<Tracer>>, Counting),
        shutdown: &Shutdown,
    ) -> anyhow::Result<Self> {
        let cores = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let tls = settings.front.tls.as_ref().map(certificates::load).transpose()?;
        let (tls, certificates) = tls.unzip();
        let started = Gateway::start(
            settings,
            limiting,
            tls,
            counted,
            workers.unwrap_or(cores),
            &shutdown.for_connections(),
        )
        .await;
        let (gateway, workers, ended) = started.context("starting the gateway")?;
        Ok(Self { gateway: Arc::new(gateway), certificates, workers, listener, ended })
    }

    /// Passes new connections to the workers until the listener closes, then waits for the last of them.
    pub(super) async fn serve(self, gate: AcceptGate) {
        let Self { workers, mut listener, ended, .. } = self;
        {
            let mut closed = pin!(gate.closed());
            loop {
                tokio::select! { biased;
                    () = &mut closed => break,
                    (stream, permit, peer) = listener.next() => match stream.into_std() {
                        Ok(stream) => workers.deal(Arrival { stream, peer, permit }),
                        Err(error) => tracing::warn!("a connection could not be passed to a worker: {error}"),
                    },
                }
            }
        }
        // The kernel refuses new clients, or the successor process serves them. The worker threads end when the last
        // sender is dropped.
        drop((listener, workers));
        ended.wait().await;
    }
}

/// The parts of the gateway that follow files.
pub(super) struct GatewayHandles {
    pub(super) gateway: Arc<Gateway>,
    pub(super) certificates: Option<Arc<ServerCertificates>>,
    /// Certificate renewal with ACME; starts when this process owns the port alone.
    pub(super) renewal: Option<Renewal>,
}

/// Starts the gateway, if one is configured.
pub(super) async fn start(
    settings: &Settings,
    shared: &SharedComponents,
    listener: Option<LimitedListener<Tcp>>,
    redirect: Option<LimitedListener<Tcp>>,
    shutdown: &Shutdown,
    accepting: &mut JoinSet<()>,
) -> anyhow::Result<Option<GatewayHandles>> {
    let (all, workers) = (settings, settings.server.calls.workers);
    let (Some(settings), Some(listener)) = (&settings.gateway, listener) else { return Ok(None) };
    if let Some(redirect) = redirect {
        let https_port = listener.local_addr()?.port();
        accepting.spawn(redirect_all(redirect, https_port, shutdown.for_listener()));
    }
    let patience = all.storage.patience(all.mesh.as_ref());
    let decisions = shared.log.decisions();
    let limiting = gateway::limiter(settings, &shared.storage, patience, shared.seed, decisions)?;
    let counting = gateway::Counting::new(Arc::clone(&shared.stats), shared.service.counts());
    let counted = (shared.service.tracer().cloned(), counting);
    let mut server = GatewayServer::start(settings, workers, listener, limiting, counted, shutdown).await?;
    let (gateway, certificates) = (Arc::clone(&server.gateway), server.certificates.take());
    let acme = settings.front.tls.as_ref().and_then(|tls| tls.acme.as_ref());
    let mut renewal = None;
    if let (Some(acme), Some(certificates)) = (acme, &certificates) {
        let health = Arc::clone(&shared.health);
        let report = Box::new(move |problem| health.set_acme_problem(problem));
        renewal = Some(Renewal::new(acme, Arc::clone(certificates), report)?);
    }
    accepting.spawn(server.serve(shutdown.for_listener()));
    Ok(Some(GatewayHandles { gateway, certificates, renewal }))
}
