//! Reload requests from SIGHUP or the admin API, with their results.

use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Time limit; a slower disk counts as unresponsive.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

/// Notes about the loaded files, or their problems.
pub(crate) type ReloadOutcome = Result<Vec<String>, String>;

/// A request, answered when the files have been loaded.
pub struct ReloadRequest(oneshot::Sender<ReloadOutcome>);

impl ReloadRequest {
    pub fn answer(self, outcome: ReloadOutcome) {
        let _ = self.0.send(outcome); // The requester may have disconnected.
    }
}

/// All reloadable components, by name.
#[derive(Clone, Default)]
pub struct Reloads(Vec<(&'static str, mpsc::Sender<ReloadRequest>)>);

impl Reloads {
    /// Registers a component; returns the receiver of its requests.
    pub fn add(&mut self, what: &'static str) -> mpsc::Receiver<ReloadRequest> {
        let (ask, asked) = mpsc::channel(1);
        self.0.push((what, ask));
        asked
    }

    /// Reloads all components concurrently and returns their results. Waits only once for an unresponsive disk.
    pub async fn all(&self) -> Vec<(&'static str, ReloadOutcome)> {
        let loading = self.0.iter().cloned().map(|(what, ask)| (what, tokio::spawn(loaded(ask))));
        let loading: Vec<_> = loading.collect();
        let mut outcomes = Vec::with_capacity(loading.len());
        for (what, outcome) in loading {
            outcomes.push((what, outcome.await.ok().flatten().unwrap_or_else(silent)));
        }
        outcomes
    }
}

/// Reloads one component; none after the time limit.
async fn loaded(ask: mpsc::Sender<ReloadRequest>) -> Option<ReloadOutcome> {
    let asked = async {
        let (sender, outcome) = oneshot::channel();
        ask.send(ReloadRequest(sender)).await.ok()?;
        outcome.await.ok()
    };
    tokio::time::timeout(ANSWERED_WITHIN, asked).await.ok().flatten()
}

fn silent() -> ReloadOutcome {
    Err("its files could not be read in time".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Seen failing on: sequential reloads, which took ten seconds each.
    #[tokio::test(start_paused = true)]
    async fn reload_waits_for_unresponsive_disks_concurrently() {
        let mut reloads = Reloads::default();
        let hanging = [reloads.add("certificates"), reloads.add("keys")];
        let mut answering = reloads.add("rules");
        tokio::spawn(async move { answering.recv().await.unwrap().answer(Ok(Vec::new())) });
        let all = tokio::time::timeout(ANSWERED_WITHIN + Duration::from_secs(1), reloads.all()).await;
        let outcomes = all.expect("ten seconds for all of them");
        let results: Vec<_> = outcomes.iter().map(|(what, outcome)| (*what, outcome.is_ok())).collect();
        assert_eq!(results, [("certificates", false), ("keys", false), ("rules", true)]);
        drop(hanging);
    }
}
