//! The shared state of two nodes, when one of them forgets it, and for names without a node.

use super::*;
use crate::node::probe::is_about_counters;

/// A counter that its owner decides, so that each request is a frame and a reply.
fn asked() -> Limit {
    bucket(1_000, 5)
}

/// Fails when one side has entries that the other forgot (as first written).
#[test]
fn link_forgotten_by_one_side_recovers() {
    let limit = asked();
    for forgets in [0, 1] {
        let mut mesh = Mesh::new(3, &strict());
        let keys: Vec<Key> = (0..6).map(|number| mesh.key(number % 2, number as u64)).collect();
        let rounds = |mesh: &mut Mesh, backwards: bool| {
            let mut passed = 0;
            for round in 0..12 {
                let round = if backwards { 11 - round } else { round } % 6;
                // The node that does not own it asks.
                passed += mesh.passed(1 - round % 2, 1, &[charge(keys[round], &limit)]);
                mesh.pass(60);
            }
            passed
        };
        assert_eq!(rounds(&mut mesh, false), 12);
        let other = mesh.nodes[1 - forgets].member().id.clone();
        mesh.nodes[forgets].links.remove(&other);
        mesh.nodes[forgets].meet(other);
        rounds(&mut mesh, true);
        let unreadable = [0, 1].map(|node| mesh.nodes[node].standing(mesh.now).unreadable);
        assert_eq!(rounds(&mut mesh, true), 12, "{forgets} has forgotten");
        assert_eq!([0, 1].map(|node| mesh.nodes[node].standing(mesh.now).unreadable), unreadable);
    }
}

/// Fails when counters after the last entry are written in full forever (as first written).
#[test]
fn full_interner_is_replaced() {
    let limit = asked();
    let mut mesh = Mesh::new(2, &strict());
    let keys = [mesh.key(0, 1), mesh.key(0, 2)];
    let length = |mesh: &mut Mesh, key: Key| {
        mesh.mail.clear();
        let _ = mesh.ask(1, &[charge(key, &limit)]);
        let length = mesh.mail.iter().map(|letter| letter.frame.len()).sum::<usize>();
        mesh.deliver();
        mesh.pass(60);
        length
    };
    let lengths = [length(&mut mesh, keys[0]), length(&mut mesh, keys[0])];
    assert!(lengths[1] + 15 < lengths[0], "{lengths:?}");
    let owner = mesh.nodes[0].member().id.clone();
    mesh.nodes[1].links.get_mut(&owner).expect("they met").send_interner.wear_out();
    length(&mut mesh, keys[1]);
    length(&mut mesh, keys[1]);
    let last = length(&mut mesh, keys[1]);
    assert!(last <= lengths[1] + 2, "{last} after {lengths:?}");
}

/// Fails when the rules of every name ever heard are kept.
#[test]
fn rule_versions_of_gone_peers_are_forgotten() {
    let mut mesh = Mesh::new(2, &strict());
    mesh.nodes[0].reload(7, mesh.now);
    let names: Vec<NodeId> = mesh.nodes.iter().map(|node| node.member().id.clone()).collect();
    mesh.nodes[0].discover(names);
    for number in 0..50 {
        let (observer, now) = (NodeId::new(format!("observer-{number}")), mesh.now);
        let frame = mesh.forged((&observer, 0), Generation(1), &[]);
        mesh.nodes[0].on_frame(now, &observer, &frame);
    }
    let rules = |mesh: &Mesh| format!("{:?}", mesh.nodes[0].membership.rules);
    assert!(rules(&mesh).contains("observer-49"));
    for _ in 0..200 {
        mesh.tick(1_000);
        mesh.deliver();
    }
    assert!(!rules(&mesh).contains("observer"), "{}", rules(&mesh));
    assert!(rules(&mesh).contains(mesh.nodes[1].member().id.as_str()));
}

/// Frames from one node to a name within a second, without any reply.
fn sent(mesh: &mut Mesh, from: usize, to: &NodeId, counts: impl Fn(&[u8]) -> bool) -> usize {
    let mut sent = 0;
    for _ in 0..100 {
        mesh.now = mesh.now.saturating_add(std::time::Duration::from_millis(10));
        let now = mesh.now;
        mesh.nodes[from].on_tick(now);
        let outputs: Vec<Output> = mesh.nodes[from].outputs().collect();
        let is_one = |output: &&Output| matches!(output, Output::Send { to: name, frame, .. } if name == to && counts(frame));
        sent += outputs.iter().filter(is_one).count();
    }
    sent
}

/// Fails when unacknowledged updates are repeated to a silent peer (as first written).
#[test]
fn reports_to_a_silent_owner_resume_when_it_returns() {
    let limit = Limit::fixed_window(60, Period::HOUR);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    let owner = mesh.nodes[0].member().id.clone();
    mesh.cut = vec![0];
    mesh.pass(1_000);
    // More than it holds: the rest is owed, and sent until it is acknowledged.
    let debit = Charge { op: Op::Debit, cost: Cost::new(30), ..charge(key, &limit) };
    assert!(mesh.passes(1, &[debit]));
    let reports = sent(&mut mesh, 1, &owner, is_about_counters);
    assert_eq!(reports, 0, "after the first");
    mesh.cut.clear();
    mesh.pass(1_000);
    let tag = mesh.window_ref(key, &limit).tag;
    let mut window = mesh.nodes[0].table.counters.window(&key, tag).expect("it heard of it");
    let crate::counter::counter_window::Side::Ledger(ledger) = &mut window.side else {
        panic!("it is the owner")
    };
    assert_eq!(ledger.spent(), 30);
}

/// Fails with a frame at every interval (as first written).
#[test]
fn silent_name_receives_heartbeats_only() {
    let mut mesh = Mesh::new(2, &strict());
    let silent = NodeId::new("silent");
    mesh.nodes[0].meet(silent.clone());
    let frames = sent(&mut mesh, 0, &silent, |_| true);
    assert!((4..=7).contains(&frames), "{frames} in a second");
}
