//! A reload that somebody asks for and waits for.

use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Files are read within this time, or their disk does not answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// What is to be known of what was loaded; or what is wrong.
pub(crate) type Outcome = Result<Vec<String>, String>;

/// To be answered when the files have been loaded.
pub(crate) struct Request(oneshot::Sender<Outcome>);

impl Request {
    pub(super) fn answer(self, outcome: Outcome) {
        let _ = self.0.send(outcome); // Whoever asked may have gone.
    }
}

/// All that can be loaded anew, by what it is called.
#[derive(Clone, Default)]
pub(crate) struct Reloads(Vec<(&'static str, mpsc::Sender<Request>)>);

impl Reloads {
    /// One more that follows its files: where it is told of requests.
    pub(crate) fn add(&mut self, what: &'static str) -> mpsc::Receiver<Request> {
        let (ask, asked) = mpsc::channel(1);
        self.0.push((what, ask));
        asked
    }

    /// Loads everything anew, and says what became of each.
    pub(crate) async fn all(&self) -> Vec<(&'static str, Outcome)> {
        let mut outcomes = Vec::with_capacity(self.0.len());
        for (what, ask) in &self.0 {
            let asked = tokio::time::timeout(ANSWERED_WITHIN, async {
                let (tell, told) = oneshot::channel();
                ask.send(Request(tell)).await.ok()?;
                told.await.ok()
            });
            let silent = || Err("its files were not read in time".to_owned());
            outcomes.push((*what, asked.await.ok().flatten().unwrap_or_else(silent)));
        }
        outcomes
    }
}
