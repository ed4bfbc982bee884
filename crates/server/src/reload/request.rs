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

    /// Loads everything anew, all at once, and says what became of each: a disk that does not answer is waited for once.
    pub(crate) async fn all(&self) -> Vec<(&'static str, Outcome)> {
        let loading = self.0.iter().cloned().map(|(what, ask)| (what, tokio::spawn(loaded(ask))));
        let loading: Vec<_> = loading.collect();
        let mut outcomes = Vec::with_capacity(loading.len());
        for (what, outcome) in loading {
            outcomes.push((what, outcome.await.ok().flatten().unwrap_or_else(silent)));
        }
        outcomes
    }
}

/// What became of one; none if it does not say so in time.
async fn loaded(ask: mpsc::Sender<Request>) -> Option<Outcome> {
    let asked = async {
        let (tell, told) = oneshot::channel();
        ask.send(Request(tell)).await.ok()?;
        told.await.ok()
    };
    tokio::time::timeout(ANSWERED_WITHIN, asked).await.ok().flatten()
}

fn silent() -> Outcome {
    Err("its files were not read in time".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Seen failing on: one after the other, which took ten seconds for each.
    #[tokio::test(start_paused = true)]
    async fn files_that_are_not_read_are_waited_for_all_at_once() {
        let mut reloads = Reloads::default();
        let hanging = [reloads.add("certificates"), reloads.add("keys")];
        let mut answering = reloads.add("rules");
        tokio::spawn(async move { answering.recv().await.unwrap().answer(Ok(Vec::new())) });
        let all = tokio::time::timeout(ANSWERED_WITHIN + Duration::from_secs(1), reloads.all()).await;
        let outcomes = all.expect("ten seconds for all of them");
        let told: Vec<_> = outcomes.iter().map(|(what, outcome)| (*what, outcome.is_ok())).collect();
        assert_eq!(told, [("certificates", false), ("keys", false), ("rules", true)]);
        drop(hanging);
    }
}
