//! Windows and buckets while the clocks of two nodes differ.

use super::buckets::{SECOND, SECRET};
use super::strict;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Period, Rate, Timestamp};
use hivemind_mesh::window::tag_at;
use hivemind_mesh::{MeshOptions, Node};
use hivemind_mesh_sim::{Network, World, mesh_nodes};

fn quick() -> Network {
    Network { sync_us: 2_000, ..Network::default() }
}

/// A key owned by one of `from.0` nodes, and by another once there is one more.
fn key_that_goes(from: (usize, usize), to: usize) -> Key {
    let few = mesh_nodes(from.0, &strict(), Timestamp::EPOCH);
    let more = mesh_nodes(from.0 + 1, &strict(), Timestamp::EPOCH);
    let owns = |nodes: &[Node], index: usize, key: Key| {
        let owner = nodes[0].view().and_then(|view| view.owner(key));
        owner.is_some_and(|owner| owner.id == nodes[index].member().id)
    };
    let goes = |key: &Key| owns(&few, from.1, *key) && owns(&more, to, *key);
    (0..10_000).map(|bits| Key::from_bits(bits, bits.wrapping_mul(SECRET))).find(goes).expect("one of them")
}

/// A node alone counts in one counter window, window after window; another joins whose clock has not reached
/// the running one.
///
/// Fails when membership does not know that windows of such a counter window began, or a window that it has
/// left begins again.
#[test]
fn window_started_by_a_single_node_is_in_no_later_view() {
    for (step, waits) in (0..10).flat_map(|step| [(step, true), (step, false)]) {
        let options = MeshOptions { recall: false, ..strict() };
        let mut world = World::new(1, quick(), options, 0);
        world.begin_at(56 * SECOND);
        world.start_together(1);
        let (key, limit) = (Key::from_bits(7, 11), Limit::fixed_window(40, Period::MINUTE));
        let counter = world.add_limit(key, limit);
        world.run_until(SECOND);
        (0..60).for_each(|_| world.hit(0, counter, 1));
        world.run_until(4 * SECOND + SECOND / 50);
        world.hit(0, counter, 1);
        world.run_until(world.elapsed_us() + step * SECOND / 10);
        world.start(1);
        world.step_clock(1, -3_000_000);
        for request in 0..400 {
            // Until its clock has reached the window, or not.
            let node = if waits && request < 80 { 0 } else { request % 2 };
            world.hit(node, counter, 1);
            world.run_until(world.elapsed_us() + SECOND / 20);
        }
        assert_eq!(world.node(1).and_then(|node| node.view()).map_or(0, |view| view.members().len()), 2);
        let tally = world.tally(0).expect("it was added");
        let context = format!("joined {step} tenths later, {waits}: {:?}", tally.windows());
        // The node for which the single one decided has another clock, and may assume the previous window.
        assert!(tally.admitted <= 80 && (tally.max_excess() == 0 || !waits), "{context}");
        let now = Timestamp::from_nanos((1_700_006_456 * SECOND + world.elapsed_us()) * 1_000);
        let last = tag_at(&limit, now) - 1;
        let spendable = world.node(0).map(|node| node.spendable((key, &limit, last), now));
        assert_eq!(spendable, Some(0), "{context}");
    }
}

/// A peer's clock is ahead: it requests the next window early. Later admissions in this window still weigh
/// there.
///
/// Fails when a window weighs what the last one had admitted when it was opened.
#[test]
fn late_admissions_of_the_last_window_weigh_in_the_next() {
    let limit = Limit::sliding_window(100, Period::SECOND.times(10).expect("a period"));
    for asker in [true, false] {
        let mut world = World::new(1, quick(), strict(), 0);
        world.start_together(3);
        let key = (0..100).map(|n| Key::from_bits(n, n.wrapping_mul(SECRET))).find(|key| {
            world
                .node(0)
                .is_some_and(|node| node.view().and_then(|view| view.owner(*key)) == Some(node.member()))
        });
        let counter = world.add_limit(key.expect("one of them"), limit);
        world.run_until(9 * SECOND + 350_000);
        world.step_clock(2, 900_000);
        if asker {
            world.hit(2, counter, 1);
        }
        for request in 0..220 {
            world.hit(request % 2, counter, 1);
            world.run_until(world.elapsed_us() + 2_000);
        }
        world.run_until(10 * SECOND + 10_000);
        let before = world.tally(0).expect("it was added").admitted;
        assert!(before >= 95, "{before}");
        for request in 0..300 {
            world.hit(request % 2, counter, 1);
            world.run_until(world.elapsed_us() + 3_000);
        }
        let after = world.tally(0).expect("it was added").admitted - before;
        assert!(after <= 13, "{after} in the first second, where there is room for ten");
    }
}

/// The over-admission of a bucket of a hundred a second while it moves from one owner to another, and clocks
/// are wrong.
fn excess_during_owner_change(seed: u64, network: Network, (old_us, new_us): (i64, i64)) -> (u64, u64) {
    let key = key_that_goes((3, 1), 3);
    let mut world = World::new(seed, network, strict(), 0);
    world.start_together(3);
    world.step_clock(1, old_us);
    let limit = Limit::token_bucket(Rate::per_second(100).expect("a rate"), 40).expect("a bucket");
    let counter = world.add_limit(key, limit);
    for request in 0..2_400 {
        if request == 400 {
            world.start(3);
            world.step_clock(3, new_us);
        }
        world.hit(request % 3, counter, 1);
        world.run_until(world.elapsed_us() + 3_000);
    }
    assert_eq!(world.node(0).and_then(|node| node.view()).map_or(0, |view| view.members().len()), 4);
    let tally = world.tally(0).expect("it was added");
    (tally.max_excess(), tally.admitted)
}

/// Fails when each node checks the effective time of a view by its own clock.
#[test]
fn bucket_is_not_kept_by_two_owners_with_different_clocks() {
    let hour = 3_600_000_000;
    let clocks = [(0, 0), (-1_500_000, 0), (0, 1_500_000), (-1_500_000, 1_500_000), (-hour, 0), (0, hour)];
    for off in clocks {
        for network in [quick(), Network::default()] {
            let (over, admitted) = excess_during_owner_change(4, network, off);
            assert_eq!(over, 0, "clocks are off by {off:?} us");
            assert!(admitted >= 700, "{admitted} with clocks off by {off:?} us");
        }
    }
}
