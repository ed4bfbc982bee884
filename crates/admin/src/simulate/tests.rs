use super::rule_values::RuleValues;
use super::time_limit::TimeLimit;
use super::traffic::{self, RawSource, TrafficSource};
use super::{WITHIN, past_bounds, shown};
use hivemind_core::store::OnRefusal;
use hivemind_core::{Clock, Descriptor, Limiter, LimiterOptions, ManualClock, Rules, Timestamp};
use hivemind_engine::replay::{Both, Comparison};
use hivemind_engine::rule_files::{Cancellation, parse_rules};
use hivemind_telemetry::Frontend;
use hivemind_telemetry::redact;
use hivemind_telemetry::ring::{DecisionHead, DecisionRing, DescriptorOutcome};
use std::time::Duration;

fn rules() -> Rules {
    let text = "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: 2}}\n";
    parse_rules("rules.yaml", text).unwrap().ruleset.rules
}

fn comparison(most_counters: usize) -> Comparison {
    Comparison::new(Both { now: rules(), then: rules() }, most_counters, OnRefusal::default())
}

fn time_limit(within: Duration) -> TimeLimit {
    TimeLimit::new(within, Cancellation::default())
}

/// A log with this number of keys.
fn log(names: u32) -> TrafficSource {
    let line = |number| format!("{{\"t_ms\":0,\"domain\":\"d\",\"entries\":[[\"k\",\"{number}\"]]}}\n");
    let text: String = (0..names).map(line).collect();
    let raw: RawSource = serde_json::from_value(serde_json::json!({"log": text, "format": "jsonl"})).unwrap();
    TrafficSource::new(raw, &rules()).unwrap()
}

fn decided(log: &TrafficSource, comparison: &mut Comparison, time_limit: TimeLimit) -> Vec<String> {
    let TrafficSource::UploadedLog(log) = log else { panic!("it is a log") };
    log.decide(comparison, time_limit).unwrap()
}

// Seen failing on: a loop that looks at the clock alone.
#[test]
fn cancelled_simulation_stops_with_a_note() {
    let (cancellation, mut some) = (Cancellation::default(), comparison(10_000));
    drop(cancellation.set_on_drop()); // As the future of a caller that disconnects.
    let notes = decided(&log(1_000), &mut some, TimeLimit::new(WITHIN, cancellation));
    assert!(notes.len() == 1 && some.requests < 1_000, "{notes:?}, {} requests", some.requests);
}

// Seen failing on: a time limit that only the loop over requests checks.
#[tokio::test(start_paused = true)]
async fn simulation_is_cancelled_at_its_time_limit() {
    let cancellation = Cancellation::default();
    let flag = cancellation.clone();
    let computed = async {
        while !flag.is_set() {
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        "ended"
    };
    assert_eq!(super::within(WITHIN, &cancellation, computed).await, "ended");
}

// Fails without a time limit.
#[test]
fn slow_simulation_stops_with_a_note() {
    let (log, mut all, mut some) = (log(1_000), comparison(10_000), comparison(10_000));
    assert!(decided(&log, &mut all, time_limit(WITHIN)).is_empty());
    assert_eq!(all.requests, 1_000);
    let notes = decided(&log, &mut some, time_limit(Duration::ZERO));
    assert_eq!(some.requests, 256, "the clock is read every 256 requests");
    assert_eq!(notes, ["Stopped after 0 s: later requests are omitted."]);
    assert_eq!(shown(&some, &notes)["partial"], notes[0].as_str());
    assert!(time_limit(Duration::ZERO).is_over() && !time_limit(WITHIN).is_over());
}

// Fails without notes.
#[test]
fn exceeded_limits_are_noted() {
    let mut small = comparison(100);
    decided(&log(1_000), &mut small, time_limit(WITHIN));
    let notes = past_bounds(&small, 100);
    assert!(notes.len() == 1 && notes[0].ends_with("because the maximum of 100 was reached."), "{notes:?}");
    small.unnamed = 3;
    assert_eq!(past_bounds(&small, 100)[1], "3 requests belong to keys beyond the listed ones.");
    assert!(past_bounds(&comparison(100), 100).is_empty());
}

/// A ring with decisions, each with its frontend, whether it carried its own limit, and its value.
fn ring(decisions: &[(Frontend, bool, &str)]) -> DecisionRing {
    let ring = DecisionRing::new(100);
    for (millis, (frontend, has_own_limit, value)) in (1..).zip(decisions) {
        let at = Timestamp::from_millis(millis);
        let (entries, head) =
            ([("k", *value)], DecisionHead { at, frontend: *frontend, domain: "d", is_denied: false });
        let part = DescriptorOutcome {
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

// Fails when gateway requests are decided by rules that do not apply to them.
#[test]
fn undecidable_requests_are_omitted_with_a_note() {
    let long = "x".repeat(300);
    let ring = ring(&[
        (Frontend::Grpc, false, "a"),
        (Frontend::Json, false, "a"),
        (Frontend::Gateway, false, "a"),
        (Frontend::Gateway, false, "b"),
        (Frontend::Grpc, true, "a"),
        (Frontend::Grpc, false, &long),
    ]);
    let (mut snapshot, mut all) = (ring.snapshot(), comparison(100));
    let notes = traffic::recent(&snapshot, &RuleValues::default(), &mut all, time_limit(WITHIN));
    assert_eq!(all.requests, 3);
    assert_eq!(
        notes,
        [
            "2 gateway requests are omitted: these rules do not apply to them.",
            "1 requests are omitted, because they carried their own limits.",
            "1 requests have truncated texts: some may stand for several clients, and a rule for the full text does not match them.",
        ]
    );
    snapshot.missed = 7;
    let notes = traffic::recent(&snapshot, &RuleValues::default(), &mut comparison(100), time_limit(WITHIN));
    assert_eq!(
        notes[3],
        "7 decisions since startup were not recorded, because another thread held the ring at that moment."
    );
    let nothing = DecisionRing::new(10).snapshot();
    let nothing = traffic::recent(&nothing, &RuleValues::default(), &mut comparison(10), time_limit(WITHIN));
    assert!(nothing.is_empty());
}

/// A partially recorded request is a different request: it may match another rule, or none.
// Fails when requests are decided without their ninth descriptor, or their ninth entry.
#[test]
fn partially_recorded_request_is_omitted_with_a_note() {
    let ring = DecisionRing::new(100);
    let one = [("k", "a")];
    let part = |entries| DescriptorOutcome {
        entries,
        hits: 1,
        is_over: false,
        rule: None,
        remaining: None,
        has_own_limit: false,
    };
    let head = DecisionHead {
        at: Timestamp::from_millis(1),
        frontend: Frontend::Grpc,
        domain: "d",
        is_denied: false,
    };
    for count in [8, 9] {
        ring.record(&head, vec![part(&one); count].into_iter());
        ring.record(&head, [part(&[("k", "a"); 9][..count])].into_iter());
    }
    let mut all = comparison(100);
    let notes = traffic::recent(&ring.snapshot(), &RuleValues::default(), &mut all, time_limit(WITHIN));
    assert_eq!(all.requests, 2);
    assert_eq!(
        notes[0],
        "2 requests are omitted, because they have more descriptors or entries than are recorded."
    );
}

// Fails when rules are matched against hashes, when each hash adds a note, or when hashes count as truncated.
#[test]
fn credential_rule_matches_its_recorded_hash() {
    const ONE: &str = "sk_live_4eC39HqLyjWDarjtT1zdp7dc";
    let of = |more: &str| {
        let text = format!(
            "domain: d\ndescriptors:\n- {{key: k, rate_limit: {{unit: day, requests_per_unit: 9}}}}\n{more}"
        );
        parse_rules("rules.yaml", &text).unwrap().ruleset.rules
    };
    let for_one = format!("- {{key: k, value: {ONE}, rate_limit: {{unit: day, requests_per_unit: 0}}}}\n");
    let other = "sk_live_9xQ39HqLyjWDarjtT1zdp7dc";
    let ring =
        ring(&[(Frontend::Grpc, false, ONE), (Frontend::Grpc, false, other), (Frontend::Json, false, "ada")]);
    let decided = |then: Rules| {
        let rules = Both { now: of(""), then };
        let named = RuleValues::of([&rules.now, &rules.then]);
        let mut all = Comparison::new(rules, 100, OnRefusal::default());
        let notes = traffic::recent(&ring.snapshot(), &named, &mut all, time_limit(WITHIN));
        (all, notes)
    };
    let (all, notes) = decided(of(&for_one));
    assert_eq!((all.newly_limited, notes), (1, Vec::new()));
    let (who, _) = all.first(9)[0];
    assert_eq!(who.entries[0].1, redact("k", ONE).0, "as in the list of decisions");
    // A hash does not show whether the value matched a pattern: only requests without a whole-value rule are noted.
    let formed = "- {key: k, value: \"sk_live_9*\", rate_limit: {unit: day, requests_per_unit: 0}}\n";
    let (all, notes) = decided(of(&format!("{for_one}{formed}")));
    assert_eq!(all.newly_limited, 1);
    assert!(notes.len() == 1 && notes[0].starts_with("1 requests have a credential"), "{notes:?}");
    let (_, notes) = decided(of(&formed.replace("sk_live_9*", "*")));
    assert!(notes.is_empty(), "{notes:?}");
}

/// Records a decision about `value` on a thread.
fn remember(ring: &DecisionRing, thread: usize, at: Timestamp, value: &str, is_denied: bool) {
    let entries = [("k", value)];
    let part = DescriptorOutcome {
        entries: &entries,
        hits: 1,
        is_over: is_denied,
        rule: Some(0),
        remaining: None,
        has_own_limit: false,
    };
    ring.write(
        thread,
        &DecisionHead { at, frontend: Frontend::Grpc, domain: "d", is_denied },
        [part].into_iter(),
    );
}

// Fails when times are truncated to milliseconds: then a bucket that refills every 250 µs refuses 3 of 4 requests too
// many.
#[test]
fn simulation_of_the_same_rules_matches_what_happened() {
    for limit in
        ["unit: second, requests_per_unit: 4000, burst: 1", "unit: second, requests_per_unit: 30, burst: 7"]
    {
        let text = format!(
            "domain: d\ndescriptors:\n- {{key: k, rate_limit: {{algorithm: token_bucket, {limit}}}}}\n"
        );
        let rules = parse_rules("rules.yaml", &text).unwrap().ruleset.rules;
        let clock = ManualClock::at(Timestamp::from_millis(1_794_855_600_000));
        let limiter = Limiter::with_clock(rules.clone(), clock.clone(), LimiterOptions::default()).unwrap();
        let (ring, mut happened) = (DecisionRing::new(20_000), (0, 0));
        // Edge gaps: exactly the refill time of the faster bucket, one nanosecond less, and some in between.
        for (number, gap) in
            (0..2_000).zip([250_000, 249_999, 1, 250_000, 700_001, 90_000, 33_333_333].iter().cycle())
        {
            clock.advance(Duration::from_nanos(*gap));
            let value = if number % 5 == 0 { "b" } else { "a" };
            let is_denied = !limiter.check("d", &[Descriptor::new(&[("k", value)])]).is_allowed();
            remember(&ring, 0, clock.now(), value, is_denied);
            if is_denied { happened.1 += 1 } else { happened.0 += 1 }
        }
        assert!(happened.0 > 100 && happened.1 > 100, "{happened:?}: both outcomes occur");
        let mut all = Comparison::new(Both { now: rules.clone(), then: rules }, 100, OnRefusal::default());
        let notes = traffic::recent(&ring.snapshot(), &RuleValues::default(), &mut all, time_limit(WITHIN));
        assert!(notes.is_empty(), "{notes:?}");
        assert_eq!((all.total.now.allowed, all.total.now.limited), happened, "{limit}");
        assert_eq!(all.total.now, all.total.then);
    }
}

// Fails without a note, or with one for requests of one thread, of two clients, or of two moments.
#[test]
fn requests_of_unknown_order_are_noted() {
    for (decisions, noted) in [
        (&[(0, 0, "a"), (1, 5, "a")][..], 1),
        (&[(0, 0, "a"), (0, 4, "b"), (1, 5, "a"), (0, 6, "a")], 2),
        (&[(0, 0, "a"), (0, 5, "a")], 0),
        (&[(0, 0, "a"), (1, 5, "b")], 0),
        (&[(0, 0, "a"), (1, 31, "a")], 0),
    ] {
        let ring = DecisionRing::with_shards(100, 2);
        for (thread, micros, value) in decisions {
            remember(&ring, *thread, Timestamp::from_nanos(1_000_000 + micros * 1_000), value, false);
        }
        let notes = traffic::recent(
            &ring.snapshot(),
            &RuleValues::default(),
            &mut comparison(100),
            time_limit(WITHIN),
        );
        let expected = format!("{noted} requests arrived at the same moment as another of the same client");
        assert_eq!(notes.len(), usize::from(noted > 0), "{decisions:?}: {notes:?}");
        assert!(notes.iter().all(|note| note.starts_with(&expected)), "{decisions:?}: {notes:?}");
    }
}
