//! Fuzz targets: one function for each parser of outside bytes. The fuzzer (`fuzz/`) and the tests here call them
//! with the same promises: no input ends the process, and every rejection has a text.

#![expect(
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a broken promise must end the run, so that the fuzzer reports it"
)]

#[cfg(test)]
mod tests;

use crate::admin::answer_json;
use crate::config::parse_rules;
use crate::front::rls::{DecodedRequest, RateLimitService};
use crate::front::websocket::scan;
use crate::proto::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse, rate_limit_response::Code,
};
use crate::replay::{AccessLog, Engine, Lines, Recorded};
use crate::ruleset::Ruleset;
use crate::service::{Asked, HeaderNames, Options, Service};
use crate::storage::Storage;
use hivemind_config::problem::Problem;
use hivemind_core::store::{KeySeed, MemoryStore, OnRefusal, StoreOptions};
use hivemind_core::{Clock, Descriptor, Matcher, SystemClock};
use hivemind_telemetry::Frontend;
use hivemind_telemetry::{Stats, exposition};
use prost::Message;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const RULES: &str = include_str!("../../../fuzz/seeds/rule_file/every_key.yaml");

static RULESET: LazyLock<Ruleset> = LazyLock::new(|| match parse_rules("rules", RULES) {
    Ok(loaded) => loaded.ruleset,
    Err(problems) => panic!("{problems}"),
});

/// Bytes as a rule file: the result is usable rules, or printable problems.
pub fn rule_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match parse_rules("any.yaml", text) {
        Ok(loaded) => {
            loaded.warnings.iter().for_each(shown);
            ask_each_rule(loaded.ruleset);
        }
        Err(problems) => {
            assert!(!problems.0.is_empty(), "rejected without a reason");
            problems.0.iter().for_each(shown);
            assert!(problems.to_string().ends_with("nothing was loaded"));
        }
    }
}

fn shown(problem: &Problem) {
    let text = problem.to_string();
    assert!(text.contains("any.yaml"), "a problem without its file: {text}");
}

/// One request for each rule: it matches by its own value, or by that of an earlier rule.
fn ask_each_rule(ruleset: Ruleset) {
    assert_eq!(ruleset.extras.len(), ruleset.rules.declarations().count(), "extras belong to declarations");
    let asked: Vec<(String, Vec<Matcher>)> =
        ruleset.rules.declarations().map(|(domain, path, _)| (domain.to_owned(), path.to_vec())).collect();
    let service = service(ruleset, options());
    for (domain, path) in asked {
        let entries: Vec<(&str, &str)> =
            path.iter().map(|matcher| (matcher.key(), matcher.value().unwrap_or("any"))).collect();
        let descriptors = [Descriptor::new(&entries)];
        let metadata = Default::default;
        let asked = Asked {
            domain: &domain,
            descriptors: &descriptors,
            metadata: &metadata,
            now: SystemClock.now(),
            frontend: Frontend::Grpc,
        };
        let statuses = service.0.decide_at_once(&asked, None, |answer| answer.statuses.len());
        assert_eq!(statuses, Some(1));
        service.0.with_rules(|rules| {
            assert_eq!(rules.explain(&domain, &entries).steps.len(), entries.len(), "{domain} {entries:?}");
        });
    }
    assert!(exposition(&service.0.stats().families(store().occupancy())).ends_with('\n'));
}

/// Bytes as a message: our codec and prost accept or reject the same bytes, and read the same values. Returns whether
/// they accept.
#[must_use]
pub fn rls_codec(bytes: &[u8]) -> bool {
    let (ours, theirs) = (DecodedRequest::decode(bytes), RateLimitRequest::decode(bytes));
    let (ours, theirs) = match (ours, theirs) {
        (Ok(ours), Ok(theirs)) => (ours, theirs),
        (Err(_), Err(_)) => return false,
        (ours, theirs) => panic!("ours: {ours:?}, prost: {theirs:?}, of {bytes:02x?}"),
    };
    assert_eq!((ours.domain, ours.hits_addend), (&*theirs.domain, theirs.hits_addend), "{bytes:02x?}");
    assert_eq!(ours.count(), theirs.descriptors.len(), "{bytes:02x?}");
    for ((entries, decoded), descriptor) in ours.raw_descriptors().zip(&theirs.descriptors) {
        let their_entries = descriptor.entries.iter().map(|entry| (&*entry.key, &*entry.value));
        assert!(entries.iter().copied().eq(their_entries), "{bytes:02x?}");
        let their_limit = descriptor.limit.as_ref().map(|limit| (limit.requests_per_unit, limit.unit));
        assert_eq!(decoded.limit, their_limit, "{bytes:02x?}");
        assert_eq!(decoded.hits_addend, descriptor.hits_addend, "{bytes:02x?}");
        assert_eq!(decoded.is_negative_hits, descriptor.is_negative_hits, "{bytes:02x?}");
    }
    true
}

/// Bytes as a call of the service: a response with a status for each descriptor, encoded as prost encodes it, or an
/// error.
pub fn rls_request(bytes: &[u8]) {
    if !rls_codec(bytes) {
        return;
    }
    let asked = RateLimitRequest::decode(bytes).map_or(0, |request| request.descriptors.len());
    let watching = Options { shadow_mode: true, on_refusal: OnRefusal::CountAll, ..options() };
    let quotas = Options { quota_mode: true, on_refusal: OnRefusal::CountNone, ..options() };
    for options in [options(), watching, quotas] {
        let never_refuses = options.shadow_mode;
        let service = service(RULESET.clone(), options);
        for _ in 0..2 {
            let mut answer = Vec::new();
            match service.try_should_rate_limit(bytes, None, None, &mut answer) {
                Some(Ok(())) => sound(&answer, asked, never_refuses),
                Some(Err(error)) => assert!(!error.to_string().is_empty()),
                None => panic!("the memory store never waits"),
            }
        }
    }
}

fn sound(bytes: &[u8], asked: usize, never_refuses: bool) {
    let Ok(answer) = RateLimitResponse::decode(bytes) else { panic!("prost cannot read {bytes:02x?}") };
    assert_eq!(answer.encode_to_vec(), bytes, "prost encodes {answer:?} differently");
    assert_eq!(answer.statuses.len(), asked);
    assert_ne!(answer.overall_code(), Code::Unknown);
    assert!(!never_refuses || answer.overall_code() == Code::Ok);
    assert!(answer.statuses.iter().all(|status| status.code() != Code::Unknown));
}

/// Bytes as the body of `POST /json`: a response in JSON, or an error.
pub fn json_request(bytes: &[u8]) {
    let service = service(RULESET.clone(), options());
    match now(answer_json(&service, None, bytes, None)) {
        Ok((_, text)) => {
            let answer: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            assert!(answer.get("overallCode").is_some(), "{text}");
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
}

/// Bytes as a recording, in our format and as an access log: each line is decided or rejected.
pub fn replay_line(bytes: &[u8]) {
    let fields = ["remote_address", "remote_user", "method", "path", "status", "referer", "user_agent"];
    let Ok(log) = AccessLog::new("d".into(), &fields.map(str::to_owned)) else { panic!("known fields") };
    let mut engine = Engine::new(RULESET.rules.clone(), 1_000, OnRefusal::default());
    let mut lines = Lines::new(bytes);
    while let Ok(Some(line)) = lines.next() {
        let text = match line.text {
            Ok(text) => text,
            Err(malformed) => {
                assert!(!malformed.to_string().is_empty());
                continue;
            }
        };
        for recorded in [Recorded::from_json(text), log.read(text)] {
            match recorded {
                Ok(recorded) => {
                    let taken = engine.decide(&recorded);
                    assert!(!(taken.allow && taken.retry_after_ms.is_some()), "allowed with a retry-after");
                }
                Err(malformed) => assert!(!malformed.to_string().is_empty()),
            }
        }
    }
}

/// Bytes that a client sends over a WebSocket: however they are split, the same bytes pass, and they are a prefix of
/// the input up to where the gate stops.
pub fn websocket_frames(bytes: &[u8]) {
    let whole = scan([bytes]);
    assert!(bytes.starts_with(&whole.passed), "{bytes:02x?}");
    for size in [1, 2, 3, 7, 13] {
        assert_eq!(scan(bytes.chunks(size)), whole, "in pieces of {size}: {bytes:02x?}");
    }
    assert_eq!(scan([&*whole.passed]).messages, whole.messages, "{bytes:02x?}");
}

/// The result of a future that never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(said) => said,
        Poll::Pending => panic!("the memory store never waits"),
    }
}

fn store() -> MemoryStore {
    MemoryStore::new(StoreOptions { max_keys: 1_000, idle_ttl: Duration::from_secs(300) })
}

pub(crate) fn service(ruleset: Ruleset, options: Options) -> RateLimitService {
    let (storage, stats) = (Storage::in_memory(store()), Arc::new(Stats::default()));
    RateLimitService(Arc::new(Service::new(ruleset, Arc::new(storage), KeySeed::random(), options, stats)))
}

/// All options that can be on.
pub(crate) fn options() -> Options {
    let header = |name: &str| format!("RateLimit-{name}");
    Options {
        enabled: true,
        on_refusal: OnRefusal::CountRefusing,
        shadow_mode: false,
        quota_mode: false,
        near_limit_ratio: 0.8,
        response_headers: Some(HeaderNames {
            limit: header("Limit"),
            remaining: header("Remaining"),
            reset: header("Reset"),
        }),
        dynamic_metadata: true,
        counts: true,
    }
}
