//! Decisions of a mesh node without its peers: by allowance that it holds, and as the owner of a counter. The codec of
//! the frames that it exchanges with them.

use crate::{Case, Iteration, NOW, PLENTY, fixed_window, sliding_window, token_bucket};
use hivemind_core::store::{Charge, Context, Key, Parts, Store};
use hivemind_core::{Cost, Limit};
use hivemind_mesh::testing::{FrameCodec, mesh_nodes};
use hivemind_mesh::{Carrier, Lane, MeshOptions, MeshStore, Node, NodeDecision, NodeId, Output};
use std::hint::black_box;

pub(super) const CASES: &[Case] = &[
    ("mesh: token bucket, by allowance", || decision(token_bucket(PLENTY), false)),
    ("mesh: fixed window, by allowance", || decision(fixed_window(PLENTY), false)),
    ("mesh: sliding window, by allowance", || decision(sliding_window(PLENTY), false)),
    ("mesh: token bucket, as owner", || decision(token_bucket(PLENTY), true)),
    ("mesh: fixed window, as owner", || decision(fixed_window(PLENTY), true)),
    ("mesh: sliding window, as owner", || decision(sliding_window(PLENTY), true)),
    ("mesh: write a frame of 8 reports", write_frame),
    ("mesh: read a frame of 8 reports", read_frame),
];

const KEY: Key = Key::from_bits(7, 0x9e37_79b9_7f4a_7c15);
/// Decisions before the measured ones, and the hits of each: the allowance of a node grows with its demand.
const WARM_UP: u32 = 400;
const WARM_UP_HITS: u64 = 10_000;

const REPORTS: u64 = 8;

struct NoPeers;

impl Carrier for NoPeers {
    fn carry(&self, _: &NodeId, _: Lane, _: Vec<u8>) {}
}

/// `as_owner` selects the node of three that decides: the owner of the counter, or another one.
fn decision(limit: Limit, as_owner: bool) -> Iteration {
    let mut nodes = mesh_nodes(3, &MeshOptions::default(), NOW);
    let is_owner = |node: &Node| node.view().and_then(|view| view.owner(KEY)) == Some(node.member());
    let chosen = nodes.iter().position(|node| is_owner(node) == as_owner).unwrap();
    let mut has_asked = false;
    for round in 0.. {
        let charge = Charge { cost: Cost::new(WARM_UP_HITS), ..charge_to(&limit) };
        match nodes.get_mut(chosen).unwrap().decide(&[charge], Context::at(NOW)) {
            // Right after a grant, the allowance is at its maximum.
            NodeDecision::Now(_) if round >= WARM_UP && (has_asked || as_owner) => break,
            NodeDecision::Now(_) => has_asked = false,
            NodeDecision::Later(_) => {
                has_asked = true;
                (0..4).for_each(|_| exchange(&mut nodes));
            }
        }
    }
    let store = MeshStore::new(nodes.swap_remove(chosen), NoPeers);
    Box::new(move || {
        let verdicts = store.try_decide(black_box(&[charge_to(&limit)]), Context::at(black_box(NOW)));
        assert!(black_box(verdicts).is_some_and(|verdicts| verdicts.committed), "the allowance is spent");
    })
}

fn write_frame() -> Iteration {
    let mut codec = FrameCodec::new(REPORTS, NOW);
    Box::new(move || drop(black_box(codec.encode())))
}

fn read_frame() -> Iteration {
    let mut codec = FrameCodec::new(REPORTS, NOW);
    let frame = codec.encode();
    Box::new(move || assert_eq!(codec.decode(black_box(&frame)), 8))
}

fn charge_to(limit: &Limit) -> Charge<'_> {
    Charge::spend(KEY, Parts { domain: "", entries: &[] }, limit)
}

/// Delivers all frames that the nodes have to send.
fn exchange(nodes: &mut [Node]) {
    let mut frames = Vec::new();
    for node in nodes.iter_mut() {
        let from = node.member().id.clone();
        frames.extend(node.outputs().filter_map(|output| match output {
            Output::Send { to, frame, .. } => Some((from.clone(), to, frame)),
            _ => None,
        }));
    }
    for (from, to, frame) in frames {
        for node in nodes.iter_mut().filter(|node| node.member().id == to) {
            node.on_frame(NOW, &from, &frame);
        }
    }
}
