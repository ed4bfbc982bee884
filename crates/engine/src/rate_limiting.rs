//! `rate_limiting`: location of the rules, and how they are applied.

use hivemind_config::reader::Section;
use hivemind_config::value_kind::{
    COUNT, FLAG, HEADER, HeaderName, MILLIS, PATH, RATIO, SPAN, ValueKind, count_up_to,
};
use hivemind_core::store::{MemoryStore, OnRefusal};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// Location of the rules, and how they are applied.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own in the file")]
pub struct RateLimiting {
    pub enabled: bool,
    /// A file or a folder; none: the built-in demo rules.
    pub config_path: Option<PathBuf>,
    pub config_reload_interval: Duration,
    pub max_keys: NonZeroUsize,
    pub idle_ttl: Duration,
    pub sweep_interval: Duration,
    pub staleness_threshold: Duration,
    pub on_refusal: OnRefusal,
    pub merge_domains: bool,
    pub shadow_mode: bool,
    pub quota_mode: bool,
    pub near_limit_ratio: f64,
    pub force_start_without_initial_config: bool,
    /// None: responses have no limit headers.
    pub response_headers: Option<ResponseHeaders>,
    pub dynamic_metadata: bool,
}

/// Names of the limit headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHeaders {
    pub limit: HeaderName,
    pub remaining: HeaderName,
    pub reset: HeaderName,
}

const ON_REFUSAL: &[(&str, OnRefusal)] = &[
    ("count_refusing", OnRefusal::CountRefusing),
    ("count_all", OnRefusal::CountAll),
    ("count_none", OnRefusal::CountNone),
];
const MAX_KEYS: NonZeroUsize = NonZeroUsize::new(1_000_000).unwrap();

pub fn read(mut section: Section<'_, '_>) -> RateLimiting {
    let older = section.superseded("local_cache_size", &COUNT, Ok("rate_limiting.max_keys"));
    let max_keys =
        section.read("max_keys", &count_up_to(MemoryStore::MOST_KEYS)).or(older).unwrap_or(MAX_KEYS);
    if max_keys.get() > MemoryStore::MOST_KEYS {
        let cause = format!("`rate_limiting.max_keys` is at most {}", MemoryStore::MOST_KEYS);
        section.refuse("max_keys", cause, "a million keys take 55 MB; choose what your memory holds");
    }
    let mut flag = |key: &str, default: bool| section.read(key, &FLAG).unwrap_or(default);
    let enabled = flag("enabled", true);
    let merge_domains = flag("merge_domains", false);
    let shadow_mode = flag("shadow_mode", false);
    let quota_mode = flag("quota_mode", false);
    let force_start_without_initial_config = flag("force_start_without_initial_config", false);
    let dynamic_metadata = flag("dynamic_metadata", false);
    let mut time =
        |key: &str, kind: &ValueKind<Duration>, default: Duration| section.read(key, kind).unwrap_or(default);
    RateLimiting {
        enabled,
        merge_domains,
        shadow_mode,
        quota_mode,
        force_start_without_initial_config,
        dynamic_metadata,
        config_reload_interval: time("config_reload_interval", &SPAN, Duration::from_secs(60)),
        idle_ttl: time("idle_ttl", &SPAN, Duration::from_secs(300)),
        sweep_interval: time("sweep_interval", &SPAN, Duration::from_secs(60)),
        staleness_threshold: time("staleness_threshold_ms", &MILLIS, Duration::from_millis(500)),
        config_path: section.read("config_path", &PATH),
        max_keys,
        on_refusal: section.choice("on_refusal", ON_REFUSAL).unwrap_or_default(),
        near_limit_ratio: section.read("near_limit_ratio", &RATIO).unwrap_or(0.8),
        response_headers: response_headers(section.section("response_headers")),
    }
}

fn response_headers(mut section: Section<'_, '_>) -> Option<ResponseHeaders> {
    let enabled = section.read("enabled", &FLAG).unwrap_or(false);
    let mut name = |key: &str, default: &str| section.read(key, &HEADER).or_else(|| HeaderName::new(default));
    let limit = name("limit", "RateLimit-Limit");
    let remaining = name("remaining", "RateLimit-Remaining");
    let reset = name("reset", "RateLimit-Reset");
    let headers = ResponseHeaders { limit: limit?, remaining: remaining?, reset: reset? };
    enabled.then_some(headers)
}
