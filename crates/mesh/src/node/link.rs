//! What two runs know of each other's frames.

use crate::dictionary::{Heard, Spoken};
use crate::frame::Item;
use crate::member::{Generation, Member};
use crate::owner::NodeId;
use crate::replay::Replay;
use hivemind_core::Timestamp;
use hivemind_core::store::Key;
use std::collections::VecDeque;
use std::sync::Arc;

/// One direction each of what two runs tell each other.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    pub(super) generation: Generation,
    /// That run, as all accounts that it has here name it.
    pub(super) run: Option<Arc<Member>>,
    pub(super) spoken: Spoken,
    pub(super) heard: Heard,
    /// Which of its asks were served.
    pub(super) replay: Replay,
    /// What was spent for its asks, the last of them.
    pub(super) done: VecDeque<Done>,
    /// Its resets that were done, the last of them.
    pub(super) reset: VecDeque<u64>,
    pub(super) urgent: Vec<Item>,
    pub(super) items: Vec<Item>,
    /// For how many seconds nothing was known of this peer but its name.
    pub(super) unknown_for: u32,
}

/// What was spent for an ask of this number: of which counter and window, how much, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) id: u64,
    pub(super) key: Key,
    pub(super) tag: u64,
    pub(super) cost: u64,
    pub(super) at: Timestamp,
}

/// The next dictionary of this run.
pub(super) fn begin_dictionary(dictionaries: &mut u64) -> Spoken {
    *dictionaries += 1;
    Spoken::numbered(*dictionaries)
}

impl Link {
    /// The run that is spoken with, under this name.
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
