//! Shutdown phases, and how each component observes them.

use tokio::sync::watch;

/// The phases of a shutdown. Each is entered once and never left.
pub(super) struct Ending {
    /// The process will stop, and HTTP responses ask clients to reconnect: a client between two requests cannot be
    /// notified.
    leaving: watch::Sender<bool>,
    /// Another process accepts in place of this one.
    handed_on: watch::Sender<bool>,
    /// No new connections are accepted, and open ones drain.
    stopped: watch::Sender<bool>,
    /// The admin and metrics ports, which report the shutdown, close last.
    closed: watch::Sender<bool>,
}

impl Default for Ending {
    fn default() -> Self {
        let [leaving, handed_on, stopped, closed] = [(); 4].map(|()| watch::Sender::new(false));
        Self { leaving, handed_on, stopped, closed }
    }
}

impl Ending {
    pub(super) fn leave(&self) {
        self.leaving.send_replace(true);
    }

    pub(super) fn hand_on(&self) {
        self.handed_on.send_replace(true);
    }

    pub(super) fn stop(&self) {
        self.stopped.send_replace(true);
    }

    pub(super) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// For open connections of the rate limit service and the gateway.
    pub(super) fn of_guests(&self) -> watch::Receiver<bool> {
        self.stopped.subscribe()
    }

    /// For listeners.
    pub(super) fn of_door(&self) -> Door {
        Door { handed_on: self.handed_on.subscribe(), shut: self.stopped.subscribe() }
    }

    /// For the admin and metrics ports, which stay open until the end, and for their listeners.
    pub(super) fn of_pages(&self) -> (Door, Farewell) {
        let door = Door { handed_on: self.handed_on.subscribe(), shut: self.closed.subscribe() };
        (door, Farewell { leaving: self.leaving.subscribe(), closed: self.closed.subscribe() })
    }
}

/// How connections of the admin and metrics ports drain: first with a response, then without.
#[derive(Clone)]
pub(super) struct Farewell {
    leaving: watch::Receiver<bool>,
    pub(super) closed: watch::Receiver<bool>,
}

impl Farewell {
    /// Whether responses ask the client to reconnect.
    pub(super) fn is_told(&self) -> bool {
        *self.leaving.borrow()
    }
}

/// Whether a listener accepts.
#[derive(Clone)]
pub(super) struct Door {
    handed_on: watch::Receiver<bool>,
    shut: watch::Receiver<bool>,
}

impl Door {
    /// Returns when the listener must stop accepting.
    pub(super) async fn shuts(mut self) {
        let is_so = |is_so: &bool| *is_so;
        tokio::select! {
            // A dropped sender means that everything has stopped.
            _ = self.handed_on.wait_for(is_so) => {}
            _ = self.shut.wait_for(is_so) => {}
        }
    }
}

/// Returns when the flag is set.
pub(super) async fn until(mut flag: watch::Receiver<bool>) {
    let _ = flag.wait_for(|is_so| *is_so).await;
}
