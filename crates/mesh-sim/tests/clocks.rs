//! Clock offsets and clock steps: windows follow the mesh clock, on which all nodes converge.
#![expect(clippy::expect_used, reason = "a helper of a test may fail it")]

use hivemind_core::store::Key;
use hivemind_core::{Limit, Period, Rate, Timestamp};
use hivemind_mesh::{MeshOptions, OnUnreachable, PeerClock};
use hivemind_mesh_sim::{Network, Random, World};

const SECOND: u64 = 1_000_000;
const START: u64 = 1_700_006_400;
const KEY: Key = Key::from_bits(7, 11);

fn limits() -> [Limit; 3] {
    let five = Period::SECOND.times(5).expect("a period");
    [
        Limit::fixed_window(200, Period::SECOND),
        Limit::fixed_window(5, Period::SECOND),
        Limit::fixed_window(300, five),
    ]
}

fn world(nodes: usize, seed: u64) -> World {
    let options = MeshOptions { on_unreachable: OnUnreachable::Refuse, ..MeshOptions::default() };
    let network = Network { sync_us: 2_000, ..Network::default() };
    let mut world = World::new(seed, network, options, 0);
    world.start_together(nodes);
    world
}

/// Sends twice the limit to all nodes in turn until this many seconds after the start.
fn load(world: &mut World, nodes: usize, limit: &Limit, until: u64) {
    let rate = 2.0 * f64::from(limit.requests()) / limit.period().length().as_secs_f64();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
    let pause = (1e6 / rate) as u64;
    let mut node = usize::try_from(world.elapsed_us() / pause).expect("small");
    while world.elapsed_us() < until * SECOND {
        world.hit(node % nodes, 0, 1);
        world.run_until(world.elapsed_us() + pause);
        node += 1;
    }
}

/// Missed fraction of the admissible requests in these seconds.
fn missed(world: &World, limit: &Limit, seconds: std::ops::Range<u64>) -> f64 {
    let period = limit.period().length().as_secs();
    let windows = (START + seconds.start).div_ceil(period)..(START + seconds.end) / period;
    let (missed, could) = world.tally(0).expect("it was added").under(windows);
    assert!(could > 0);
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let share = missed as f64 / could as f64;
    share
}

fn over(world: &World) -> u64 {
    world.tally(0).expect("it was added").max_excess()
}

/// The clock of a node as seen by another.
fn seen(world: &World, by: usize, of: usize) -> Option<PeerClock> {
    let standing = world.node(by)?.standing(Timestamp::EPOCH);
    standing.clocks.into_iter().find(|clock| clock.id.as_str() == format!("n{of:03}"))
}

fn is_outlier(world: &World, node: usize, skew_us: i64) -> bool {
    let us = (START * SECOND + world.elapsed_us()).saturating_add_signed(skew_us);
    world.node(node).expect("it runs").standing(Timestamp::from_nanos(us * 1_000)).is_outlier
}

// Fails when a clock moves away from the median, or does not move at all (missed requests).
#[test]
fn clock_offsets_admit_nothing_twice_and_converge() {
    for nodes in [3, 10] {
        for (skew, seconds) in [(200_000, 10), (-200_000, 10), (2_000_000, 50), (-2_000_000, 50)] {
            for limit in limits() {
                let mut world = world(nodes, 5);
                world.step_clock(nodes - 1, skew);
                world.add_limit(KEY, limit);
                load(&mut world, nodes, &limit, seconds + 20);
                let what = format!("{limit} on {nodes} nodes, off by {skew} us");
                assert_eq!(over(&world), 0, "{what}");
                let missed = missed(&world, &limit, seconds..seconds + 19);
                assert!(missed < 0.01, "{what}: {missed}");
                let clock = seen(&world, 0, nodes - 1).expect("it was compared");
                assert!(clock.offset_us.abs() < 15_000 && !clock.is_far, "{what}: {clock:?}");
            }
        }
    }
}

// By its own clock a node has allowance of the last window; by the mesh clock the next one is running.
//
// Fails when decisions from allowance use the node's own clock.
#[test]
fn decision_from_allowance_uses_the_mesh_clock() {
    let mut world = world(3, 12);
    world.step_clock(2, -200_000);
    let counter = world.add_limit(KEY, Limit::fixed_window(90, Period::SECOND));
    world.run_until(10 * SECOND + SECOND / 2);
    world.hit(2, counter, 1);
    world.run_until(11 * SECOND + SECOND / 20);
    (0..25).for_each(|_| world.hit(2, counter, 1));
    for request in 0..250 {
        world.run_until(11 * SECOND + SECOND / 4 + request * 2_500);
        world.hit(usize::try_from(request % 3).expect("small"), counter, 1);
    }
    world.run_until(13 * SECOND);
    assert_eq!(over(&world), 0);
}

// Fails when a node that sees an outlier considers itself one.
#[test]
fn clock_an_hour_off_is_excluded_from_short_windows() {
    for nodes in [3, 10] {
        for skew in [3_600 * 1_000_000, -3_600 * 1_000_000_i64] {
            for limit in limits() {
                let mut world = world(nodes, 6);
                world.step_clock(nodes - 1, skew);
                world.add_limit(KEY, limit);
                load(&mut world, nodes, &limit, 12);
                let what = format!("{limit} on {nodes} nodes, off by {skew} us");
                assert_eq!(over(&world), 0, "{what}");
                let clock = seen(&world, 0, nodes - 1).expect("it was compared");
                assert!(clock.is_quarantined && clock.is_far, "{what}: {clock:?}");
                assert!((clock.offset_us - skew).abs() < SECOND.cast_signed(), "{what}: {clock:?}");
                assert!(!seen(&world, 0, 1).expect("it was compared").is_quarantined, "{what}");
                assert!(is_outlier(&world, nodes - 1, skew) && !is_outlier(&world, 0, 0), "{what}");
            }
        }
    }
}

// The owner grants nothing to a member whose clock is off, and others do not ask an owner whose clock is off.
//
// Fails without quarantine.
#[test]
fn node_a_quarter_window_off_is_neither_granted_to_nor_asked() {
    for (off, shared) in [(4_000_000, false), (1_000_000, true)] {
        for who in 0..3 {
            let mut world = world(3, 11);
            world.step_clock(who, off);
            let counter =
                world.add_limit(KEY, Limit::fixed_window(4, Period::SECOND.times(10).expect("a period")));
            world.run_until(5 * SECOND);
            let mut admitted = Vec::new();
            for node in [who, (who + 1) % 3, (who + 2) % 3] {
                let before = world.tally(0).expect("it was added").admitted;
                world.hit(node, counter, 1);
                world.run_until(world.elapsed_us() + 100_000);
                admitted.push(world.tally(0).expect("it was added").admitted > before);
            }
            let both = admitted[0] && (admitted[1] || admitted[2]);
            assert_eq!(both, shared, "node {who} is off by {off} us: {admitted:?}");
            assert!(admitted.contains(&true), "node {who} is off by {off} us");
        }
    }
}

// Fails when the quarantine applies to windows of any length.
#[test]
fn clock_an_hour_off_shares_a_daily_limit() {
    let mut world = world(3, 7);
    world.step_clock(2, 3_600 * 1_000_000);
    let limit = Limit::fixed_window(90, Period::DAY);
    world.add_limit(KEY, limit);
    world.run_until(SECOND);
    for _ in 0..120 {
        world.hit(2, 0, 1);
        world.run_until(world.elapsed_us() + 20_000);
    }
    assert_eq!(world.tally(0).expect("it was added").admitted, 90);
}

// Fails when decisions follow a clock that is set back.
#[test]
fn clock_steps_admit_nothing_twice_and_converge() {
    for nodes in [3, 10] {
        for seed in 0..4 {
            let limit = limits()[usize::try_from(seed % 3).expect("small")];
            let mut random = Random::new(seed);
            let mut world = world(nodes, seed);
            world.add_limit(KEY, limit);
            for round in 1..=10 {
                let who = usize::try_from(random.below(nodes as u64)).expect("small");
                world.step_clock(who, i64::try_from(random.below(800_000)).expect("small") - 400_000);
                load(&mut world, nodes, &limit, 2 * round);
            }
            load(&mut world, nodes, &limit, 70);
            let what = format!("{limit} on {nodes} nodes, seed {seed}");
            assert_eq!(over(&world), 0, "{what}");
            let missed = missed(&world, &limit, 50..69);
            assert!(missed < 0.01, "{what}: {missed}");
        }
    }
}

// Fails when timeouts use a clock that is set back: the request waited for half a minute, or an hour.
#[test]
fn clock_set_back_does_not_delay_a_request() {
    for back in [30_000_000_i64, 3_600_000_000] {
        let mut world = world(3, 8);
        let counter = world.add_limit(KEY, Limit::fixed_window(5, Period::MINUTE));
        world.run_until(SECOND);
        world.network.loss = 1_000;
        (0..3).for_each(|node| world.hit(node, counter, 1));
        assert_eq!(world.sent.3, 2, "two of them ask");
        (0..3).for_each(|node| world.step_clock(node, -back));
        world.run_until(SECOND + 40_000);
        let offered: u64 =
            world.tally(0).expect("it was added").windows().values().map(|(offered, _)| offered).sum();
        assert_eq!(offered, 3, "set back by {back} us");
    }
}

// Fails when counter windows are removed as soon as a clock shows that they have ended.
#[test]
fn momentary_clock_leap_opens_no_window_twice() {
    for limit in [Limit::fixed_window(300, Period::HOUR), Limit::fixed_window(300, Period::MINUTE)] {
        let mut world = world(3, 9);
        let counter = world.add_limit(KEY, limit);
        let all = |world: &mut World| {
            for request in 0..600 {
                world.hit(request % 3, counter, 1);
                world.run_until(world.elapsed_us() + 2_000);
            }
        };
        world.run_until(SECOND);
        all(&mut world);
        assert_eq!(world.tally(0).expect("it was added").admitted, 300);
        for node in 0..3 {
            world.step_clock(node, 3 * 3_600 * 1_000_000);
            world.run_until(world.elapsed_us() + 20_000);
            world.step_clock(node, -3 * 3_600 * 1_000_000);
            world.run_until(world.elapsed_us() + 20_000);
        }
        world.run_until(world.elapsed_us() + SECOND);
        all(&mut world);
        assert_eq!(world.tally(0).expect("it was added").admitted, 300, "{limit}");
    }
}

// Fails when a bucket refills by a clock that is being moved forward.
#[test]
fn bucket_does_not_refill_for_a_clock_moved_forward() {
    for behind in [200_000, 1_500_000] {
        for owner in 0..3 {
            let mut world = world(3, 10);
            world.step_clock(owner, -behind);
            let limit = Limit::token_bucket(Rate::per_second(400).expect("a rate"), 20).expect("a bucket");
            world.add_limit(KEY, limit);
            load(&mut world, 3, &limit, 8);
            assert_eq!(over(&world), 0, "node {owner} is behind by {behind} us");
            assert!(
                world.tally(0).expect("it was added").admitted > 2_700,
                "node {owner} is behind by {behind} us"
            );
        }
    }
}
