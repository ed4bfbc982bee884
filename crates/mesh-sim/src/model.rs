//! A model check: every order in which three nodes can be asked, told the time, told of a view,
//! crash, start anew and hear each other, over the real node and the real codec. A frame that was
//! sent is never taken off the network: it may come never, once or many times, at any later moment,
//! which is loss, delay, repetition and reordering at once. Each node has a clock of its own that
//! goes on a step at a time, so clocks are as far apart as two windows. What is bounded is how many
//! requests and frames there are, and that one node crashes at most.
//!
//! A node's answer to an event depends on its state and the event alone. It is computed once and
//! looked up from then on, which makes millions of states of the whole cheap.

mod start;
mod step;

use hashbrown::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use step::Search;

/// No sound way is nearly as long: totals that grow with every repetition make one that has no end.
const LONGEST_WAY: usize = 100;

/// So many states of single nodes are kept, some kilobytes each.
const MOST_NODES: usize = 300_000;

/// One moment before the fence and one in the second window; and one more between fence and edge.
const TWO: [i64; 2] = [-300, 50];
const THREE: [i64; 3] = [-300, -100, 50];

/// How the members change.
///
/// ```
/// use hivemind_mesh_sim::{Change, Model};
///
/// for change in Change::ALL {
///     assert!(Model::quick().iter().any(|model| model.change == change));
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// They do not.
    None,
    /// The third joins, and owns the counter from then on.
    Join,
    /// The owner leaves.
    Leave,
}

impl Change {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Join, Self::Leave];
}

/// What is searched.
///
/// ```
/// use hivemind_mesh_sim::Model;
///
/// let searched = Model { most_states: 100, ..Model::quick()[0] }.search();
/// assert_eq!(searched.broken, None); // In none of these states is more admitted than the limit.
/// assert!(Model::deep().iter().all(|model| model.requests == 4)); // For the long tests.
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Model {
    /// How much a window admits.
    pub limit: u32,
    /// Whether a window is split at its start; else all of it is with the owner.
    pub split: bool,
    /// How the members change.
    pub change: Change,
    /// How many requests there are at most, and what each of them costs.
    pub requests: u8,
    /// What a request costs.
    pub cost: u64,
    /// So many different frames about counters get onto the network; those after them are lost.
    pub frames: usize,
    /// The moments that clocks go through, in milliseconds from the edge of the windows.
    pub moments: &'static [i64],
    /// Whether a node may crash, and start anew.
    pub crash: bool,
    /// The search ends after so many states.
    pub most_states: usize,
}

/// What a search came to.
///
/// ```
/// use hivemind_mesh_sim::Model;
///
/// let cut_short = Model { most_states: 100, ..Model::quick()[0] }.search();
/// assert!(!cut_short.complete && cut_short.states > 0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Searched {
    /// Different states of the whole.
    pub states: usize,
    /// Steps from one to another, those to known ones included.
    pub steps: u64,
    /// Different states of single nodes.
    pub nodes: usize,
    /// The longest way.
    pub depth: usize,
    /// States in which a window has admitted all of its limit.
    pub full: usize,
    /// Whether all states within the bounds were seen.
    pub complete: bool,
    /// What went wrong, and the way to it.
    pub broken: Option<String>,
}

impl Model {
    /// Those of the quick tests: each is searched to its end.
    #[must_use]
    pub fn quick() -> Vec<Self> {
        let mut all = Vec::new();
        for change in Change::ALL {
            for split in [false, true] {
                let model = Self::new(change, split);
                all.push(Self { requests: 2, ..model });
                all.push(Self { requests: 1, crash: true, ..model });
                all.push(Self { requests: 1, moments: &THREE, ..model });
                if change == Change::None {
                    all.push(Self { frames: 4, ..model });
                    all.push(Self { requests: 2, frames: 4, crash: true, ..model });
                }
            }
        }
        all
    }

    /// Those of the long tests.
    #[must_use]
    pub fn deep() -> Vec<Self> {
        let mut all = Vec::new();
        for change in Change::ALL {
            for split in [false, true] {
                let model = Self { requests: 4, frames: 5, ..Self::new(change, split) };
                all.push(Self { limit: 4, crash: true, ..model });
                all.push(Self { limit: 4, cost: 2, moments: &THREE, ..model });
                all.push(Self { frames: 6, moments: &THREE, crash: true, ..model });
            }
        }
        all
    }

    fn new(change: Change, split: bool) -> Self {
        Self {
            limit: 3,
            split,
            change,
            requests: 3,
            cost: 1,
            frames: 3,
            moments: &TWO,
            crash: false,
            most_states: usize::MAX,
        }
    }

    /// Searches all states within the bounds.
    #[must_use]
    pub fn search(&self) -> Searched {
        let mut search = Search::new(*self);
        let mut seen: HashSet<u128, BuildHasherDefault<Folded>> = HashSet::default();
        let mut result = Searched { complete: true, ..Searched::default() };
        let first = search.first();
        seen.insert(first.digest());
        let events = search.events(&first);
        // The way to where the search is: each state, and what is still to be tried there.
        let mut way = vec![(first, events, 0)];
        while let Some((state, events, next)) = way.last_mut() {
            let Some((who, event)) = events.get(*next).copied() else {
                way.pop();
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
            way.push((after, events, 0));
            result.depth = result.depth.max(way.len());
            let endless = (way.len() > LONGEST_WAY).then(|| "the way has no end".to_owned());
            if let Some(wrong) = wrong.or(endless) {
                let steps = way.iter().filter_map(|(_, events, next)| events.get(next.checked_sub(1)?));
                let told: Vec<String> = steps.map(|(who, event)| search.tell(*who, *event)).collect();
                result.broken = Some(format!("{wrong} after: {}", told.join("; ")));
                break;
            }
            if seen.len() >= self.most_states || search.nodes.len() >= MOST_NODES {
                result.complete = false;
                break;
            }
        }
        (result.states, result.nodes) = (seen.len(), search.nodes.len());
        result
    }
}

/// What is kept is a hash already.
#[derive(Default)]
struct Folded(u64);

impl Hasher for Folded {
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
