//! Model checker: visits every order of requests, ticks, view changes, crashes, restarts and deliveries of three nodes, with
//! the real node and codec. A sent frame stays on the network and may arrive never, once or several times, at any later
//! moment, which covers loss, delay, duplication and reordering. Each node has its own clock, which advances in steps, so
//! clocks differ by up to two windows. The numbers of requests and frames are bounded, and at most one node crashes.
//!
//! The effect of an event on a node depends only on the node's state and the event. It is computed once and cached, which
//! makes millions of system states affordable.

mod start;
mod step;

use hashbrown::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use step::Search;

/// Valid paths are much shorter. Totals that grow with every repetition would make an endless one.
const MAX_PATH: usize = 100;

/// Maximum number of stored node states, of some kilobytes each.
const MAX_NODES: usize = 300_000;

/// One moment before the second view is effective and one in the second window; optionally one more in between.
const TWO: [i64; 2] = [-300, 50];
const THREE: [i64; 3] = [-300, -100, 50];

/// Change of the membership.
///
/// ```
/// use hivemind_mesh_sim::{MembershipChange, ModelCheck};
///
/// for change in MembershipChange::ALL {
///     assert!(ModelCheck::quick().iter().any(|model| model.change == change));
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipChange {
    /// No change.
    None,
    /// The third node joins and becomes the owner.
    Join,
    /// The owner leaves.
    Leave,
}

impl MembershipChange {
    /// All changes.
    pub const ALL: [Self; 3] = [Self::None, Self::Join, Self::Leave];
}

/// Bounds of a search.
///
/// ```
/// use hivemind_mesh_sim::ModelCheck;
///
/// let searched = ModelCheck { max_states: 100, ..ModelCheck::quick()[0] }.search();
/// assert_eq!(searched.broken, None); // No state admits more than the limit.
/// assert!(ModelCheck::deep().iter().all(|model| model.requests == 4)); // For the long tests.
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ModelCheck {
    /// Limit per window.
    pub limit: u32,
    /// Whether a window is split at its start; otherwise the owner holds all of it.
    pub split: bool,
    /// Change of the membership.
    pub change: MembershipChange,
    /// Maximum number of requests.
    pub requests: u8,
    /// Cost of a request.
    pub cost: u64,
    /// Maximum number of different frames about counters; later ones are lost.
    pub frames: usize,
    /// Moments of the clocks, in milliseconds from the boundary of the windows.
    pub moments: &'static [i64],
    /// Whether a node may crash and restart.
    pub crash: bool,
    /// Maximum number of states.
    pub max_states: usize,
}

/// Result of a search.
///
/// ```
/// use hivemind_mesh_sim::ModelCheck;
///
/// let cut_short = ModelCheck { max_states: 100, ..ModelCheck::quick()[0] }.search();
/// assert!(!cut_short.complete && cut_short.states > 0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct SearchResult {
    /// Different states of the system.
    pub states: usize,
    /// Transitions, including those to known states.
    pub steps: u64,
    /// Different states of single nodes.
    pub nodes: usize,
    /// Length of the longest path.
    pub depth: usize,
    /// States in which a window has admitted its whole limit.
    pub full: usize,
    /// Whether all states within the bounds were visited.
    pub complete: bool,
    /// The violation and the path to it.
    pub broken: Option<String>,
}

impl ModelCheck {
    /// Searches of the quick tests, each complete.
    #[must_use]
    pub fn quick() -> Vec<Self> {
        let mut all = Vec::new();
        for change in MembershipChange::ALL {
            for split in [false, true] {
                let model = Self::new(change, split);
                all.push(Self { requests: 2, ..model });
                all.push(Self { requests: 1, crash: true, ..model });
                all.push(Self { requests: 1, moments: &THREE, ..model });
                if change == MembershipChange::None {
                    all.push(Self { frames: 4, ..model });
                    all.push(Self { requests: 2, frames: 4, crash: true, ..model });
                }
            }
        }
        all
    }

    /// Searches of the long tests.
    #[must_use]
    pub fn deep() -> Vec<Self> {
        let mut all = Vec::new();
        for change in MembershipChange::ALL {
            for split in [false, true] {
                let model = Self { requests: 4, frames: 5, ..Self::new(change, split) };
                all.push(Self { limit: 4, crash: true, ..model });
                all.push(Self { limit: 4, cost: 2, moments: &THREE, ..model });
                all.push(Self { frames: 6, moments: &THREE, crash: true, ..model });
            }
        }
        all
    }

    fn new(change: MembershipChange, split: bool) -> Self {
        Self {
            limit: 3,
            split,
            change,
            requests: 3,
            cost: 1,
            frames: 3,
            moments: &TWO,
            crash: false,
            max_states: usize::MAX,
        }
    }

    /// Searches all states within the bounds.
    #[must_use]
    pub fn search(&self) -> SearchResult {
        let mut search = Search::new(*self);
        let mut seen: HashSet<u128, BuildHasherDefault<PrehashedHasher>> = HashSet::default();
        let mut result = SearchResult { complete: true, ..SearchResult::default() };
        let first = search.first();
        seen.insert(first.digest());
        let events = search.events(&first);
        // The path to the current state: each state with its events and the next one to try.
        let mut path = vec![(first, events, 0)];
        while let Some((state, events, next)) = path.last_mut() {
            let Some((who, event)) = events.get(*next).copied() else {
                path.pop();
                continue;
            };
            *next += 1;
            result.steps += 1;
            let after = search.step(state, who, event);
            if !seen.insert(after.digest()) {
                continue;
            }
            let wrong = search.judge(&after);
            result.full += usize::from(after.admitted.contains(&u64::from(self.limit)));
            let events = search.events(&after);
            path.push((after, events, 0));
            result.depth = result.depth.max(path.len());
            let endless = (path.len() > MAX_PATH).then(|| "the path has no end".to_owned());
            if let Some(wrong) = wrong.or(endless) {
                let steps = path.iter().filter_map(|(_, events, next)| events.get(next.checked_sub(1)?));
                let steps: Vec<String> = steps.map(|(who, event)| search.describe(*who, *event)).collect();
                result.broken = Some(format!("{wrong} after: {}", steps.join("; ")));
                break;
            }
            if seen.len() >= self.max_states || search.nodes.len() >= MAX_NODES {
                result.complete = false;
                break;
            }
        }
        (result.states, result.nodes) = (seen.len(), search.nodes.len());
        result
    }
}

/// A hasher for keys that are hashes already.
#[derive(Default)]
struct PrehashedHasher(u64);

impl Hasher for PrehashedHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for eight in bytes.chunks(8) {
            self.0 ^= eight.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        }
    }
    fn write_u128(&mut self, number: u128) {
        self.0 = u64::try_from(number >> 64).unwrap_or(0);
    }
}
