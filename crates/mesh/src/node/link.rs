//! The state of the exchange between two generations.

use crate::dictionary::{Heard, Spoken};
use crate::frame::Item;
use crate::member::{Generation, Member};
use crate::owner::NodeId;
use crate::replay::Replay;
use hivemind_core::Timestamp;
use hivemind_core::store::Key;
use std::collections::VecDeque;
use std::sync::Arc;

/// Both directions of the exchange between two generations.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    pub(super) generation: Generation,
    /// That generation, shared by all its accounts here.
    pub(super) run: Option<Arc<Member>>,
    pub(super) spoken: Spoken,
    pub(super) heard: Heard,
    /// Which of its requests were served.
    pub(super) replay: Replay,
    /// The last spending for its requests.
    pub(super) done: VecDeque<Done>,
    /// Its last resets that were done.
    pub(super) reset: VecDeque<u64>,
    pub(super) urgent: Vec<Item>,
    pub(super) items: Vec<Item>,
    /// For how many seconds only its name was known.
    pub(super) unknown_for: u32,
}

/// The spending for one request: counter, window, amount and time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) id: u64,
    pub(super) key: Key,
    pub(super) tag: u64,
    pub(super) cost: u64,
    pub(super) at: Timestamp,
}

/// The next interner of this generation.
pub(super) fn begin_dictionary(dictionaries: &mut u64) -> Spoken {
    *dictionaries += 1;
    Spoken::numbered(*dictionaries)
}

impl Link {
    /// The peer's present generation, under this name.
    pub(super) fn run(&mut self, id: &NodeId) -> Arc<Member> {
        let is_same = |run: &&Arc<Member>| run.generation == self.generation;
        if let Some(run) = self.run.as_ref().filter(is_same) {
            return Arc::clone(run);
        }
        let run = Arc::new(Member { id: id.clone(), generation: self.generation });
        self.run = Some(Arc::clone(&run));
        run
    }
}
