//! Progress: votes whose voters died, nodes that were away, wrong clocks, and meshes without living members.

use super::network::{MS, World, name};
use super::*;

/// Starts a newcomer and lets time pass until a node is bound to a view with it, and a little longer.
fn in_the_middle_of_a_vote(world: &mut World, newcomer: u64, longer: u64) {
    world.start(&name(newcomer));
    for _ in 0..1_000 {
        world.run(5);
        if world.participants.values().any(|participant| !participant.membership.bound.is_empty()) {
            break;
        }
    }
    world.run(longer);
}

/// Fails when a node that is bound to a vote proposes nothing (as first written), or a bound voter consents to
/// nothing.
#[test]
fn vote_ends_once_discovery_reports_the_dead() {
    let mut hung = 0;
    for seed in 0..400 {
        let count = 2 + seed % 2;
        let mut world = World::grown(seed, 0, count);
        world.founding = false;
        in_the_middle_of_a_vote(&mut world, 8, seed / 4);
        // Any member dies, in any step of the vote.
        world.kill(&name(seed / 2 % count));
        let height = |world: &World| world.participants[&world.living()[0]].membership.head().unwrap().height;
        let before = height(&world);
        world.run(5_000);
        let now = Timestamp::from_nanos(world.now);
        hung += u64::from(
            world
                .participants
                .values()
                .any(|participant| participant.alive && participant.membership.is_in_doubt(now)),
        );
        let living = world.living();
        world.discovery_knows(&living);
        world.run(10_000);
        world.goes_on(&format!("seed {seed}"));
        assert!(height(&world) > before, "seed {seed}");
        assert_eq!(world.members(), living, "seed {seed}");
        assert_eq!(world.overlaps(), 0, "seed {seed}");
    }
    assert!(hung > 10, "only {hung} votes hung");
}

/// The same with all network faults and many deaths: once the network is whole and discovery names the living
/// nodes, they agree on one view of just them, and no window began in two views.
///
/// Fails as above, when windows begin in the view of an abandoned vote, or when an abandoned vote is carried out all
/// the same.
#[test]
fn living_members_agree_again_after_any_faults() {
    let seeds = if std::env::var_os("HIVEMIND_LONG").is_some() { 5_000 } else { 150 };
    for seed in 0..seeds {
        let count = 2 + seed % 4;
        let mut world = World::grown(seed, 50, count);
        world.founding = false;
        for _ in 0..6 {
            let who = name(world.random.below(count));
            match world.random.below(6) {
                0 => world.start(&who),
                1 => world.start(&name(5 + seed % 4)),
                2 => {
                    let side = (0..=world.random.below(count)).map(name).collect();
                    world.cut = Some((side, world.random.chance(500)));
                }
                3 => world.cut = None,
                4 if world.living().len() > 1 => world.kill(&who),
                _ => world.loss = world.random.below(300),
            }
            let pause = world.random.below(3_000);
            world.run(pause);
        }
        (world.cut, world.loss) = (None, 20);
        let living = world.living();
        if living.is_empty() || !living.iter().any(|id| world.participants[id].membership.is_member()) {
            continue; // No living member could admit a node.
        }
        world.discovery_knows(&living);
        world.run(30_000);
        world.goes_on(&format!("seed {seed}"));
        assert_eq!(world.members(), living, "seed {seed}");
        assert_eq!(world.overlaps(), 0, "seed {seed}");
    }
}

/// Fails when the larger list of members wins (as first written), or a head older than all remembered views
/// counts as a fork.
#[test]
fn node_away_for_too_many_views_returns_as_observer() {
    let mut world = World::grown(3, 0, 6);
    world.agrees_on(&[0, 1, 2, 3, 4, 5]);
    world.founding = false;
    world.cut = Some(([3, 4, 5].map(name).to_vec(), false));
    world.discovery_knows(&[0, 1, 2, 8].map(name));
    world.run_unchecked(8_000);
    for _ in 0..20 {
        world.start(&name(2));
        world.run_unchecked(4_000);
    }
    assert!(world.participants[&name(0)].membership.head().unwrap().height > 20);
    assert_eq!(world.members(), [0, 1, 2].map(name));
    world.kill(&name(4));
    world.kill(&name(5));
    world.cut = None;
    world.discovery_knows(&[0, 1, 2, 3, 8].map(name));
    world.run_unchecked(10_000);
    world.goes_on("it came back");
    assert_eq!(world.members(), [0, 1, 2, 3].map(name));
    assert_eq!(world.participants[&name(0)].membership.upheavals, 0, "those that went on went on");
    assert!(world.participants[&name(3)].membership.overlaps > 0, "it was taken for dead and was not");
}

/// Fails when `effective_at` has no upper bound and windows begin at any time (as first written).
#[test]
fn clock_an_hour_ahead_delays_no_view() {
    for (seed, who) in [(1, 0), (2, 1), (3, 2), (4, 0)] {
        let mut world = World::grown(seed, 0, 3);
        world.agrees_on(&[0, 1, 2]);
        let hour = 3_600_000_000_000;
        world.participants.get_mut(&name(who)).unwrap().skew += hour;
        world.run(1_000);
        world.start(&name(7));
        world.run(9_000);
        assert_eq!(world.members(), [0, 1, 2, 7].map(name));
        // Windows that it began before it received frames by its new clock are counted, and no more.
        assert!(world.overlaps() <= 3, "{}", world.overlaps());
        let effective_at = world.participants[&name(0)].membership.head().unwrap().effective_at;
        assert!(
            effective_at < Timestamp::from_nanos(world.now + 10_000 * MS),
            "an effective_at an hour ahead"
        );
        world.participants.get_mut(&name(who)).unwrap().skew -= hour;
        world.run(1_000);
        world.start(&name(8));
        world.run(9_000);
        assert_eq!(world.members(), [0, 1, 2, 7, 8].map(name));
        world.goes_on("the clock is right again");
    }
}

/// Fails when such a window delays every view until its time has come (as first written).
#[test]
fn window_begun_an_hour_early_delays_no_view() {
    let mut world = World::grown(1, 0, 3);
    let hour = Timestamp::from_nanos(world.now + 3_600_000 * MS);
    let participant = world.participants.get_mut(&name(1)).unwrap();
    // A single request by a clock that leapt, before any tick could compare it.
    participant.membership.horizon = None;
    assert!(matches!(participant.membership.begin(hour), WindowView::In(_)));
    world.start(&name(7));
    world.run(9_000);
    assert_eq!(world.members(), [0, 1, 2, 7].map(name));
    assert_eq!(world.overlaps(), 1);
}

/// Fails when the mesh that is older by its clock wins (as first written).
#[test]
fn mesh_founded_in_1970_does_not_win_over_three_nodes() {
    for seed in 0..20 {
        let mut world = World::new(seed, 0);
        world.cut = Some((vec![name(0)], false));
        (0..4).for_each(|index| world.start(&name(index)));
        let now = i64::try_from(world.now).unwrap();
        let participant = world.participants.get_mut(&name(0)).unwrap();
        participant.skew = -now + 1_000_000_000;
        participant.membership.started = Timestamp::EPOCH;
        world.run_unchecked(8_000);
        let root = world.participants[&name(2)].membership.root().cloned();
        assert!(world.participants[&name(0)].membership.root() < root.as_ref(), "it is older by its clock");
        world.cut = None;
        world.run_unchecked(10_000);
        assert_eq!(world.members(), [0, 1, 2, 3].map(name), "seed {seed}");
        assert!(
            world.participants.values().all(|participant| participant.membership.root() == root.as_ref()),
            "seed {seed}"
        );
    }
}

/// Fails when observers keep the views of a mesh without living members (as first written).
#[test]
fn observers_of_a_dead_mesh_found_another() {
    for restarts in [false, true] {
        let mut world = World::new(5, 0);
        world.start(&name(0));
        world.run(1_500);
        world.start(&name(1));
        world.start(&name(2));
        while world.participants[&name(1)].membership.head().is_none() {
            world.run(1);
        }
        assert!(!world.participants[&name(1)].membership.is_member());
        world.kill(&name(0));
        if restarts {
            world.start(&name(0)); // Its last generation was the only member.
        } else {
            world.discovery_knows(&[1, 2].map(name));
        }
        world.run_unchecked(15_000);
        world.goes_on("founded again");
        assert_eq!(world.members(), world.living());
    }
}

/// Each side of a cut receives and lists only itself: a name that was never listed does not become dead by its
/// absence.
///
/// Fails when a silent node that is not listed is dead (as first written).
#[test]
fn short_discovery_lists_never_split_a_view() {
    for seed in 0..20 {
        let mut world = World::new(seed, 0);
        for (index, listed) in [(0, [0, 1]), (1, [0, 1]), (2, [2, 3]), (3, [2, 3])] {
            world.listed = listed.map(name).to_vec();
            world.start(&name(index));
            world.run(1_500);
        }
        world.run(6_000);
        world.agrees_on(&[0, 1, 2, 3]);
        let side = 1 + seed % 3;
        world.cut = Some(((0..side).map(name).collect(), false));
        // Lists arrive again and again, and are as short as before.
        for _ in 0..5 {
            for (index, listed) in [(0, [0, 1]), (1, [0, 1]), (2, [2, 3]), (3, [2, 3])] {
                world.participants.get_mut(&name(index)).unwrap().peers.discover(listed.map(name));
            }
            world.run(3_000);
        }
        assert_eq!(world.members(), [0, 1, 2, 3].map(name), "seed {seed}");
        world.cut = None;
        world.run(3_000);
        world.agrees_on(&[0, 1, 2, 3]);
    }
}
