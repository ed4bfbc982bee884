//! The threads that serve connections, one for each core. A connection stays with the
//! thread that it was dealt to, so that nothing it asks ever crosses from core to core; it
//! is dealt to the thread with the fewest, because proxies open few and keep them.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinSet;

/// A connection, the place that it takes among all, and its share in its thread's load.
struct Dealt<C> {
    connection: C,
    place: OwnedSemaphorePermit,
    load: Arc<()>,
}

struct Worker<C> {
    /// Not bounded by itself: there are as many connections as there are places.
    inbox: mpsc::UnboundedSender<Dealt<C>>,
    load: Arc<()>,
}

/// The threads that serve connections. They end when this is dropped and their connections have ended.
pub struct Workers<C>(Vec<Worker<C>>);

/// Told when all threads have ended.
pub struct Ended(mpsc::Receiver<()>);

impl Ended {
    pub async fn wait(mut self) {
        while self.0.recv().await.is_some() {}
    }
}

impl<C: Send + 'static> Workers<C> {
    /// Starts threads of this name. In each of them, `equip` makes what serves a connection there: it may
    /// hold what belongs to one thread, and start tasks beside.
    pub async fn start<E, A, F>(count: NonZeroUsize, name: &str, equip: E) -> io::Result<(Self, Ended)>
    where
        E: Fn(usize) -> A + Clone + Send + 'static,
        A: Fn(C) -> F + 'static,
        F: Future<Output = io::Result<()>> + 'static,
    {
        let (running, ended) = mpsc::channel(1);
        let mut workers = Vec::with_capacity(count.get());
        for number in 0..count.get() {
            let (inbox, dealt) = mpsc::unbounded_channel();
            let (started, starting) = oneshot::channel();
            let (equip, running) = (equip.clone(), running.clone());
            thread::Builder::new().name(format!("{name}-{number}")).spawn(move || {
                let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
                let runtime: Option<LocalRuntime> = match runtime {
                    Ok(runtime) => started.send(Ok(())).is_ok().then_some(runtime),
                    Err(error) => started.send(Err(error)).map_or(None, |()| None),
                };
                if let Some(runtime) = runtime {
                    runtime.block_on(async { work(dealt, equip(number)).await });
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
    pub fn deal(&self, connection: C, place: OwnedSemaphorePermit) {
        let alive = self.0.iter().filter(|worker| !worker.inbox.is_closed());
        let Some(idlest) = alive.min_by_key(|worker| Arc::strong_count(&worker.load)) else {
            tracing::error!("no thread is there to serve connections; restart the service");
            return;
        };
        let dealt = Dealt { connection, place, load: Arc::clone(&idlest.load) };
        // A thread that ends between the look and this closes the connection.
        let _ = idlest.inbox.send(dealt);
    }
}

/// Serves all connections that are dealt to this thread.
async fn work<C, A, F>(mut dealt: mpsc::UnboundedReceiver<Dealt<C>>, attend: A)
where
    A: Fn(C) -> F,
    F: Future<Output = io::Result<()>> + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            next = dealt.recv() => {
                let Some(Dealt { connection, place, load }) = next else { break };
                let attended = attend(connection);
                connections.spawn_local(async move {
                    let served = attended.await;
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

fn note(ended: Result<io::Result<()>, tokio::task::JoinError>) {
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!("a connection could not be served: {error}"),
        Err(error) => tracing::error!("a connection ended in a panic: {error}"),
    }
}
