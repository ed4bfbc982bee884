//! How it ends, step by step, and how each part hears of it.

use tokio::sync::watch;

/// The steps. Each is taken once, and none is taken back.
pub(super) struct Ending {
    /// It is going to end, and the pages say so to whoever asks for them: between two requests nobody hears anything.
    leaving: watch::Sender<bool>,
    /// Another process accepts in the place of this one.
    handed_on: watch::Sender<bool>,
    /// Nobody is accepted, and who is there is shown out.
    stopped: watch::Sender<bool>,
    /// The pages that told of it go as well.
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

    /// For those who are connected.
    pub(super) fn of_guests(&self) -> watch::Receiver<bool> {
        self.stopped.subscribe()
    }

    /// For whoever lets them in.
    pub(super) fn of_door(&self) -> Door {
        Door { handed_on: self.handed_on.subscribe(), shut: self.stopped.subscribe() }
    }

    /// For the pages that are served to the last, and whoever lets people in there.
    pub(super) fn of_pages(&self) -> (Door, Farewell) {
        let door = Door { handed_on: self.handed_on.subscribe(), shut: self.closed.subscribe() };
        (door, Farewell { leaving: self.leaving.subscribe(), closed: self.closed.subscribe() })
    }
}

/// How those who ask for pages are shown out: first with an answer, and then without one.
#[derive(Clone)]
pub(super) struct Farewell {
    leaving: watch::Receiver<bool>,
    pub(super) closed: watch::Receiver<bool>,
}

impl Farewell {
    /// Whether an answer says to come anew.
    pub(super) fn is_told(&self) -> bool {
        *self.leaving.borrow()
    }
}

/// Whether people are let in.
#[derive(Clone)]
pub(super) struct Door {
    handed_on: watch::Receiver<bool>,
    shut: watch::Receiver<bool>,
}

impl Door {
    /// Returns when nobody is let in any more.
    pub(super) async fn shuts(mut self) {
        let is_so = |is_so: &bool| *is_so;
        tokio::select! {
            // A sender that is gone has ended everything, too.
            _ = self.handed_on.wait_for(is_so) => {}
            _ = self.shut.wait_for(is_so) => {}
        }
    }
}

/// Returns when it is so.
pub(super) async fn until(mut told: watch::Receiver<bool>) {
    let _ = told.wait_for(|is_so| *is_so).await;
}
