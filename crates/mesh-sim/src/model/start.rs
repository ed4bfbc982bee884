//! Initial state of a search: members before and after the vote, the owner of the counter, and the nodes.

use super::step::{EDGE_MS, ModelState, NODES, NodeState, Search};
use super::{MembershipChange, ModelCheck};
use hivemind_core::store::Key;
use hivemind_core::{Limit, Period, Timestamp};
use hivemind_mesh::Member;
use hivemind_mesh::Node;
use hivemind_mesh::testing::named;
use hivemind_mesh::view::view_log::ViewLog;
use hivemind_mesh::view::{Round, View};
use hivemind_mesh::{MeshOptions, OnUnreachable};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::time::Duration;

/// Time from which the second view is effective: within the first window.
const EFFECTIVE_MS: u64 = EDGE_MS - 200;

impl Search {
    pub(super) fn new(model: ModelCheck) -> Self {
        let limit = Limit::fixed_window(model.limit, Period::SECOND);
        let mut options = MeshOptions {
            on_unreachable: OnUnreachable::Refuse,
            split_from: if model.split { 1 } else { u32::MAX },
            sync_interval: Duration::from_millis(10),
            // The correction of a clock is not part of the state.
            slew: std::time::Duration::ZERO,
            // Without buckets, handoff would only add frames to order.
            handoff: false,
            ..MeshOptions::default()
        };
        // Silence and votes are not searched: no node is suspect, and no other view is proposed.
        let long = Duration::from_secs(3_600);
        options.membership.staleness = long;
        options.membership.patience = long;
        options.membership.view_lead = long;
        options.membership.found_after = None;
        let members: Vec<Member> = (0..NODES).map(|index| Member::new(named(index), 1)).collect();
        let (before, after): (&[usize], &[usize]) = match model.change {
            MembershipChange::None => (&[0, 1, 2], &[0, 1, 2]),
            MembershipChange::Join => (&[0, 1], &[0, 1, 2]),
            MembershipChange::Leave => (&[0, 1, 2], &[0, 1]),
        };
        let of = |indices: &[usize]| -> Vec<Member> {
            indices.iter().filter_map(|index| members.get(*index).cloned()).collect()
        };
        let round = Round { number: 1, proposer: named(0) };
        let first = View::new(None, Timestamp::EPOCH, round.clone(), of(before), []);
        let effective_at = Timestamp::from_millis(EFFECTIVE_MS);
        let second = View::new(Some(first.as_base()), effective_at, round, of(after), []);
        let owners = match model.change {
            MembershipChange::None => (1, 1),
            MembershipChange::Join => (0, 2),
            MembershipChange::Leave => (2, 0),
        };
        let key = (0..u64::MAX).map(|bits| Key::from_bits(bits, bits.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let owned = |view: &View, key: Key, index: usize| view.owner(key) == members.get(index);
        let key = key.into_iter().find(|key| owned(&first, *key, owners.0) && owned(&second, *key, owners.1));
        let before = ViewLog::founded(first, Timestamp::EPOCH);
        let mut after = before.clone();
        if model.change != MembershipChange::None {
            after.append(second);
        }
        Self {
            model,
            key: key.unwrap_or(Key::from_bits(0, 0)),
            limit,
            options,
            members,
            view_logs: [before, after],
            nodes: Vec::new(),
            node_numbers: HashMap::new(),
            frames: Vec::new(),
            frame_numbers: HashMap::new(),
            effects: HashMap::new(),
            spendable: HashMap::new(),
        }
    }

    /// Starts a generation of a node with the views that it knows.
    pub(super) fn start(&mut self, index: usize, run: u64, moment: u8, learned: bool) -> Node {
        let now = self.now(moment);
        let mut node = Node::new(named(index), run, self.options.clone(), now);
        let [before, after] = &self.view_logs;
        node.join_view(if learned { after.clone() } else { before.clone() }, &self.members, now);
        node
    }

    /// The first state: all nodes have voted for the second view, and none knows the result.
    pub(super) fn first(&mut self) -> ModelState {
        let node_states = [0, 1, 2].map(|index| {
            let mut node = self.start(index, 1, 0, false);
            let [before, after] = &self.view_logs;
            let votes = self.members.get(index).is_some_and(|member| before.head().has(member));
            if self.model.change != MembershipChange::None && votes {
                node.vote_on(after.head(), self.now(0));
                assert!(node.is_in_doubt(), "it votes");
            }
            let node = self.number(node);
            let learned = self.model.change == MembershipChange::None;
            NodeState { node, moment: 0, alive: true, learned }
        });
        ModelState { node_states, mail: SmallVec::new(), admitted: [0; 2], requests: 0, crashed: false }
    }
}
