//! What the threads that answer calls are equipped with, and how long they wait for what.

use super::call::Desk;
use super::connection::serve;
use crate::front::rls::RateLimitService;
use hivemind_core::store::Store;
use hivemind_tls as tls;
use hivemind_tls::PortTls;
use hivemind_tls::access::ApiKeys;
use hivemind_tls::socket::Socket;
use hivemind_tls::workers::{Ended, Workers};
use std::io;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::watch;
use tonic::service::Routes;

/// How long connections and calls are waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) handshake: Duration,
    pub(crate) call: Duration,
    pub(crate) idle: Duration,
    pub(crate) age: Duration,
    /// Until a silent peer is asked whether it is there, and how long it may take to say so.
    pub(crate) ping: Duration,
    pub(crate) pong: Duration,
}

/// What callers have to pass.
#[derive(Clone, Default)]
pub(crate) struct Door {
    /// On TCP; none: plaintext.
    pub(crate) tls: Option<Arc<PortTls>>,
    /// None: everybody's calls are answered.
    pub(crate) keys: Option<Arc<ApiKeys>>,
}

/// Starts the threads that answer calls.
pub(crate) async fn start_workers<S: Store + 'static>(
    count: NonZeroUsize,
    service: &RateLimitService<S>,
    routes: &Routes,
    door: &Door,
    patience: Patience,
    stopped: &watch::Receiver<bool>,
) -> io::Result<(Workers<Socket>, Ended)> {
    let (service, routes, door, stopped) = (service.clone(), routes.clone(), door.clone(), stopped.clone());
    let equip = move |_| {
        let desk = Desk::new(service.clone(), routes.clone(), door.keys.clone(), patience.call);
        let (desk, tls, stopped) = (Rc::new(desk), door.tls.clone(), stopped.clone());
        move |socket| attend(socket, tls.clone(), Rc::clone(&desk), patience, stopped.clone())
    };
    Workers::start(count, "calls", equip).await
}

async fn attend<S: Store + 'static>(
    socket: Socket,
    tls: Option<Arc<PortTls>>,
    desk: Rc<Desk<S>>,
    patience: Patience,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    match (socket, tls) {
        (Socket::Tcp(stream), None) => serve(TcpStream::from_std(stream)?, desk, patience, stopped).await,
        (Socket::Tcp(stream), Some(tls)) => {
            // In a box: what is plaintext needs no room for it.
            Box::pin(shake_hands(TcpStream::from_std(stream)?, tls, desk, patience, stopped)).await;
        }
        (Socket::Unix(stream), _) => serve(UnixStream::from_std(stream)?, desk, patience, stopped).await,
    }
    Ok(())
}

/// Serves a connection over TLS. Its handshake is its own affair: nobody else waits for it.
async fn shake_hands<S: Store + 'static>(
    stream: TcpStream,
    tls: Arc<PortTls>,
    desk: Rc<Desk<S>>,
    patience: Patience,
    mut stopped: watch::Receiver<bool>,
) {
    let acceptor = tls.acceptor();
    let shaken = tokio::select! { biased;
        _ = stopped.wait_for(|stopped| *stopped) => return,
        shaken = tls::accept(stream, &acceptor, patience.handshake) => shaken,
    };
    // Where it fails, it is told of.
    if let Ok((stream, _)) = shaken {
        serve(stream, desk, patience, stopped).await;
    }
}
