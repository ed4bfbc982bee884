//! The threads that answer calls, one for each core. A connection stays with the
//! thread that it was dealt to, so that no call ever crosses from core to core; it
//! is dealt to the thread with the fewest, because Envoy opens few and keeps them.

use super::call::Desk;
use super::connection::serve;
use super::socket::Socket;
use crate::front::rls::RateLimitService;
use hivemind_core::store::Store;
use std::io;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};
use tokio::task::JoinSet;
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

/// A connection, the place that it takes among all, and its share in its thread's load.
struct Dealt {
    socket: Socket,
    place: OwnedSemaphorePermit,
    load: Arc<()>,
}

struct Worker {
    /// Not bounded by itself: there are as many connections as there are places.
    inbox: mpsc::UnboundedSender<Dealt>,
    load: Arc<()>,
}

/// The threads that answer calls. They end when this is dropped and their connections have ended.
pub(crate) struct Workers(Vec<Worker>);

/// Told when all threads have ended.
pub(crate) struct Ended(mpsc::Receiver<()>);

impl Ended {
    pub(crate) async fn wait(mut self) {
        while self.0.recv().await.is_some() {}
    }
}

impl Workers {
    pub(crate) async fn start<S: Store + 'static>(
        count: NonZeroUsize,
        service: &RateLimitService<S>,
        routes: &Routes,
        patience: Patience,
        stopped: &watch::Receiver<bool>,
    ) -> io::Result<(Self, Ended)> {
        let (running, ended) = mpsc::channel(1);
        let mut workers = Vec::with_capacity(count.get());
        for number in 0..count.get() {
            let (inbox, dealt) = mpsc::unbounded_channel();
            let (started, starting) = oneshot::channel();
            let (service, routes) = (service.clone(), routes.clone());
            let (stopped, running) = (stopped.clone(), running.clone());
            thread::Builder::new().name(format!("calls-{number}")).spawn(move || {
                let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
                let runtime: Option<LocalRuntime> = match runtime {
                    Ok(runtime) => started.send(Ok(())).is_ok().then_some(runtime),
                    Err(error) => started.send(Err(error)).map_or(None, |()| None),
                };
                if let Some(runtime) = runtime {
                    let desk = Rc::new(Desk::new(service, routes, patience.call));
                    runtime.block_on(work(dealt, &desk, patience, stopped));
                }
                drop(running);
            })?;
            // Only a thread that panicked says nothing.
            starting.await.unwrap_or_else(|_| Err(io::Error::other("a thread ended as it started")))?;
            workers.push(Worker { inbox, load: Arc::default() });
        }
        Ok((Self(workers), Ended(ended)))
    }

    /// Hands a connection to the thread with the fewest.
    pub(crate) fn deal(&self, socket: Socket, place: OwnedSemaphorePermit) {
        let alive = self.0.iter().filter(|worker| !worker.inbox.is_closed());
        let Some(idlest) = alive.min_by_key(|worker| Arc::strong_count(&worker.load)) else {
            tracing::error!("no thread is there to answer calls; restart the service");
            return;
        };
        let dealt = Dealt { socket, place, load: Arc::clone(&idlest.load) };
        // A thread that ends between the look and this closes the connection.
        let _ = idlest.inbox.send(dealt);
    }
}

/// Serves all connections that are dealt to this thread.
async fn work<S: Store + 'static>(
    mut dealt: mpsc::UnboundedReceiver<Dealt>,
    desk: &Rc<Desk<S>>,
    patience: Patience,
    stopped: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            next = dealt.recv() => {
                let Some(Dealt { socket, place, load }) = next else { break };
                let (desk, stopped) = (Rc::clone(desk), stopped.clone());
                connections.spawn_local(async move {
                    let served = attend(socket, desk, patience, stopped).await;
                    drop((place, load));
                    served
                });
            }
            // Those that have ended are let go of as it happens.
            Some(ended) = connections.join_next() => note(ended),
        }
    }
    while let Some(ended) = connections.join_next().await {
        note(ended);
    }
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

fn note(ended: Result<io::Result<()>, tokio::task::JoinError>) {
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!("a connection could not be served: {error}"),
        Err(error) => tracing::error!("a connection ended in a panic: {error}"),
    }
}
