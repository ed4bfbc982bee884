//! Worker threads of the rate limit service, and their timeouts.

use super::call::GrpcWorker;
use super::connection::serve;
use crate::rls::RateLimitService;
use hivemind_core::store::Store;
use hivemind_tls as tls;
use hivemind_tls::PortTls;
use hivemind_tls::access::ApiKeys;
use hivemind_tls::connections::ConnectionPermit;
use hivemind_tls::socket::Socket;
use hivemind_tls::workers::{WorkerExit, Workers};
use std::io;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tonic::service::Routes;

/// Timeouts of connections and calls.
#[derive(Clone, Copy, Debug)]
pub struct GrpcTimeouts {
    pub handshake: Duration,
    /// From the opening of a connection to its first call.
    pub first_call: Duration,
    pub call: Duration,
    pub idle: Duration,
    pub age: Duration,
    /// The interval of keepalive pings, and the timeout of their responses.
    pub ping: Duration,
    pub pong: Duration,
}

/// What callers must present.
#[derive(Clone, Default)]
pub struct CallerAuth {
    /// On TCP; `None` means plaintext.
    pub tls: Option<Arc<PortTls>>,
    /// `None` accepts calls without a key.
    pub keys: Option<Arc<ApiKeys>>,
}

/// An accepted connection on its way to its worker thread.
pub struct GrpcConnection {
    pub socket: Socket,
    pub permit: ConnectionPermit,
}

/// Starts the worker threads.
pub async fn start_workers<S: Store + 'static>(
    count: NonZeroUsize,
    service: &RateLimitService<S>,
    routes: &Routes,
    auth: &CallerAuth,
    timeouts: GrpcTimeouts,
    stopped: &watch::Receiver<bool>,
) -> io::Result<(Workers<GrpcConnection>, WorkerExit)> {
    let (service, routes, auth, stopped) = (service.clone(), routes.clone(), auth.clone(), stopped.clone());
    let new_worker = move |_| {
        let worker = GrpcWorker::new(service.clone(), routes.clone(), auth.keys.clone(), timeouts.call);
        let (worker, tls, stopped) = (Rc::new(worker), auth.tls.clone(), stopped.clone());
        move |connection| {
            serve_connection(connection, tls.clone(), Rc::clone(&worker), timeouts, stopped.clone())
        }
    };
    Workers::start(count, "calls", new_worker).await
}

async fn serve_connection<S: Store + 'static>(
    GrpcConnection { socket, permit }: GrpcConnection,
    tls: Option<Arc<PortTls>>,
    worker: Rc<GrpcWorker<S>>,
    timeouts: GrpcTimeouts,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    match (socket, tls) {
        (Socket::Tcp(stream), None) => {
            serve(TcpStream::from_std(stream)?, permit, worker, timeouts, stopped).await;
        }
        (Socket::Tcp(stream), Some(tls)) => {
            // Boxed, so that plaintext connections do not reserve memory for it.
            Box::pin(serve_tls((TcpStream::from_std(stream)?, permit), tls, worker, timeouts, stopped)).await;
        }
        (Socket::Unix(stream), _) => {
            serve(UnixStream::from_std(stream)?, permit, worker, timeouts, stopped).await;
        }
    }
    Ok(())
}

/// Serves a connection over TLS. The handshake runs in the task of its connection, and delays no other.
async fn serve_tls<S: Store + 'static>(
    (stream, permit): (TcpStream, ConnectionPermit),
    tls: Arc<PortTls>,
    worker: Rc<GrpcWorker<S>>,
    timeouts: GrpcTimeouts,
    mut stopped: watch::Receiver<bool>,
) {
    let acceptor = tls.acceptor();
    let accepted = tokio::select! { biased;
        _ = stopped.wait_for(|stopped| *stopped) => return,
        () = permit.evicted() => return,
        accepted = tls::accept(stream, &acceptor, timeouts.handshake) => accepted,
    };
    // A failed handshake is logged there.
    if let Ok((stream, _)) = accepted {
        serve(stream, permit, worker, timeouts, stopped).await;
    }
}
