use super::patience::Patience;
use super::traffic::{self, RawSource, Source};
use super::{WITHIN, past_bounds, shown};
use crate::config::parse_rules;
use crate::replay::{Both, Comparison};
use crate::telemetry::ring::{DecisionRing, Door, Head, Part};
use hivemind_core::store::OnRefusal;
use hivemind_core::{Rules, Timestamp};
use std::time::Duration;

fn rules() -> Rules {
    let text = "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: 2}}\n";
    parse_rules("rules.yaml", text).unwrap().ruleset.rules
}

fn comparison(most_counters: usize) -> Comparison {
    Comparison::new(Both { now: rules(), then: rules() }, most_counters, OnRefusal::default())
}

/// A log of so many names.
fn log(names: u32) -> Source {
    let line = |number| format!("{{\"t_ms\":0,\"domain\":\"d\",\"entries\":[[\"k\",\"{number}\"]]}}\n");
    let text: String = (0..names).map(line).collect();
    let raw: RawSource = serde_json::from_value(serde_json::json!({"log": text, "format": "jsonl"})).unwrap();
    Source::new(raw, &rules()).unwrap()
}

fn decided(log: &Source, comparison: &mut Comparison, patience: Patience) -> Vec<String> {
    let Source::Log(log) = log else { panic!("it is a log") };
    log.decide(comparison, patience).unwrap()
}

// Seen failing on: patience without an end.
#[test]
fn what_takes_too_long_ends_and_says_that_later_requests_are_left_out() {
    let (log, mut all, mut some) = (log(1_000), comparison(10_000), comparison(10_000));
    assert!(decided(&log, &mut all, Patience::new(WITHIN)).is_empty());
    assert_eq!(all.requests, 1_000);
    let notes = decided(&log, &mut some, Patience::new(Duration::ZERO));
    assert_eq!(some.requests, 256, "it looks at the clock now and then");
    assert_eq!(notes, ["Ended after 0 s: later requests are left out."]);
    assert_eq!(shown(&some, &notes)["partial"], notes[0].as_str());
    assert!(Patience::new(Duration::ZERO).is_over() && !Patience::new(WITHIN).is_over());
}

// Seen failing on: no notes.
#[test]
fn what_there_was_no_room_for_is_told() {
    let mut small = comparison(100);
    decided(&log(1_000), &mut small, Patience::new(WITHIN));
    let notes = past_bounds(&small, 100);
    assert!(notes.len() == 1 && notes[0].ends_with("for want of room for more than 100."), "{notes:?}");
    small.unnamed = 3;
    assert_eq!(past_bounds(&small, 100)[1], "3 requests are of names past those that are told one by one.");
    assert!(past_bounds(&comparison(100), 100).is_empty());
}

/// A ring with these decisions: by which door, with a limit of its own or not, of which value.
fn ring(decisions: &[(Door, bool, &str)]) -> DecisionRing {
    let ring = DecisionRing::new(100);
    for (millis, (door, has_own_limit, value)) in (1..).zip(decisions) {
        let at = Timestamp::from_millis(millis);
        let (entries, head) = ([("k", *value)], Head { at, door: *door, domain: "d", is_denied: false });
        let part = Part {
            entries: &entries,
            hits: 1,
            is_over: false,
            rule: None,
            remaining: None,
            has_own_limit: *has_own_limit,
        };
        ring.record(&head, [part].into_iter());
    }
    ring
}

// Seen failing on: requests to the gateway decided by rules that are not theirs.
#[test]
fn what_the_rules_do_not_decide_is_left_out_and_told() {
    let long = "x".repeat(300);
    let ring = ring(&[
        (Door::Grpc, false, "a"),
        (Door::Json, false, "a"),
        (Door::Gateway, false, "a"),
        (Door::Gateway, false, "b"),
        (Door::Grpc, true, "a"),
        (Door::Grpc, false, &long),
    ]);
    let (mut snapshot, mut all) = (ring.copied(), comparison(100));
    let notes = traffic::recent(&snapshot, &mut all, Patience::new(WITHIN));
    assert_eq!(all.requests, 3);
    assert_eq!(
        notes,
        [
            "2 requests to the gateway are left out: these rules do not decide them.",
            "1 requests are left out that brought limits of their own.",
            "1 requests are longer than what is kept of them: some names may stand for several.",
        ]
    );
    snapshot.missed = 7;
    let notes = traffic::recent(&snapshot, &mut comparison(100), Patience::new(WITHIN));
    assert_eq!(notes[3], "7 decisions since the start are not kept: somebody read at that moment.");
    let nothing =
        traffic::recent(&DecisionRing::new(10).copied(), &mut comparison(10), Patience::new(WITHIN));
    assert!(nothing.is_empty());
}
