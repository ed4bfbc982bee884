//! The state of the exchange between two generations.

use crate::frame::Item;
use crate::frame::interner::{ReceiveInterner, SendInterner};
use crate::frame::replay_window::ReplayWindow;
use crate::view::NodeId;
use crate::view::{Generation, Member};
use hivemind_core::Timestamp;
use hivemind_core::store::Key;
use std::collections::VecDeque;
use std::sync::Arc;

/// Both directions of the exchange between two generations.
#[derive(Clone, Debug, Default)]
pub(super) struct PeerLink {
    pub(super) generation: Generation,
    /// That generation, shared by all its accounts here.
    pub(super) member: Option<Arc<Member>>,
    pub(super) send_interner: SendInterner,
    pub(super) receive_interner: ReceiveInterner,
    /// Which of its requests were served.
    pub(super) replay: ReplayWindow,
    /// The last spending for its requests.
    pub(super) done: VecDeque<SpendRecord>,
    /// Its last resets that were done.
    pub(super) reset: VecDeque<u64>,
    pub(super) urgent: Vec<Item>,
    pub(super) items: Vec<Item>,
    /// For how many seconds only its name was known.
    pub(super) unknown_for: u32,
}

/// The spending for one request: counter, window, amount and time.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpendRecord {
    pub(super) id: u64,
    pub(super) key: Key,
    pub(super) tag: u64,
    pub(super) cost: u64,
    pub(super) at: Timestamp,
}

/// The next interner of this generation.
pub(super) fn begin_interner(interners: &mut u64) -> SendInterner {
    *interners += 1;
    SendInterner::numbered(*interners)
}

impl PeerLink {
    /// The peer's present generation, under this name.
    pub(super) fn member(&mut self, id: &NodeId) -> Arc<Member> {
        let is_same = |member: &&Arc<Member>| member.generation == self.generation;
        if let Some(member) = self.member.as_ref().filter(is_same) {
            return Arc::clone(member);
        }
        let member = Arc::new(Member { id: id.clone(), generation: self.generation });
        self.member = Some(Arc::clone(&member));
        member
    }
}
