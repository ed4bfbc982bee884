//! What the threads that answer calls are equipped with, and how long they wait for what.

use super::call::Desk;
use super::connection::serve;
use crate::front::rls::RateLimitService;
use crate::front::socket::Socket;
use crate::front::workers::{Ended, Workers};
use hivemind_core::store::Store;
use std::io;
use std::num::NonZeroUsize;
use std::rc::Rc;
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

/// Starts the threads that answer calls.
pub(crate) async fn start_workers<S: Store + 'static>(
    count: NonZeroUsize,
    service: &RateLimitService<S>,
    routes: &Routes,
    patience: Patience,
    stopped: &watch::Receiver<bool>,
) -> io::Result<(Workers<Socket>, Ended)> {
    let (service, routes, stopped) = (service.clone(), routes.clone(), stopped.clone());
    let equip = move |_| {
        let desk = Rc::new(Desk::new(service.clone(), routes.clone(), patience.call));
        let stopped = stopped.clone();
        move |socket| attend(socket, Rc::clone(&desk), patience, stopped.clone())
    };
    Workers::start(count, "calls", equip).await
}

async fn attend<S: Store + 'static>(
    socket: Socket,
    desk: Rc<Desk<S>>,
    patience: Patience,
    stopped: watch::Receiver<bool>,
) -> io::Result<()> {
    match socket {
        Socket::Tcp(stream) => serve(TcpStream::from_std(stream)?, desk, patience, stopped).await,
        Socket::Unix(stream) => serve(UnixStream::from_std(stream)?, desk, patience, stopped).await,
    }
    Ok(())
}
