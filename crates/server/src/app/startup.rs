//! Initial state of the service: decision options and the first rules.

use crate::demo::demo_rules;
use crate::reload::{accepted, refused};
use crate::settings::Settings;
use hivemind_engine::health::Health;
use hivemind_engine::rule_files::RuleTexts;
use hivemind_engine::service::{HeaderNames, Options, Service};

pub(super) fn options(settings: &Settings) -> Options {
    let limiting = &settings.rate_limiting;
    let names = limiting.response_headers.as_ref().map(|names| HeaderNames {
        limit: names.limit.as_str().to_owned(),
        remaining: names.remaining.as_str().to_owned(),
        reset: names.reset.as_str().to_owned(),
    });
    #[expect(clippy::cast_possible_truncation, reason = "the reference calculates in single precision")]
    let near_limit_ratio = limiting.near_limit_ratio as f32;
    Options {
        enabled: limiting.enabled,
        on_refusal: limiting.on_refusal,
        shadow_mode: limiting.shadow_mode,
        quota_mode: limiting.quota_mode,
        near_limit_ratio,
        response_headers: names,
        dynamic_metadata: limiting.dynamic_metadata,
        counts: settings.observability.are_metrics_read(),
    }
}

/// Loads the initial rules and returns the fingerprint of their files. Invalid rules end the startup, unless it is
/// forced.
pub(super) fn load_initial_rules(
    settings: &Settings,
    service: &Service,
    health: &Health,
) -> anyhow::Result<Option<u64>> {
    let limiting = &settings.rate_limiting;
    let Some(path) = &limiting.config_path else {
        accepted(service, health, demo_rules()?);
        return Ok(None);
    };
    let texts = RuleTexts::read(path);
    let fingerprint = texts.as_ref().ok().map(RuleTexts::fingerprint);
    match texts.and_then(|texts| texts.parse(limiting.merge_domains)) {
        Ok(loaded) => accepted(service, health, loaded),
        Err(problems) if limiting.force_start_without_initial_config => refused(service, health, &problems),
        Err(problems) => return Err(problems.into()),
    }
    Ok(fingerprint)
}
