//! How a search begins: who the members are before and after the vote, who owns the counter, and where all nodes stand.

use super::step::{EDGE_MS, NODES, Search, Seat, State};
use super::{Change, Model};
use hivemind_core::store::Key;
use hivemind_core::{Limit, Period, Timestamp};
use hivemind_mesh::Member;
use hivemind_mesh::Node;
use hivemind_mesh::chain::Chain;
use hivemind_mesh::testing::named;
use hivemind_mesh::view::{Round, View};
use hivemind_mesh::{MeshOptions, OnUnreachable};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::time::Duration;

/// From here on the second view holds: in the midst of the first window.
const FENCE_MS: u64 = EDGE_MS - 200;

impl Search {
    pub(super) fn new(model: Model) -> Self {
        let limit = Limit::fixed_window(model.limit, Period::SECOND);
        let mut options = MeshOptions {
            on_unreachable: OnUnreachable::Refuse,
            split_from: if model.split { 1 } else { u32::MAX },
            sync_interval: Duration::from_millis(10),
            // What a clock has been moved by is no part of the states that are told apart.
            slew: std::time::Duration::ZERO,
            // There are no buckets in it, and each word of a former owner would be one more frame to order.
            hand_over: false,
            ..MeshOptions::default()
        };
        // Silence and votes are not what is searched: nobody is silent, no other view is agreed on.
        let long = Duration::from_secs(3_600);
        options.council.staleness = long;
        options.council.patience = long;
        options.council.fence_lead = long;
        options.council.found_after = None;
        let members: Vec<Member> = (0..NODES).map(|index| Member::new(named(index), 1)).collect();
        let (before, after): (&[usize], &[usize]) = match model.change {
            Change::None => (&[0, 1, 2], &[0, 1, 2]),
            Change::Join => (&[0, 1], &[0, 1, 2]),
            Change::Leave => (&[0, 1, 2], &[0, 1]),
        };
        let of = |indices: &[usize]| -> Vec<Member> {
            indices.iter().filter_map(|index| members.get(*index).cloned()).collect()
        };
        let round = Round { number: 1, proposer: named(0) };
        let first = View::new(None, Timestamp::EPOCH, round.clone(), of(before), []);
        let fence = Timestamp::from_millis(FENCE_MS);
        let second = View::new(Some(first.as_base()), fence, round, of(after), []);
        let owners = match model.change {
            Change::None => (1, 1),
            Change::Join => (0, 2),
            Change::Leave => (2, 0),
        };
        let key = (0..u64::MAX).map(|bits| Key::from_bits(bits, bits.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let owned = |view: &View, key: Key, index: usize| view.owner(key) == members.get(index);
        let key = key.into_iter().find(|key| owned(&first, *key, owners.0) && owned(&second, *key, owners.1));
        let before = Chain::founded(first, Timestamp::EPOCH);
        let mut after = before.clone();
        if model.change != Change::None {
            after.append(second);
        }
        Self {
            model,
            key: key.unwrap_or(Key::from_bits(0, 0)),
            limit,
            options,
            members,
            chains: [before, after],
            nodes: Vec::new(),
            node_numbers: HashMap::new(),
            frames: Vec::new(),
            frame_numbers: HashMap::new(),
            effects: HashMap::new(),
            spendable: HashMap::new(),
        }
    }

    /// One run of a node, in the views it knows of.
    pub(super) fn start(&mut self, index: usize, run: u64, moment: u8, learned: bool) -> Node {
        let now = self.now(moment);
        let mut node = Node::new(named(index), run, self.options.clone(), now);
        let [before, after] = &self.chains;
        node.seat(if learned { after.clone() } else { before.clone() }, &self.members, now);
        node
    }

    /// Everybody has consented to the second view, and nobody knows that all have.
    pub(super) fn first(&mut self) -> State {
        let seats = [0, 1, 2].map(|index| {
            let mut node = self.start(index, 1, 0, false);
            let [before, after] = &self.chains;
            let votes = self.members.get(index).is_some_and(|member| before.head().has(member));
            if self.model.change != Change::None && votes {
                node.vote_on(after.head(), self.now(0));
                assert!(node.is_in_doubt(), "it consents");
            }
            let node = self.number(node);
            let learned = self.model.change == Change::None;
            Seat { node, moment: 0, alive: true, learned }
        });
        State { seats, mail: SmallVec::new(), admitted: [0; 2], requests: 0, crashed: false }
    }
}
