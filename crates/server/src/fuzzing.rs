//! Fuzz targets: one function for each parser of outside bytes. The fuzzer (`fuzz/`) and the tests here call them
//! with the same promises: no input ends the process, and every rejection has a text.

#![expect(
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a broken promise must end the run, so that the fuzzer reports it"
)]

#[cfg(test)]
mod tests;

use hivemind_admin::answer_json;
use hivemind_config::problem::Problem;
use hivemind_core::store::OnRefusal;
use hivemind_core::{Clock, Descriptor, Matcher, SystemClock};
use hivemind_engine::replay::{AccessLogReader, Engine, InputLines, RecordedRequest};
use hivemind_engine::rule_files::parse_rules;
use hivemind_engine::ruleset::Ruleset;
use hivemind_engine::service::DecisionRequest;
use hivemind_engine::testing::{EVERY_KEY, options, service, store};
use hivemind_envoy::rls::RateLimitService;
pub use hivemind_envoy::testing::{rls_codec, rls_request};
use hivemind_gateway::websocket::scan;
use hivemind_telemetry::Frontend;
use hivemind_telemetry::exposition;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

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
        let asked = DecisionRequest {
            domain: &domain,
            descriptors: &descriptors,
            metadata: &metadata,
            now: SystemClock.now(),
            frontend: Frontend::Grpc,
        };
        let statuses = service.decide_at_once(&asked, None, |answer| answer.statuses.len());
        assert_eq!(statuses, Some(1));
        service.with_rules(|rules| {
            assert_eq!(rules.explain(&domain, &entries).steps.len(), entries.len(), "{domain} {entries:?}");
        });
    }
    assert!(exposition(&service.stats().families(store().occupancy())).ends_with('\n'));
}

/// Bytes as the body of `POST /json`: a response in JSON, or an error.
pub fn json_request(bytes: &[u8]) {
    let service = RateLimitService(service(EVERY_KEY.clone(), options()));
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
    let Ok(log) = AccessLogReader::new("d".into(), &fields.map(str::to_owned)) else {
        panic!("known fields")
    };
    let mut engine = Engine::new(EVERY_KEY.rules.clone(), 1_000, OnRefusal::default());
    let mut lines = InputLines::new(bytes);
    while let Ok(Some(line)) = lines.next_line() {
        let text = match line.text {
            Ok(text) => text,
            Err(malformed) => {
                assert!(!malformed.to_string().is_empty());
                continue;
            }
        };
        for recorded in [RecordedRequest::from_json(text), log.read(text)] {
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
