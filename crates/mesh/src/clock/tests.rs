//! Properties of the mesh clock: the error of an offset is at most half of its round trip, and the clock
//! never goes back.

use super::*;
use hivemind_core::testing::cases;
use proptest::collection::vec;
use proptest::prelude::*;

const MILLI: i64 = 1_000_000;
const START: u64 = 1_700_000_000_000_000_000;
const MOST: Duration = Duration::from_millis(50);

/// An exchange with these one-way delays and this hold time, between clocks with this offset.
fn exchange(at: u64, there: u64, held: u64, back: u64, offset: i64) -> Option<Sample> {
    let ours = |moment: u64| Timestamp::from_nanos(START + moment);
    let theirs = |moment: u64| Timestamp::from_nanos((START + moment).saturating_add_signed(offset));
    Sample::of(
        ours(at),
        Duration::from_nanos(held),
        theirs(at + there + held),
        ours(at + there + held + back),
    )
}

fn sample(offset: i64) -> Sample {
    Sample { offset, trip: 0 }
}

fn delay() -> impl Strategy<Value = u64> {
    prop_oneof![0..1_000_000_u64, 0..400_000_000_u64, Just(0)]
}

proptest! {
    #![proptest_config(cases(400))]

    /// Fails when the trip counts as one way, the peer's hold time counts as network time, or the last exchange
    /// is used instead of the shortest.
    #[test]
    fn offset_error_is_at_most_half_the_shortest_trip(
        delays in vec((delay(), delay(), delay()), 1..30),
        offset in -7_200_000 * MILLI..7_200_000 * MILLI,
    ) {
        let mut exchanges = Exchanges::default();
        let mut trips = Vec::new();
        for (there, held, back) in delays {
            exchanges.hear(exchange(trips.len() as u64 * 1_000_000_000, there, held, back, offset).unwrap());
            trips.push(there + back);
            let shortest = *trips.iter().rev().take(EXCHANGES).min().unwrap();
            let best = exchanges.best().unwrap();
            prop_assert_eq!(best.trip, shortest);
            prop_assert!(best.offset.abs_diff(offset) <= shortest / 2 + 1, "{:?} of {}", best, offset);
        }
    }

    /// For any steps of the own clock and any other clocks. Fails when a step back is not compensated (it stood
    /// still, or without `reached` it went back), or a second's adjustment is unbounded.
    #[test]
    fn mesh_clock_advances_whatever_the_local_clock_does(
        ticks in vec((prop_oneof![8 => 1..20 * MILLI, 1 => -59_000 * MILLI..0, 1 => 0..3_000 * MILLI], any::<i32>()), 1..200),
    ) {
        let mut clock = MeshClock::default();
        let mut local = START;
        clock.tick(Timestamp::from_nanos(local), sample(0), MOST);
        let mut last = clock.at(Timestamp::from_nanos(local));
        for (step, other) in ticks {
            local = local.saturating_add_signed(step);
            let now = Timestamp::from_nanos(local);
            // Between two ticks, too.
            prop_assert!(clock.at(now) >= last);
            let set_by = clock.tick(now, sample(i64::from(other)), MOST);
            prop_assert!(set_by == 0 || set_by == step);
            prop_assert!(step > -100 * MILLI || set_by == step);
            let shows = clock.at(now);
            prop_assert!(shows >= last, "{} by {}", shows.as_nanos(), last.as_nanos());
            if step > 0 && step <= 20 * MILLI && set_by == 0 && shows > last {
                let passed = i64::try_from(shows.as_nanos() - last.as_nanos()).unwrap();
                prop_assert!(passed <= step + step / 20 + 1);
            }
            last = shows;
        }
    }

    /// Nodes that receive each other's frames agree on the median. Fails when the node's own clock is left out.
    #[test]
    fn all_nodes_compute_the_same_median(clocks in vec(-5_000 * MILLI..5_000 * MILLI, 1..12)) {
        let middles = clocks.iter().enumerate().map(|(me, mine)| {
            let others = clocks.iter().enumerate().filter(|(other, _)| *other != me);
            mine + middle(others.map(|(_, theirs)| sample(theirs - mine))).offset
        });
        let middles: Vec<i64> = middles.collect();
        prop_assert!(middles.iter().all(|middle| middle.abs_diff(middles[0]) <= 1), "{:?}", middles);
    }

    /// Fails when sums may overflow.
    #[test]
    fn arbitrary_times_cause_no_panic(
        heard in any::<u64>(), trip in 0..9_u64, held in 0..9_u64, theirs in any::<u64>(), slews in any::<(i64, i64)>(),
    ) {
        let (sent_at, heard) = (Timestamp::from_nanos(heard.saturating_sub(trip)), Timestamp::from_nanos(heard));
        if let Some(sample) = Sample::of(sent_at, Duration::from_nanos(held), Timestamp::from_nanos(theirs), heard) {
            let mut exchanges = Exchanges::default();
            exchanges.hear(sample.moved(slews.0, slews.1));
            exchanges.hear(sample);
            exchanges.move_ours(slews.0);
            let mut clock = MeshClock { slew: slews.1, ..MeshClock::default() };
            clock.tick(heard, middle(exchanges.best()), MOST);
            clock.tick(sent_at, middle(exchanges.best()), MOST);
        }
    }
}

/// Fails when clocks within the tolerance are adjusted.
#[test]
fn clock_slews_by_a_twentieth_and_ignores_ten_ms() {
    // The distance of the median, the seconds elapsed, and the least and greatest adjustment, in milliseconds.
    for (middle, seconds, least, most) in [
        (9, 60, 0, 0),
        (-9, 60, 0, 0),
        (200, 1, 49, 50),
        (200, 10, 197, 200),
        (-2_000, 20, -1_000, -999),
        (-2_000, 60, -2_000, -1_997),
    ] {
        let mut clock = MeshClock::default();
        for tick in 0..=seconds * 100 {
            clock.tick(Timestamp::from_nanos(START + tick * 10_000_000), sample(middle * MILLI), MOST);
        }
        assert!((least * MILLI..=most * MILLI).contains(&clock.slew), "{middle} ms: {} ns", clock.slew);
    }
}

/// An offset within half a trip may be an effect of the network and causes no adjustment. Fails when the bound
/// ignores the trip.
#[test]
fn offset_within_half_a_trip_moves_no_clock() {
    let mut clock = MeshClock::default();
    for tick in 0..500 {
        let asymmetric = Sample { offset: 40 * MILLI, trip: 90_000_000 };
        clock.tick(Timestamp::from_nanos(START + tick * 10_000_000), asymmetric, MOST);
    }
    assert_eq!(clock.slew, 0);
}

/// Fails when old exchanges are kept, of which the shortest refers to a clock that was set since.
#[test]
fn set_clock_is_detected_by_the_next_exchange() {
    let mut exchanges = Exchanges::default();
    exchanges.hear(exchange(0, 100_000, 0, 100_000, 0).unwrap());
    exchanges.hear(exchange(1_000_000_000, 20_000_000, 0, 20_000_000, 700 * MILLI).unwrap());
    assert_eq!(exchanges.best().unwrap().offset, 700 * MILLI);
}

/// Fails when a set-back of any length is compensated, which leaves the clock an hour ahead for a day.
#[test]
fn clock_set_back_over_a_minute_is_followed() {
    let mut clock = MeshClock::default();
    let hour = Timestamp::from_nanos(START + 3_600_000_000_000);
    clock.tick(hour, sample(0), MOST);
    let now = Timestamp::from_nanos(START);
    assert_eq!(clock.at(now), hour, "not before a tick");
    clock.tick(now, sample(0), MOST);
    assert_eq!(clock.at(now), now);
}
