//! Shutdown phases, and how each component observes them.

use tokio::sync::watch;

/// The phases of a shutdown. Each is entered once and never left.
pub(super) struct Shutdown {
    /// The process will stop, and HTTP responses ask clients to reconnect: a client between two requests cannot be
    /// notified.
    leaving: watch::Sender<bool>,
    /// Another process accepts in place of this one.
    handed_over: watch::Sender<bool>,
    /// No new connections are accepted, and open ones drain.
    stopped: watch::Sender<bool>,
    /// The admin and metrics ports, which report the shutdown, close last.
    closed: watch::Sender<bool>,
}

impl Default for Shutdown {
    fn default() -> Self {
        let [leaving, handed_over, stopped, closed] = [(); 4].map(|()| watch::Sender::new(false));
        Self { leaving, handed_over, stopped, closed }
    }
}

impl Shutdown {
    pub(super) fn leave(&self) {
        self.leaving.send_replace(true);
    }

    pub(super) fn mark_handed_over(&self) {
        self.handed_over.send_replace(true);
    }

    pub(super) fn stop(&self) {
        self.stopped.send_replace(true);
    }

    pub(super) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// For open connections of the rate limit service and the gateway.
    pub(super) fn for_connections(&self) -> watch::Receiver<bool> {
        self.stopped.subscribe()
    }

    /// For listeners.
    pub(super) fn for_listener(&self) -> AcceptGate {
        AcceptGate { handed_over: self.handed_over.subscribe(), stopped: self.stopped.subscribe() }
    }

    /// For the admin and metrics ports, which stay open until the end, and for their listeners.
    pub(super) fn for_http_server(&self) -> (AcceptGate, DrainSignals) {
        let gate = AcceptGate { handed_over: self.handed_over.subscribe(), stopped: self.closed.subscribe() };
        (gate, DrainSignals { leaving: self.leaving.subscribe(), closed: self.closed.subscribe() })
    }
}

/// How connections of the admin and metrics ports drain: first with a response, then without.
#[derive(Clone)]
pub(super) struct DrainSignals {
    leaving: watch::Receiver<bool>,
    pub(super) closed: watch::Receiver<bool>,
}

impl DrainSignals {
    /// Whether responses ask the client to reconnect.
    pub(super) fn is_leaving(&self) -> bool {
        *self.leaving.borrow()
    }
}

/// Whether a listener accepts.
#[derive(Clone)]
pub(super) struct AcceptGate {
    handed_over: watch::Receiver<bool>,
    stopped: watch::Receiver<bool>,
}

impl AcceptGate {
    /// Returns when the listener must stop accepting.
    pub(super) async fn closed(mut self) {
        let is_set = |is_set: &bool| *is_set;
        tokio::select! {
            // A dropped sender means that everything has stopped.
            _ = self.handed_over.wait_for(is_set) => {}
            _ = self.stopped.wait_for(is_set) => {}
        }
    }
}

/// Returns when the flag is set.
pub(super) async fn wait_until_set(mut flag: watch::Receiver<bool>) {
    let _ = flag.wait_for(|is_set| *is_set).await;
}
