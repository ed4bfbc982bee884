//! Name resolution of upstreams. A lookup blocks a thread until the name servers answer, so their number is limited,
//! and concurrent requests for a name share one lookup. Results are not cached, so that moved upstreams are found.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Semaphore, watch};

/// Maximum number of blocked threads, regardless of the number of upstreams.
const MAX_CONCURRENT: usize = 16;

type Name = (String, u16);
/// An error as kind and text, because several callers receive it.
type Found = Result<Vec<SocketAddr>, (io::ErrorKind, String)>;
type Answer = watch::Receiver<Option<Found>>;
type LookUp = dyn Fn(&Name) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// The lookups in progress.
pub(super) struct NameLookup {
    places: Arc<Semaphore>,
    under_way: Arc<Mutex<HashMap<Name, Answer>>>,
    look_up: Arc<LookUp>,
}

impl Default for NameLookup {
    fn default() -> Self {
        Self::with(|(host, port)| Ok((host.as_str(), *port).to_socket_addrs()?.collect()))
    }
}

impl NameLookup {
    fn with(look_up: impl Fn(&Name) -> io::Result<Vec<SocketAddr>> + Send + Sync + 'static) -> Self {
        let places = Arc::new(Semaphore::new(MAX_CONCURRENT));
        Self { places, under_way: Arc::default(), look_up: Arc::new(look_up) }
    }

    /// The current addresses of a name.
    pub(super) async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let name = (host.to_owned(), port);
        loop {
            let (mut answer, first) = self.join(&name);
            if let Some(sender) = first {
                self.begin(name.clone(), sender).await?;
            }
            // The first caller may have been cancelled before it got a permit: then start again.
            if let Ok(found) = answer.wait_for(Option::is_some).await {
                let found = found.clone().unwrap_or_else(|| Ok(Vec::new()));
                return found.map_err(|(kind, text)| io::Error::new(kind, text));
            }
        }
    }

    /// The lookup of this name; the first caller also gets the sender of its result.
    fn join(&self, name: &Name) -> (Answer, Option<watch::Sender<Option<Found>>>) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = under_way.get(name).filter(|answer| answer.has_changed().is_ok()) {
            return (answer.clone(), None);
        }
        let (sender, answer) = watch::channel(None);
        under_way.insert(name.clone(), answer.clone());
        (answer, Some(sender))
    }

    /// Starts a lookup when a permit is free. It runs to its end even if all callers are cancelled: the blocked
    /// thread cannot be interrupted, and keeps its permit.
    async fn begin(&self, name: Name, sender: watch::Sender<Option<Found>>) -> io::Result<()> {
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(io::Error::other)?;
        let (look_up, under_way) = (Arc::clone(&self.look_up), Arc::clone(&self.under_way));
        tokio::task::spawn_blocking(move || {
            let found = look_up(&name).map_err(|error| (error.kind(), error.to_string()));
            under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
            sender.send_replace(Some(found));
            drop(place);
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Condvar;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::time::timeout;

    const DEADLINE: Duration = Duration::from_secs(30);

    /// A name server that answers on command.
    #[derive(Default)]
    struct Slow {
        asked: AtomicUsize,
        at_once: AtomicUsize,
        most: AtomicUsize,
        may_answer: Mutex<bool>,
        wakes: Condvar,
    }

    impl Slow {
        fn names(self: &Arc<Self>) -> NameLookup {
            let slow = Arc::clone(self);
            NameLookup::with(move |(host, port)| {
                slow.asked.fetch_add(1, Ordering::SeqCst);
                let now = slow.at_once.fetch_add(1, Ordering::SeqCst) + 1;
                slow.most.fetch_max(now, Ordering::SeqCst);
                let may_answer = slow.may_answer.lock().unwrap();
                drop(slow.wakes.wait_while(may_answer, |may_answer| !*may_answer).unwrap());
                slow.at_once.fetch_sub(1, Ordering::SeqCst);
                if host == "unknown" {
                    return Err(io::Error::new(io::ErrorKind::NotFound, "no such name"));
                }
                Ok(vec![SocketAddr::new([192, 0, 2, 1].into(), *port)])
            })
        }

        fn answer(&self) {
            *self.may_answer.lock().unwrap() = true;
            self.wakes.notify_all();
        }

        async fn is_asked(&self, times: usize) {
            while self.asked.load(Ordering::SeqCst) < times {
                tokio::task::yield_now().await;
            }
        }
    }

    // Fails when each caller starts a lookup, or without a limit.
    #[tokio::test]
    async fn concurrent_lookups_are_shared_and_limited() {
        let slow = Arc::<Slow>::default();
        let names = Arc::new(slow.names());
        let ask = |host: String| {
            let names = Arc::clone(&names);
            tokio::spawn(async move { names.addresses(&host, 80).await })
        };
        // The first caller is cancelled, and the others still get the answer.
        let first = ask("app".into());
        timeout(DEADLINE, slow.is_asked(1)).await.unwrap();
        let same: Vec<_> = (0..100).map(|_| ask("app".into())).collect();
        first.abort();
        let others: Vec<_> = (0..3 * MAX_CONCURRENT).map(|number| ask(format!("app-{number}"))).collect();
        let unknown = ask("unknown".into());
        timeout(DEADLINE, slow.is_asked(MAX_CONCURRENT)).await.unwrap();
        slow.answer();
        for asked in same.into_iter().chain(others) {
            let found = timeout(DEADLINE, asked).await.unwrap().unwrap().unwrap();
            assert_eq!(found, ["192.0.2.1:80".parse().unwrap()]);
        }
        let error = timeout(DEADLINE, unknown).await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(slow.asked.load(Ordering::SeqCst), 1 + 3 * MAX_CONCURRENT + 1);
        assert_eq!(slow.most.load(Ordering::SeqCst), MAX_CONCURRENT);
        // Results are not cached.
        assert!(names.under_way.lock().unwrap().is_empty());
        names.addresses("app", 80).await.unwrap();
        assert_eq!(slow.asked.load(Ordering::SeqCst), 3 + 3 * MAX_CONCURRENT);
    }
}
