//! Windows whose first members leave: untouched ones stay complete for the next owners, touched ones are not
//! given out twice.

use super::buckets::{SECOND, admitted, ask_for_all, keys, moment, restart};
use super::strict;
use hivemind_core::{Limit, Period};
use hivemind_mesh::MeshOptions;
use hivemind_mesh::window::tag_at;
use hivemind_mesh_sim::{Network, World};

fn of_the_minute(requests: u32) -> Limit {
    Limit::fixed_window(requests, Period::MINUTE)
}

/// Three nodes within a minute, past its edge, where clocks differ.
fn within_a_minute(seed: u64, network: Network) -> World {
    let options = MeshOptions { ask_timeout: std::time::Duration::from_millis(200), ..strict() };
    let mut world = World::new(seed, network, options, 20_000);
    world.start_together(3);
    world.run_until(SECOND);
    world
}

fn add(world: &mut World, numbers: std::ops::Range<u64>, limit: Limit) -> Vec<usize> {
    let skipped = usize::try_from(numbers.start).expect("a few");
    keys(numbers.end).skip(skipped).map(|key| world.add_limit(key, limit)).collect()
}

/// Small windows stay with their owners, larger ones are split.
///
/// Fails when the shares of leavers are not inherited.
#[test]
fn rolling_restart_keeps_untouched_windows_complete() {
    for (seed, requests) in [(1, 5), (2, 5), (3, 60), (4, 60)] {
        let mut world = within_a_minute(seed, Network::default());
        (0..3).for_each(|who| restart(&mut world, who));
        assert!(world.elapsed_us() < 40 * SECOND, "the window has to go on: {} us", world.elapsed_us());
        let fresh = add(&mut world, 0..6, of_the_minute(requests));
        ask_for_all(&mut world, 3, &fresh, requests as usize + 8);
        assert!(world.elapsed_us() < 59 * SECOND, "the window has to go on: {} us", world.elapsed_us());
        assert_eq!(admitted(&world, &fresh), vec![u64::from(requests); 6], "seed {seed}");
    }
}

/// All nodes touch some before and between restarts, over faulty networks, too; a leaver may end with something
/// unsent.
///
/// Fails when shares of leavers without a handoff are inherited, or the next owner does not record touched
/// windows.
#[test]
fn touched_windows_are_not_granted_twice() {
    for seed in 0..12 {
        let network = if seed % 3 == 0 { Network::default() } else { Network::bad() };
        for requests in [5, 60] {
            let mut world = within_a_minute(seed, network.clone());
            let mut all = add(&mut world, 0..4, of_the_minute(requests));
            ask_for_all(&mut world, 3, &all, 3);
            for who in 0..3 {
                restart(&mut world, who);
                let next = 4 * (who as u64 + 1);
                all.extend(add(&mut world, next..next + 4, of_the_minute(requests)));
                ask_for_all(&mut world, 3, &all, 2);
            }
            ask_for_all(&mut world, 3, &all, requests as usize / 2 + 4);
            let most =
                all.iter().map(|counter| world.tally(*counter).expect("it was added").max_excess()).max();
            assert_eq!(most, Some(0), "seed {seed}, {requests} a minute: {:?}", admitted(&world, &all));
        }
    }
}

/// The admissions of dead members are unknown.
///
/// Fails when shares of members that disappeared silently are inherited.
#[test]
fn windows_of_dead_members_are_not_inherited() {
    let mut world = within_a_minute(1, Network::default());
    let used = add(&mut world, 0..30, of_the_minute(5));
    ask_for_all(&mut world, 3, &used, 6);
    assert_eq!(admitted(&world, &used), vec![5; 30]);
    world.crash(0);
    world.run_until(world.elapsed_us() + 8 * SECOND);
    world.start(0);
    world.run_until(world.elapsed_us() + 5 * SECOND);
    restart(&mut world, 1);
    assert!(world.elapsed_us() < 50 * SECOND, "the window has to go on: {} us", world.elapsed_us());
    ask_for_all(&mut world, 3, &used, 6);
    assert_eq!(admitted(&world, &used), vec![5; 30]);
}

/// Of a window that only the dead had touched nothing is inherited either from members that came in between and
/// did not know it.
///
/// Fails when every leaver's handoff counts, however far back it knows its keys.
#[test]
fn windows_of_the_dead_are_not_inherited_through_others() {
    let mut world = within_a_minute(1, Network::default());
    let used = add(&mut world, 0..30, of_the_minute(5));
    for counter in &used {
        (0..6).for_each(|_| world.hit(0, *counter, 1));
        world.run_until(world.elapsed_us() + 20_000);
    }
    assert_eq!(admitted(&world, &used), vec![5; 30]);
    world.crash(0);
    world.run_until(world.elapsed_us() + 2 * SECOND);
    world.start(0);
    world.run_until(world.elapsed_us() + 5 * SECOND);
    // Its keys moved to these nodes, which got no requests for them, and which leave in turn.
    restart(&mut world, 1);
    restart(&mut world, 2);
    assert!(world.elapsed_us() < 50 * SECOND, "the window has to go on: {} us", world.elapsed_us());
    ask_for_all(&mut world, 3, &used, 6);
    assert_eq!(admitted(&world, &used), vec![5; 30]);
}

/// It serves until it ends, and gets requests for keys that it never saw.
///
/// Fails when a leaver opens windows with its former share.
#[test]
fn departed_node_has_no_share_of_untouched_windows() {
    for seed in 0..6 {
        let mut world = within_a_minute(seed, Network::default());
        world.leave(0);
        // Until it has sent everything, and has not ended yet.
        world.run_until(world.elapsed_us() + 6 * SECOND);
        for requests in [5, 60] {
            let fresh = add(&mut world, 0..20, of_the_minute(requests));
            for counter in &fresh {
                (0..requests).for_each(|_| world.hit(0, *counter, 1));
                world.run_until(world.elapsed_us() + 20_000);
            }
            ask_for_all(&mut world, 3, &fresh, requests as usize);
            let over =
                fresh.iter().map(|counter| world.tally(*counter).expect("it was added").max_excess()).max();
            assert_eq!(over, Some(0), "seed {seed}, {requests} a minute: {:?}", admitted(&world, &fresh));
        }
    }
}

/// A process ends at the moment when the mesh reports that it has left. Some keys are requested everywhere,
/// some nowhere after that; all were requested before.
///
/// Fails when a node has left before it checked its holdings.
#[test]
fn rolling_restart_keeps_the_rest_of_touched_windows() {
    for (seed, requests) in [(1, 5), (2, 60), (3, 300), (4, 300)] {
        let mut world = within_a_minute(seed, Network::default());
        let used = add(&mut world, 0..9, of_the_minute(requests));
        ask_for_all(&mut world, 3, &used, 4);
        for who in 0..3 {
            world.leave(who);
            while !world.node(who).is_some_and(|node| node.has_left(moment(&world))) {
                world.run_until(world.elapsed_us() + 1_000);
            }
            world.crash(who);
            world.run_until(world.elapsed_us() + SECOND / 2);
            world.start(who);
            world.run_until(world.elapsed_us() + 4 * SECOND);
        }
        for _ in 0..requests {
            for (number, counter) in used.iter().enumerate() {
                world.hit(number % 3, *counter, 1);
            }
            world.run_until(world.elapsed_us() + 50_000);
        }
        assert!(world.elapsed_us() < 59 * SECOND, "the window has to go on: {} us", world.elapsed_us());
        assert_eq!(admitted(&world, &used), vec![u64::from(requests); 9], "seed {seed}");
    }
}

/// A day with many deployments.
///
/// Fails with sixteen views (as first written): with the third rolling restart every key was refused until
/// midnight.
#[test]
fn rolling_restarts_all_day_keep_daily_windows_complete() {
    let limit = Limit::fixed_window(60, Period::DAY);
    let mut world = within_a_minute(1, Network::default());
    let used = add(&mut world, 0..6, limit);
    ask_for_all(&mut world, 3, &used, 7);
    for who in (0..3).cycle().take(18) {
        restart(&mut world, who);
    }
    let fresh = add(&mut world, 6..12, limit);
    let all = [used, fresh].concat();
    ask_for_all(&mut world, 3, &all, 70);
    assert_eq!(admitted(&world, &all), vec![60; 12]);
}

/// Frames are lost both ways, and a leaver's returns have to be acknowledged before it goes.
///
/// Fails when an owner acknowledges an update once, and not again after that acknowledgement was lost.
#[test]
fn leaving_ends_soon_despite_lost_updates() {
    for seed in 0..20 {
        let mut world = within_a_minute(seed, Network::bad());
        let used = add(&mut world, 0..30, of_the_minute(60));
        ask_for_all(&mut world, 3, &used, 3);
        world.leave(0);
        let begun = world.elapsed_us();
        while !world.node(0).is_some_and(|node| node.has_left(moment(&world))) {
            world.run_until(world.elapsed_us() + SECOND / 10);
            let took = world.elapsed_us() - begun;
            assert!(
                took < 8 * SECOND,
                "seed {seed}: four fifths of the grace period are over, and updates are unacknowledged"
            );
        }
    }
}

/// A slow node requests the previous window, after the node that touched it has left and the next one is
/// running.
///
/// Fails when the next owner does not record touched windows.
#[test]
fn touched_previous_window_is_not_inherited() {
    let limit = of_the_minute(5);
    let mut world = World::new(1, Network::default(), strict(), 20_000);
    world.start_together(3);
    world.run_until(50 * SECOND);
    let used = add(&mut world, 0..12, limit);
    for counter in &used {
        (0..6).for_each(|_| world.hit(0, *counter, 1));
        world.run_until(world.elapsed_us() + 20_000);
    }
    assert_eq!(admitted(&world, &used), vec![5; 12]);
    world.run_until(61 * SECOND);
    world.leave(0);
    world.run_until(67 * SECOND);
    let now = moment(&world);
    let mut opened = 0;
    for who in 1..3 {
        let node = world.node_mut(who).expect("it runs");
        for key in keys(12) {
            let before = tag_at(&limit, now) - 1;
            let Some(unspent) = node.unspent((key, &limit, before), now) else { continue };
            assert!(unspent <= 0, "node {who} has something of key {key:?}");
            opened += 1;
        }
    }
    assert_eq!(opened, 24, "all of them can be asked for");
}
