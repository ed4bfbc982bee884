//! Reader of one limit; each level of the file may set only some of its fields.

use hivemind_config::reader::Section;
use hivemind_config::value_kind::{AMOUNT, FLAG, NUMBER, SPAN};
use hivemind_tower::{Algorithm, PartialLimit};

const ALGORITHMS: &[(&str, Algorithm)] = &[
    ("token_bucket", Algorithm::TokenBucket),
    ("fixed_window", Algorithm::FixedWindow),
    ("sliding_window", Algorithm::SlidingWindow),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum LimitMode {
    Reject,
    Delay,
}

const MODES: &[(&str, LimitMode)] = &[("reject", LimitMode::Reject), ("delay", LimitMode::Delay)];

/// The fields set at this level; unset fields are inherited from the level below.
pub(super) fn read(section: &mut Section<'_, '_>) -> PartialLimit {
    let mut limit = PartialLimit::new();
    let requests = section.read("requests", &AMOUNT);
    let per_second = section.read("requests_per_second", &AMOUNT);
    let window = section.read("window", &SPAN);
    if let Some(per_second) = per_second {
        for (key, is_there) in [("requests", requests.is_some()), ("window", window.is_some())] {
            if is_there {
                let cause = format!("`{key}` and `requests_per_second` are both set");
                let remedy =
                    "`requests_per_second: N` is short for `requests: N` and `window: 1s`: leave one out";
                section.refuse(key, cause, remedy);
            }
        }
        limit = PartialLimit::per_second(per_second.get());
    }
    limit = requests.map_or(limit, |requests| limit.requests(requests.get()));
    limit = window.map_or(limit, |window| limit.window(window));
    let burst = section.read("burst", &AMOUNT);
    limit = burst.map_or(limit, |burst| limit.burst(burst.get()));
    let algorithm = section.choice("algorithm", ALGORITHMS);
    limit = algorithm.map_or(limit, |algorithm| limit.algorithm(algorithm));
    if burst.is_some() && algorithm.is_some_and(|algorithm| algorithm != Algorithm::TokenBucket) {
        let cause = "`burst` is for `algorithm: token_bucket`, and this limit is a window".to_owned();
        section.refuse("burst", cause, "leave `burst` out, or write `algorithm: token_bucket`");
    }
    let delay_after = section.read("delay_after", &NUMBER);
    let mode = section.choice("mode", MODES);
    limit = match mode {
        Some(LimitMode::Delay) => limit.delay(delay_after.unwrap_or(0)),
        Some(LimitMode::Reject) => limit.reject(),
        None => limit,
    };
    if delay_after.is_some() && mode != Some(LimitMode::Delay) {
        let cause = "`delay_after` has no effect without `mode: delay`";
        section.refuse("delay_after", cause.to_owned(), "add `mode: delay`, or leave it out");
    }
    section.read("dry_run", &FLAG).map_or(limit, |dry_run| limit.dry_run(dry_run))
}
