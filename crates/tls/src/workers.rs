//! Worker threads, one per core. A connection stays on one thread, so its data never crosses cores. New connections
//! go to the thread with the fewest, because proxies open few connections and keep them.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// A connection with its share in the load of its thread.
struct QueuedConnection<C> {
    connection: C,
    load: Arc<()>,
}

struct Worker<C> {
    /// Unbounded, because the number of permits limits the connections.
    inbox: mpsc::UnboundedSender<QueuedConnection<C>>,
    load: Arc<()>,
}

/// The worker threads. They end when this is dropped and their connections have ended.
pub struct Workers<C>(Vec<Worker<C>>);

/// Signals that all threads have ended.
pub struct WorkerExit(mpsc::Receiver<()>);

impl WorkerExit {
    pub async fn wait(mut self) {
        while self.0.recv().await.is_some() {}
    }
}

impl<C: Send + 'static> Workers<C> {
    /// Starts threads with this name. In each of them, `equip` creates the connection handler: it may hold data of
    /// that thread, and start tasks.
    pub async fn start<E, A, F>(count: NonZeroUsize, name: &str, equip: E) -> io::Result<(Self, WorkerExit)>
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
            // Only a thread that panicked sends nothing.
            starting.await.unwrap_or_else(|_| Err(io::Error::other("a thread ended during startup")))?;
            workers.push(Worker { inbox, load: Arc::default() });
        }
        Ok((Self(workers), WorkerExit(ended)))
    }

    /// Passes a connection to the thread with the fewest.
    pub fn deal(&self, connection: C) {
        let alive = self.0.iter().filter(|worker| !worker.inbox.is_closed());
        let Some(idlest) = alive.min_by_key(|worker| Arc::strong_count(&worker.load)) else {
            tracing::error!("no thread is left to serve connections; restart the service");
            return;
        };
        let dealt = QueuedConnection { connection, load: Arc::clone(&idlest.load) };
        // If the thread ends between the check and this, the connection closes.
        let _ = idlest.inbox.send(dealt);
    }
}

/// Serves all connections of this thread.
async fn work<C, A, F>(mut dealt: mpsc::UnboundedReceiver<QueuedConnection<C>>, attend: A)
where
    A: Fn(C) -> F,
    F: Future<Output = io::Result<()>> + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            next = dealt.recv() => {
                let Some(QueuedConnection { connection, load }) = next else { break };
                let attended = attend(connection);
                connections.spawn_local(async move {
                    let served = attended.await;
                    drop(load);
                    served
                });
            }
            // Finished connections are removed immediately.
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
        Ok(Err(error)) => tracing::warn!("cannot serve a connection: {error}"),
        Err(error) => tracing::error!("a connection handler panicked: {error}"),
    }
}
