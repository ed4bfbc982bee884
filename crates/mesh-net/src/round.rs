//! The rounds of a node: what it tells its peers by itself, again and again. The last one of each kind is kept, for
//! those who look now and then.

use hivemind_core::Timestamp;
use std::time::Duration;

/// One round.
///
/// ```
/// use hivemind_mesh_net::Round;
///
/// fn told(round: &Round) -> String {
///     format!("round {}: {} bytes to {} peers in {:?}", round.number, round.bytes, round.peers, round.took)
/// }
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Round {
    /// Which one it is, from 1 on.
    pub number: u64,
    /// When it began.
    pub began: Timestamp,
    /// Until what it tells was handed to the connections.
    pub took: Duration,
    /// Who was told.
    pub peers: usize,
    /// In how many bytes, before they are encrypted.
    pub bytes: usize,
}

/// The last rounds in which anybody was told anything.
///
/// ```
/// use hivemind_mesh_net::Rounds;
///
/// let rounds = Rounds::default(); // Nobody was told anything yet.
/// assert!(rounds.sync.is_none() && rounds.gossip.is_none());
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Rounds {
    /// Of changes, views and signs of life, each `sync_interval`.
    pub sync: Option<Round>,
    /// Of who there is, each second.
    pub gossip: Option<Round>,
}

/// The next round after another; none where nobody was told anything.
pub(super) fn next(
    last: Option<Round>,
    (began, ended): (Timestamp, Timestamp),
    (peers, bytes): (usize, usize),
) -> Option<Round> {
    if peers == 0 {
        return last;
    }
    let number = last.map_or(0, |last| last.number) + 1;
    Some(Round { number, began, took: ended.since(began), peers, bytes })
}
