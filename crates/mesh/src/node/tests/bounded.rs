//! A bounded limit, used as the frontends do: immediately, and then as a store.

use super::*;
use crate::node::Lane;
use crate::options::Consistency;
use crate::store::{Carrier, MeshStore};
use hivemind_core::store::Store;
use std::sync::{Arc, Mutex};

/// A frame and its receiver.
type Addressed = (NodeId, Vec<u8>);

/// The frames that are not delivered yet.
#[derive(Clone, Default)]
struct Outbox(Arc<Mutex<Vec<Addressed>>>);

impl Carrier for Outbox {
    fn carry(&self, to: &NodeId, _lane: Lane, frame: Vec<u8>) {
        self.0.lock().expect("no thread panicked").push((to.clone(), frame));
    }
}

/// Fails when allowance is requested only where a decision could have waited for it.
#[test]
fn bounded_limit_without_waiting_admits_exactly_all() {
    for limit in [Limit::fixed_window(5, Period::HOUR), Limit::sliding_window(5, Period::HOUR)] {
        let mesh = Mesh::new(3, &strict());
        let (key, now) = (mesh.key(0, 1), mesh.now);
        let stores: Vec<(NodeId, Outbox, MeshStore<Outbox>)> = mesh
            .nodes
            .into_iter()
            .map(|node| {
                let (id, outbox) = (node.member().id.clone(), Outbox::default());
                (id, outbox.clone(), MeshStore::new(node, outbox))
            })
            .collect();
        let bounded = Sharing { consistency: Some(Consistency::Bounded), ..Sharing::default() };
        let charge = Charge { sharing: bounded, ..charge(key, &limit) };
        let mut admitted = 0;
        for round in 0..40 {
            let tried = stores[1 + round % 2].2.try_decide(&[charge], Context::at(now));
            admitted += u32::from(tried.expect("it never waits").committed);
            for (from, outbox, _) in stores.iter().chain(&stores) {
                let frames = std::mem::take(&mut *outbox.0.lock().expect("no thread panicked"));
                for (to, frame) in frames {
                    if let Some((_, _, store)) = stores.iter().find(|(id, ..)| *id == to) {
                        store.on_frame(now, from, &frame);
                    }
                }
            }
        }
        assert_eq!(admitted, 5, "{limit}");
    }
}
