//! Tick reports: size and duration of the last messages that a node sent to its peers periodically. Only the last report
//! of each kind is kept, for sampling.

use hivemind_core::Timestamp;
use std::time::Duration;

/// One round of messages to peers.
///
/// ```
/// use hivemind_mesh_net::TickReport;
///
/// fn describe(report: &TickReport) -> String {
///     format!("round {}: {} bytes to {} peers in {:?}", report.number, report.bytes, report.peers, report.took)
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TickReport {
    /// Its number, counted from 1.
    pub number: u64,
    /// When it started.
    pub began: Timestamp,
    /// How long it took until all messages were queued.
    pub took: Duration,
    /// Number of peers that received a message.
    pub peers: usize,
    /// Size of all messages before encryption.
    pub bytes: usize,
}

/// The last rounds in which any peer received a message.
///
/// ```
/// use hivemind_mesh_net::TickReports;
///
/// let reports = TickReports::default(); // Nothing was sent yet.
/// assert!(reports.sync.is_none() && reports.gossip.is_none());
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct TickReports {
    /// Updates, views and heartbeats, every `sync_interval`.
    pub sync: Option<TickReport>,
    /// The peer table, every second.
    pub gossip: Option<TickReport>,
}

/// The report that follows `last`; `last` itself if no peer received a message.
pub(super) fn next_report(
    last: Option<TickReport>,
    (began, ended): (Timestamp, Timestamp),
    (peers, bytes): (usize, usize),
) -> Option<TickReport> {
    if peers == 0 {
        return last;
    }
    let number = last.map_or(0, |last| last.number) + 1;
    Some(TickReport { number, began, took: ended.since(began), peers, bytes })
}
