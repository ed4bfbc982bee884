//! Guarantees of the mesh, one by one, over the simulated network.
#![expect(clippy::expect_used, reason = "a helper of a test may fail it")]

use hivemind_core::store::Key;
use hivemind_core::{Limit, Period, Rate, Timestamp};
use hivemind_mesh::{Consistency, MeshOptions, OnUnreachable};
use hivemind_mesh_sim::{GridCell, Network, TrafficShape, World, grid, grid_options, mesh_nodes};

const SECOND: u64 = 1_000_000;
const KEY: Key = Key::from_bits(7, 11);

fn world(nodes: usize, options: &MeshOptions) -> World {
    let mut world = World::new(3, Network::default(), options.clone(), 5_000);
    world.start_together(nodes);
    world.run_until(SECOND / 10);
    world
}

/// Maximum admissions of a window.
fn most(world: &World, counter: usize) -> u64 {
    let tally = world.tally(counter).expect("it was added");
    tally.windows().values().map(|(_, admitted)| *admitted).max().unwrap_or(0)
}

// Fails when an owner grants more than it has, or when members start with a share of a small limit.
#[test]
fn five_per_minute_on_thirty_nodes_admit_exactly_the_first_five() {
    for first in (0..30).step_by(6) {
        let mut world = world(30, &MeshOptions::default());
        let counter = world.add_limit(KEY, Limit::fixed_window(5, Period::MINUTE));
        for (request, expected) in (1..=40_u64).map(|request| (request, request.min(5))) {
            let node = (first + 7 * usize::try_from(request).expect("small")) % 30;
            world.hit(node, counter, 1);
            world.run_until(world.elapsed_us() + 40_000);
            assert_eq!(most(&world, counter), expected, "after request {request}, beginning at node {first}");
        }
    }
}

// Fails when shares are rounded up: 29 of them exceed the limit.
#[test]
fn sum_of_shares_never_exceeds_the_limit() {
    for limit in [300_u32, 301, 329, 599, 1_000] {
        let mut world = world(30, &MeshOptions::default());
        let counter = world.add_limit(KEY, Limit::fixed_window(limit, Period::MINUTE));
        for request in 0..usize::try_from(limit).expect("small") * 2 {
            world.hit(request % 30, counter, 1);
        }
        world.run_until(SECOND);
        assert_eq!(most(&world, counter), u64::from(limit));
    }
}

/// Overloads both halves of a partitioned mesh, then heals it. If `recalled`, one node has used the whole window before.
/// Returns the maximum admissions of a window, and the reported admissions beyond allowance.
fn overload_partition(limit: u32, nodes: usize, on_unreachable: OnUnreachable, recalled: bool) -> (u64, u64) {
    let options = MeshOptions { on_unreachable, ..MeshOptions::default() };
    let mut world = world(nodes, &options);
    let counter = world.add_limit(KEY, Limit::fixed_window(limit, Period::MINUTE));
    for _ in 0..if recalled { 2 * limit } else { 0 } {
        world.hit(nodes - 1, counter, 1);
        world.run_until(world.elapsed_us() + 5_000);
    }
    world.network.cut = Some(nodes / 2);
    world.run_until(world.elapsed_us() + 2 * SECOND);
    for _ in 0..4 {
        for request in 0..usize::try_from(limit).expect("small") * 2 {
            world.hit(request % nodes, counter, 1);
        }
        world.run_until(world.elapsed_us() + SECOND);
    }
    world.network.cut = None;
    world.run_until(world.elapsed_us() + 2 * SECOND);
    for request in 0..usize::try_from(limit).expect("small") * 2 {
        world.hit(request % nodes, counter, 1);
        world.run_until(world.elapsed_us() + 1_000);
    }
    world.run_until(world.elapsed_us() + SECOND);
    assert!(world.elapsed_us() < 60 * SECOND, "all of it is one window");
    let beyond = (0..nodes).filter_map(|index| world.node(index));
    (most(&world, counter), beyond.map(|node| node.standing(Timestamp::MAX).beyond_rights).sum())
}

// With ten or more per member, a partition neither loses nor adds admissions, on either side of the owner.
//
// Fails when a split window also grants an even share, which is rounded up.
#[test]
fn partition_does_not_multiply_limits() {
    for nodes in [4_u32, 10] {
        for limit in [10 * nodes, 10 * nodes + 1, 11 * nodes - 1, 999] {
            for policy in [OnUnreachable::Share, OnUnreachable::Refuse] {
                for recalled in [false, true] {
                    let members = usize::try_from(nodes).expect("small");
                    let (admitted, beyond) = overload_partition(limit, members, policy, recalled);
                    assert_eq!((admitted, beyond), (u64::from(limit), 0), "{nodes} nodes, {policy:?}");
                }
            }
        }
    }
}

// Below ten per member: only allowance, or an even share for each node that cannot reach the owner.
#[test]
fn partition_exceeds_a_small_limit_within_its_reported_bound() {
    for nodes in [4, 10] {
        for limit in [1_u32, 5, 7, 3 * u32::try_from(nodes).expect("small")] {
            for recalled in [false, true] {
                let whole = u64::from(limit);
                let strict = overload_partition(limit, nodes, OnUnreachable::Refuse, recalled);
                assert_eq!(strict, (whole, 0), "{limit} on {nodes} nodes");
                let (shared, beyond) = overload_partition(limit, nodes, OnUnreachable::Share, recalled);
                let bound = whole + (nodes as u64 - 1) * whole.div_ceil(nodes as u64);
                assert!((whole..=bound).contains(&shared), "{shared} of {limit} on {nodes} nodes");
                assert!(shared - whole <= beyond, "{shared} of {limit} on {nodes} nodes, reported: {beyond}");
            }
        }
    }
}

// Fail open is bounded by the offered load only, and all of it is reported.
#[test]
fn fail_open_admissions_are_reported() {
    for (limit, nodes) in [(5, 4), (100, 10)] {
        let (admitted, beyond) = overload_partition(limit, nodes, OnUnreachable::Admit, false);
        assert!(admitted > u64::from(limit) && admitted - u64::from(limit) <= beyond, "{admitted}, {beyond}");
    }
}

// Each node exchanges updates with the owners of its keys, and rare heartbeats with others. Updates between all pairs of
// 100 nodes took 16 to 21 KB per second and node for one counter (docs/decisions/013).
#[test]
fn hundred_nodes_share_a_counter_for_few_kilobytes_per_second() {
    let mut world = World::new(1, Network::default(), grid_options(), 5_000);
    world.tick_every(10_000, 50_000);
    world.start_together(100);
    let counter = world.add_limit(KEY, Limit::fixed_window(1_000, Period::SECOND));
    // One and a half times the limit, for three seconds.
    for request in 0..4_500 {
        world.hit(request * 37 % 100, counter, 1);
        world.run_until(world.elapsed_us() + 667);
    }
    let tally = world.tally(counter).expect("it was added");
    assert_eq!(tally.max_excess(), 0);
    assert!(tally.admitted >= 2_970, "only {} of 3,000", tally.admitted);
    let bytes = world.sent.0 / 3 / 100;
    assert!(bytes < 5_000, "{bytes} bytes a second and node");
}

// A part of the 705 cells of the grid (docs/mesh-simulation.md); all of them take half an hour.
#[test]
fn limit_is_used_to_99_percent_for_every_traffic_shape() {
    let chosen = |cell: &GridCell| cell.seconds == 1 && cell.limit <= 100 && cell.nodes <= 10;
    for cell in grid().into_iter().filter(chosen).step_by(7) {
        let outcome = cell.run(5);
        assert_eq!(outcome.over, 0, "{cell:?}");
        assert!(outcome.under <= 0.01, "{:.2} % under: {cell:?}", 100.0 * outcome.under);
    }
}

fn cell(consistency: Consistency, limit: u32, shape: TrafficShape, load: f64) -> GridCell {
    let options = MeshOptions { consistency, ..grid_options() };
    GridCell { nodes: 5, limit, seconds: 1, load, shape, max_cost: 1, options, network: Network::default() }
}

#[test]
fn bounded_limit_never_waits_and_never_over_admits() {
    for shape in TrafficShape::ALL {
        for load in [0.5, 1.5, 10.0] {
            let outcome = cell(Consistency::Bounded, 100, shape, load).run(1);
            assert_eq!((outcome.over, outcome.waited), (0, 0.0), "{shape:?} {load}");
        }
    }
}

#[test]
fn eventual_limit_never_waits_and_never_refuses_early() {
    for shape in TrafficShape::ALL {
        let outcome = cell(Consistency::Eventual, 100, shape, 3.0).run(1);
        assert!(outcome.waited == 0.0 && outcome.under == 0.0, "{shape:?} {outcome:?}");
    }
}

// The excess over an `eventual` limit is the load offered while updates travel: one sync interval of each node, and two
// latencies.
//
// Fails when an owner does not distribute the updates of others.
#[test]
fn eventual_limit_over_admits_only_until_updates_arrive() {
    for (sync_us, gap_us) in [(2_000, 1_000), (2_000, 300), (50_000, 1_000), (50_000, 4_000)] {
        let options = MeshOptions { consistency: Consistency::Eventual, ..MeshOptions::default() };
        let network = Network { sync_us, ..Network::default() };
        let mut world = World::new(5, network, options, 0);
        world.start_together(5);
        let counter = world.add_limit(KEY, Limit::fixed_window(100, Period::SECOND));
        // The owner receives no requests, so it knows only updates.
        let view = world.node(0).and_then(|node| node.view()).expect("they are seated");
        let is_owner = |member: &hivemind_mesh::Member| view.owner(KEY) == Some(member);
        let owner = view.members().iter().position(is_owner).expect("one of five");
        for request in 0..4 * SECOND / gap_us {
            let node = owner + 1 + usize::try_from(request % 4).expect("small");
            world.hit(node % 5, counter, 1);
            world.run_until(world.elapsed_us() + gap_us);
        }
        let standing = world.node(0).map(|node| node.standing(Timestamp::EPOCH)).expect("it runs");
        let news_us = u64::try_from(standing.updates_within.as_micros()).expect("small");
        // The maximum latency is one and a half times the mean, and nodes tick every five milliseconds.
        let bound = (news_us + 2 * (sync_us * 3 / 2 + 5_000)) / gap_us;
        let over = most(&world, counter) - 100;
        assert!((1..=bound).contains(&over), "{over} too much, of {bound} by ways of {sync_us} us");
    }
}

// With equal clocks, a single sliding window would admit all admissions.
//
// Fails when a window ignores the previous one.
#[test]
fn sliding_window_weighs_the_previous_window_of_all_nodes() {
    for seed in 0..6 {
        let mut world = World::new(seed, Network::default(), MeshOptions::default(), 0);
        world.start_together(4);
        let counter = world.add_limit(KEY, Limit::sliding_window(40, Period::SECOND));
        for request in 0..600_u64 {
            world.hit(usize::try_from((request * 7 + seed) % 4).expect("small"), counter, 1);
            world.run_until(world.elapsed_us() + 9_000);
        }
        let tally = world.tally(counter).expect("it was added");
        assert_eq!((tally.max_excess(), tally.beyond_estimate), (0, 0), "seed {seed}");
        assert!(tally.admitted > 150, "only {}", tally.admitted);
    }
}

#[test]
fn bucket_on_many_nodes_admits_as_much_as_a_single_one() {
    for (rate, burst, nodes) in [(100, 100, 5), (1_000, 100, 10), (100, 20, 10), (50, 1, 3)] {
        let mut world = World::new(1, Network::default(), MeshOptions::default(), 0);
        world.start_together(nodes);
        let limit = Limit::token_bucket(Rate::per_second(rate).expect("a rate"), burst).expect("a bucket");
        let counter = world.add_limit(KEY, limit);
        let gap = SECOND / u64::from(rate) * 2 / 3;
        for request in 0..u64::from(rate) * 6 {
            let node = usize::try_from(request * request % nodes as u64).expect("small");
            world.hit(node, counter, 1);
            world.run_until(world.elapsed_us() + gap);
        }
        let tally = world.tally(counter).expect("it was added");
        assert_eq!(tally.max_excess(), 0, "{limit}");
        let missed = tally.single_bucket.saturating_sub(tally.admitted);
        assert!(
            missed * 100 <= tally.single_bucket * 2,
            "{missed} of {} on {limit}, {nodes} nodes",
            tally.single_bucket
        );
    }
}

// A new node becomes the owner of a bucket, which refills before all nodes send requests at once. The allowance of the
// previous owner is void.
//
// Fails when the previous owner keeps its allowance.
#[test]
fn bucket_with_a_new_owner_admits_a_single_burst() {
    let limit = Limit::token_bucket(Rate::per_second(20).expect("a rate"), 40).expect("a bucket");
    let four = mesh_nodes(4, &MeshOptions::default(), Timestamp::EPOCH);
    let owner = |key: Key| four[0].view().and_then(|view| view.owner(key));
    let taken_over = |key: &Key| owner(*key).is_some_and(|owner| owner.id.as_str() == "n003");
    for key in (0..u64::MAX).map(|bits| Key::from_bits(bits, 11)).filter(taken_over).take(3) {
        let mut world = world(3, &MeshOptions::default());
        let counter = world.add_limit(key, limit);
        for request in 0..24 {
            world.hit(request % 3, counter, 1);
            world.run_until(world.elapsed_us() + 40_000);
        }
        world.start(3);
        world.run_until(10 * SECOND);
        assert_eq!(world.node(0).and_then(|node| node.view()).map_or(0, |view| view.members().len()), 4);
        for request in 0..400 {
            world.hit(request % 4, counter, 1);
        }
        world.run_until(11 * SECOND);
        for request in 0..400 {
            world.hit(request % 4, counter, 1);
        }
        world.run_until(12 * SECOND);
        let tally = world.tally(counter).expect("it was added");
        assert_eq!(tally.max_excess(), 0, "{} were admitted", tally.admitted);
        assert!(tally.admitted >= 24 + 40, "only {}", tally.admitted);
    }
}
