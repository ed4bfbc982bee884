//! The promise that goes before everything else, over the simulated network: within one view no
//! window admits more than its limit, and no bucket more than one bucket would.

use hivemind_core::Limit;
use hivemind_mesh_sim::{Draw, Rollout, limits, scenarios};

fn long() -> bool {
    std::env::var_os("HIVEMIND_LONG").is_some()
}

fn seeds(quick: u64) -> u64 {
    if long() { quick * 50 } else { quick }
}

/// Seeds that once found something: a bucket that earned in the room that tokens still took up (61, 237), a
/// page that went while it could still be asked for (66, 130), a decision counted for another window (81), a bucket that had
/// been full since what it was given back was spent (7046).
const FOUND: [u64; 6] = [61, 66, 81, 130, 237, 7046];

/// Seen failing on: a return without its debit; a grant for the next window applied to this one, or carried over
/// into the next; returns or grants added instead of the larger one taken; a return of the last window credited
/// to this one; a new run that uses the old one's share, or opens the owner's till again; a page that moves to
/// another view and begins anew there; views that are not compared; lent tokens that take up no room; pages
/// that are swept while in use; and on all that `FOUND` tells of.
#[test]
fn no_window_and_no_bucket_admits_more_than_its_limit_whatever_happens() {
    for scenario in scenarios() {
        // Where everything happens at once a small bucket may be empty at every owner that it comes to.
        let mut nothing = 0;
        for seed in (0..seeds(16)).chain(FOUND) {
            let limits = limits();
            let limit = limits[usize::try_from(seed).unwrap() % limits.len()];
            if scenario.name == "clocks step" && matches!(limit, Limit::TokenBucket(_)) {
                continue; // A clock that is set forward earns what the leap is worth (docs/decisions/005).
            }
            let load = [0.8, 1.5, 6.0][usize::try_from(seed / 8).unwrap() % 3];
            let played = scenario.play(seed, limit, load);
            assert_eq!(played.overlaps, 0, "{} with seed {seed} on {limit}", scenario.name);
            assert_eq!(
                played.over, 0,
                "{} with seed {seed} on {limit}, load {load}: {played:?}",
                scenario.name
            );
            nothing += u64::from(played.admitted == 0);
        }
        assert!(nothing * 200 <= seeds(16), "{}: {nothing} runs admitted nothing", scenario.name);
    }
}

/// Drawn runs that once found something: a split window shared out again where its owner was out of reach (50), a bucket
/// that changed hands and was earned for by two clocks (2837).
const FOUND_DRAWN: [u64; 2] = [50, 2837];

/// Nodes, limit, traffic, costs, network and what happens, all drawn (`sim --seeds A..B` says what was drawn).
#[test]
fn no_run_that_a_seed_can_draw_admits_more_than_it_may() {
    let mut coverage = std::collections::BTreeMap::new();
    let mut large = 0;
    for seed in (0..seeds(100)).chain(FOUND_DRAWN) {
        let draw = Draw::of(seed);
        large += u32::from(draw.nodes >= 30);
        if draw.nodes >= 30 && large > 1 && !long() {
            continue; // One of them takes as long as twenty others.
        }
        draw.count(&mut coverage);
        let played = draw.play();
        assert!(played.over <= draw.allowed(), "seed {seed}: {draw:?}: {played:?}");
        assert_eq!(played.overlaps, 0, "seed {seed}: {draw:?}: {played:?}");
    }
    // 5 numbers of nodes and more, 7 shapes, 10 happenings, kinds of limits: all of them are drawn.
    assert!(coverage.len() >= 35, "{coverage:?}");
}

#[test]
fn a_seed_plays_the_same_run_bit_for_bit() {
    for scenario in scenarios() {
        let limit = limits()[1];
        assert_eq!(scenario.play(7, limit, 2.0), scenario.play(7, limit, 2.0), "{}", scenario.name);
        assert_ne!(scenario.play(7, limit, 2.0).digest, scenario.play(8, limit, 2.0).digest);
    }
}

/// Slow buckets while a mesh is founded, nodes are restarted in turn, come for a while, crash, and all of it.
///
/// Not yet seen failing: its mutations are in `scripts/mesh-mutations` and were not run.
#[test]
fn no_bucket_that_goes_from_hand_to_hand_admits_more_than_one_and_hardly_less() {
    for rollout in Rollout::ALL {
        let (mut admitted, mut possible) = (0, 0);
        for seed in 0..seeds(8) {
            let came = rollout.play(seed, true);
            // Whoever is cut off and restarted may be taken for dead: that is counted, and a limit may hold twice.
            assert!(came.over == 0 || came.overlaps > 0, "{rollout:?}, seed {seed}: {came:?}");
            (admitted, possible) = (admitted + came.admitted, possible + came.possible);
        }
        let least = match rollout {
            Rollout::Founded | Rollout::Rolling | Rollout::Visited => 95,
            Rollout::Crashed | Rollout::Anything => 40,
        };
        assert!(admitted * 100 >= possible * least, "{rollout:?}: {admitted} of {possible}");
    }
}
