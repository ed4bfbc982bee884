//! Tests of loading and warnings. Errors, environment, documentation page and properties have their own files.

mod defaults;
mod environment;
mod errors;
mod gateway;
mod gateway_errors;
mod mesh;
mod otel;
mod page;
mod properties;
mod storage;

use super::{LoadedSettings, Problems, Settings, load_settings, parse_settings};
use hivemind_config::source_map::Syntax;
use hivemind_core::store::OnRefusal;
use hivemind_engine::storage::OnError;
use hivemind_telemetry::settings::log::{DecisionFilter, LogFormat, LogLevel};
use hivemind_telemetry::settings::otel::StatusOnLimit;
use std::path::Path;
use std::time::Duration;

const SEED: &str = include_str!("../../tests/data/seed-config.yaml");

/// Tokens of randomly generated files.
const IN_WORDS: &[&str] = &[
    "server",
    "mesh",
    "storage",
    "gateway",
    "services",
    "rate_limiting",
    "otel",
    "observability",
    "host",
    "kind",
    "tls",
    "redis",
    "max_keys",
    "enabled",
    ": ",
    ": ",
    ": ",
    "\n",
    "\n",
    "  ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "=",
    ".",
    "\"",
    "'",
    "&a",
    "*a",
    "<<",
    "!!str ",
    "|",
    ">",
    "---",
    "...",
    "#",
    "0",
    "60s",
    "true",
    "memory",
    "~",
    "\t",
    "é",
];

fn no_variables() -> std::iter::Empty<(String, String)> {
    std::iter::empty()
}

fn yaml(text: &str) -> Result<LoadedSettings, Problems> {
    parse_settings("hivemind.yaml", text, Syntax::Yaml, no_variables())
}

fn toml(text: &str) -> Result<LoadedSettings, Problems> {
    parse_settings("hivemind.toml", text, Syntax::Toml, no_variables())
}

fn with_variables(text: &str, variables: &[(&str, &str)]) -> Result<LoadedSettings, Problems> {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    parse_settings("hivemind.yaml", text, Syntax::Yaml, variables)
}

fn defaults() -> Settings {
    load_settings(None, no_variables()).unwrap().settings
}

fn warnings(loaded: &LoadedSettings) -> Vec<String> {
    loaded.warnings.iter().map(ToString::to_string).collect()
}

#[test]
fn defaults_match_the_architecture() {
    let Settings { server, rate_limiting, storage, mesh, security, observability, gateway } = defaults();
    assert_eq!((gateway, mesh), (None, None));
    assert_eq!(server.grpc.unwrap().to_string(), "127.0.0.1:8081");
    assert_eq!(server.admin.unwrap().to_string(), "127.0.0.1:8080");
    assert_eq!(server.metrics.unwrap().to_string(), "127.0.0.1:9090");
    assert_eq!((server.grpc_uds, server.admin_uds), (None, None));
    assert_eq!(server.shutdown_grace, Duration::from_secs(10));
    assert!(rate_limiting.enabled);
    assert_eq!(rate_limiting.config_path, None);
    assert_eq!(rate_limiting.config_reload_interval, Duration::from_secs(60));
    assert_eq!(rate_limiting.max_keys.get(), 1_000_000);
    assert_eq!(rate_limiting.idle_ttl, Duration::from_secs(300));
    assert_eq!(rate_limiting.sweep_interval, Duration::from_secs(60));
    assert_eq!(rate_limiting.staleness_threshold, Duration::from_millis(500));
    assert_eq!(rate_limiting.on_refusal, OnRefusal::CountRefusing);
    assert!((rate_limiting.near_limit_ratio - 0.8).abs() < f64::EPSILON);
    assert!(!(rate_limiting.merge_domains || rate_limiting.shadow_mode || rate_limiting.quota_mode));
    assert!(!(rate_limiting.force_start_without_initial_config || rate_limiting.dynamic_metadata));
    assert_eq!(rate_limiting.response_headers, None);
    assert_eq!((storage.redis, storage.on_error), (None, OnError::Open));
    assert_eq!(security.key_seed_file, None);
    assert_eq!(observability.log.levels.level, LogLevel::Info);
    assert_eq!(observability.log.format, LogFormat::Auto);
    assert!(observability.are_metrics_read());
    assert_eq!(observability.prometheus_path.unwrap().as_str(), "/metrics");
    assert_eq!(observability.otel.metrics, None);
}

#[test]
fn seed_sample_loads_with_one_warning_per_older_key() {
    let loaded = yaml(SEED).unwrap();
    let mut expected = defaults();
    expected.rate_limiting.config_path = Some("/etc/ratelimit/config.yaml".into());
    expected.rate_limiting.max_keys = 10_000.try_into().unwrap();
    expected.observability.otel.metrics = loaded.settings.observability.otel.metrics.clone();
    let metrics = expected.observability.otel.metrics.as_ref().unwrap();
    assert_eq!(metrics.endpoint.to_string(), "http://otel-collector:4317");
    expected.observability.otel.tracing = loaded.settings.observability.otel.tracing.clone();
    let tracing = expected.observability.otel.tracing.as_ref().unwrap();
    assert_eq!(tracing.destination.endpoint.to_string(), "http://otel-collector:4317");
    assert_eq!((tracing.sample_rate.to_string().as_str(), tracing.on_limit), ("1", StatusOnLimit::Unset));
    assert_eq!(loaded.settings, expected);
    let warned = [
        ("seed:5:1", "`mesh` has no effect unless `storage.kind` is `mesh`"),
        ("seed:10:3", "`mesh.gossip_interval_ms` has no effect"),
        ("seed:13:3", "`mesh.cache_ttl_ms` has no effect"),
        ("seed:17:3", "`rate_limiting.local_cache_size` is now `rate_limiting.max_keys`"),
        ("seed:20:3", "`observability.metrics_enabled` is now `observability.prometheus.enabled`"),
        ("seed:21:3", "`observability.tracing_enabled` is now `observability.otel.tracing.enabled`"),
        ("seed:43:5", "`observability.prometheus.port` is now `server.metrics_port`"),
    ];
    let warnings = warnings(&loaded);
    assert_eq!(warnings.len(), warned.len(), "{warnings:#?}");
    for (warning, (place, text)) in warnings.iter().zip(warned) {
        assert!(warning.starts_with("warning: "), "{warning}");
        assert!(warning.contains(&place.replace("seed", "hivemind.yaml")), "{place} in {warning}");
        assert!(warning.contains(text), "{text} in {warning}");
    }
}

// Seen failing on: `.or(older)` left out in rate_limiting.rs.
#[test]
fn older_key_is_read_unless_the_new_key_is_set() {
    let keys = |text: &str| yaml(text).unwrap().settings.rate_limiting.max_keys.get();
    assert_eq!(keys("rate_limiting: {local_cache_size: 5}"), 5);
    assert_eq!(keys("rate_limiting: {local_cache_size: 5, max_keys: 7}"), 7);
    let port = |text: &str| yaml(text).unwrap().settings.server.metrics.unwrap().port();
    assert_eq!(port("observability: {prometheus: {port: 9191}}"), 9191);
    assert_eq!(port("{observability: {prometheus: {port: 9191}}, server: {metrics_port: 9292}}"), 9292);
    let path = |text: &str| yaml(text).unwrap().settings.observability.prometheus_path;
    assert_eq!(path("observability: {metrics_enabled: false}"), None);
    assert!(path("observability: {metrics_enabled: false, prometheus: {enabled: true}}").is_some());
}

#[test]
fn yaml_and_toml_agree() {
    let in_yaml = "
server: {host: '::1', grpc_port: 0, admin_host: 0.0.0.0, grpc_uds: /run/h.sock, shutdown_grace: 500ms}
rate_limiting:
  config_path: rules/
  idle_ttl: 5m
  max_keys: 1000
  on_refusal: count_all
  near_limit_ratio: 0.5
  shadow_mode: true
  response_headers: {enabled: true, limit: X-RateLimit-Limit}
observability: {log_level: debug, log_format: json, prometheus: {enabled: false}}
";
    let in_toml = r#"
[server]
host = "::1"
grpc_port = 0
admin_host = "0.0.0.0"
grpc_uds = "/run/h.sock"
shutdown_grace = "500ms"

[rate_limiting]
config_path = "rules/"
idle_ttl = "5m"
max_keys = 1_000
on_refusal = "count_all"
near_limit_ratio = 0.5
shadow_mode = true
response_headers.enabled = true
response_headers.limit = "X-RateLimit-Limit"

[observability]
log_level = "debug"
log_format = "json"
prometheus = { enabled = false }
"#;
    let settings = yaml(in_yaml).unwrap().settings;
    assert_eq!(settings, toml(in_toml).unwrap().settings);
    assert_eq!(settings.server.grpc.unwrap().to_string(), "[::1]:0");
    assert_eq!(settings.server.admin.unwrap().to_string(), "0.0.0.0:8080");
    assert_eq!(settings.rate_limiting.idle_ttl, Duration::from_secs(300));
    assert_eq!(settings.rate_limiting.on_refusal, OnRefusal::CountAll);
    assert_eq!(settings.rate_limiting.response_headers.unwrap().limit.as_str(), "X-RateLimit-Limit");
    assert_eq!(settings.observability.prometheus_path, None);
}

#[test]
fn file_extension_selects_toml_or_yaml() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("a.toml", "[server]\ngrpc_port = 7\n"), ("b.conf", "server: {grpc_port: 7}\n")] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let loaded = load_settings(Some(&path), no_variables()).unwrap();
        assert_eq!(loaded.settings.server.grpc.unwrap().port(), 7);
    }
    let missing = load_settings(Some(Path::new("/nowhere/hivemind.yaml")), no_variables()).unwrap_err();
    assert!(missing.to_string().starts_with("error: /nowhere/hivemind.yaml: cannot be read: No such file"));
}

#[test]
fn empty_file_and_sections_have_defaults() {
    for text in ["", " \n", "# nothing\n", "---\n", "server:\nmesh:\nrate_limiting: {max_keys: }\n", "{}"] {
        let loaded = yaml(text).unwrap();
        assert_eq!(loaded.settings, defaults(), "{text:?}");
        assert!(loaded.warnings.is_empty(), "{text:?}");
    }
    assert_eq!(toml("# nothing\n[server]\n").unwrap().settings, defaults());
}

#[test]
fn log_settings_are_read_from_file_and_environment() {
    let file = "observability: {log_levels: [hivemind_mesh=debug, 'h2 = off'], log_decisions: denied,
        log_decisions_sample_rate: 0.1, log_decisions_per_second: 7, log_decisions_values: [path]}";
    let variables = [
        ("HIVEMIND_OBSERVABILITY__LOG_LEVELS", "hivemind_mesh=debug,h2=off"),
        ("HIVEMIND_OBSERVABILITY__LOG_DECISIONS", "denied"),
        ("HIVEMIND_OBSERVABILITY__LOG_DECISIONS_SAMPLE_RATE", "0.1"),
        ("HIVEMIND_OBSERVABILITY__LOG_DECISIONS_PER_SECOND", "7"),
        ("HIVEMIND_OBSERVABILITY__LOG_DECISIONS_VALUES", "path"),
    ];
    let settings = yaml(file).unwrap().settings;
    assert_eq!(settings, with_variables("", &variables).unwrap().settings);
    let log = &settings.observability.log;
    let modules: Vec<(&str, LogLevel)> =
        log.levels.modules.iter().map(|(module, level)| (module.as_str(), *level)).collect();
    assert_eq!(modules, [("h2", LogLevel::Off), ("hivemind_mesh", LogLevel::Debug)]);
    assert_eq!((log.decisions.filter, log.decisions.per_second.get()), (DecisionFilter::Denied, 7));
    for (word, filter) in [
        ("true", DecisionFilter::All),
        ("yes", DecisionFilter::All),
        ("false", DecisionFilter::None),
        ("off", DecisionFilter::None),
    ] {
        let text = format!("observability: {{log_decisions: {word}}}");
        assert_eq!(yaml(&text).unwrap().settings.observability.log.decisions.filter, filter, "{word}");
    }
}
