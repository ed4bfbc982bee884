//! Tests that the defaults in the schema, and so on the page, are those of the code. Each key is compared in a file
//! that sets it and in one that does not.

use super::super::configuration_schema as configuration;
use super::super::gateway::{GatewaySettings, IpGuard, WebSocketSettings};
use super::{LoadedSettings, Problems, Settings, yaml};
use hivemind_config::reference;
use hivemind_config::reference::CONFIGURATION;
use hivemind_tower::{LimitKind, PartialLimit, RateLimiter};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Files in which a key has an effect, by prefix of its path; the last match is used. In an unused section any value
/// would pass for the default.
const FILES: &[(&str, &str)] = &[
    ("", "{}"),
    ("rate_limiting.response_headers.", r#"{"rate_limiting": {"response_headers": {"enabled": true}}}"#),
    (
        "storage.",
        r#"{"storage": {"redis": {"url": "redis://192.0.2.1"}}, "mesh": {"tls": {"ca": "a", "cert": "b", "key": "c"}}}"#,
    ),
    ("storage.redis.", r#"{"storage": {"kind": "redis", "redis": {"url": "redis://192.0.2.1"}}}"#),
    ("storage.redis.topology", r#"{"storage": {"kind": "redis", "redis": {"url": "redis://192.0.2.1"}}}"#),
    ("storage.redis.master_name", SENTINELS),
    ("storage.redis.sentinel_", SENTINELS),
    (
        "storage.redis.lease.",
        r#"{"storage": {"kind": "redis", "redis": {"url": "redis://192.0.2.1", "lease": {"enabled": true}}}}"#,
    ),
    (
        "storage.redis.tls.",
        r#"{"storage": {"kind": "redis", "redis": {"url": "rediss://192.0.2.1", "tls": {"cert": "a", "key": "b"}}}}"#,
    ),
    ("mesh.", r#"{"storage": {"kind": "mesh"}, "mesh": {"tls": {"ca": "a", "cert": "b", "key": "c"}}}"#),
    ("gateway.", GATEWAY),
    (
        "gateway.platform.scope",
        r#"{"gateway": {"services": [{"id": "app", "upstream": "http://192.0.2.1"}]}}"#,
    ),
    (
        "gateway.services[].upstream_ca",
        r#"{"gateway": {"services": [{"id": "app", "upstream": "https://192.0.2.1"}]}}"#,
    ),
    (
        "gateway.services[].endpoints",
        r#"{"gateway": {"services": [{"id": "app", "upstream": "http://192.0.2.1", "endpoints": [{"id": "e", "path": "/e"}]}]}}"#,
    ),
    (
        "gateway.tls.",
        r#"{"gateway": {"tls": {"cert": "a", "key": "b"}, "services": [{"id": "app", "upstream": "http://192.0.2.1"}]}}"#,
    ),
    (
        "gateway.tls.certificates",
        r#"{"gateway": {"tls": {"certificates": [{"cert": "a", "key": "b"}]}, "services": [{"id": "app", "upstream": "http://192.0.2.1"}]}}"#,
    ),
    (
        "gateway.tls.acme.",
        r#"{"gateway": {"tls": {"acme": {"domains": ["a.example"], "cache": "b"}}, "services": [{"id": "app", "upstream": "http://192.0.2.1"}]}}"#,
    ),
    ("security.grpc_tls.", r#"{"security": {"grpc_tls": {"cert": "a", "key": "b"}}}"#),
    ("security.metrics_tls.", r#"{"security": {"metrics_tls": {"cert": "a", "key": "b"}}}"#),
    ("security.admin.tls.", r#"{"security": {"admin": {"tls": {"cert": "a", "key": "b"}}}}"#),
    (
        "observability.otel.metrics.",
        r#"{"observability": {"otel": {"metrics": {"endpoint": "http://192.0.2.1"}}}}"#,
    ),
    (
        "observability.otel.tracing.",
        r#"{"observability": {"otel": {"tracing": {"endpoint": "http://192.0.2.1"}}}}"#,
    ),
];
const GATEWAY: &str = r#"{"gateway": {"services": [{"id": "app", "upstream": "http://192.0.2.1"}]}}"#;
const SENTINELS: &str = r#"{"storage": {"kind": "redis", "redis": {"url": "redis://192.0.2.1", "topology": "sentinel", "master_name": "a"}}}"#;

/// Every key of the schema that is not a section, by its path.
fn keys() -> BTreeMap<String, Value> {
    fn add(path: &str, schema: &Value, found: &mut BTreeMap<String, Value>) {
        let with_keys = |of: &&Value| of.get("properties").is_some();
        let any = schema["anyOf"].as_array().into_iter().flatten().find(with_keys);
        if let Some(items) = Some(&schema["items"]).filter(with_keys) {
            return add(&format!("{path}[]"), items, found);
        }
        let Some(section) = Some(schema).filter(with_keys).or(any) else {
            if schema.get("deprecated").is_none() {
                found.insert(path.to_owned(), schema.clone());
            }
            return;
        };
        for (name, below) in section["properties"].as_object().unwrap() {
            add(&if path.is_empty() { name.clone() } else { format!("{path}.{name}") }, below, found);
        }
    }
    let mut found = BTreeMap::new();
    add("", &configuration(), &mut found);
    found
}

/// A file in which the key would have an effect, without the key.
fn without(path: &str) -> Value {
    let (_, text) = FILES.iter().rfind(|(start, _)| path.starts_with(start)).unwrap();
    let mut file = serde_json::from_str(text).unwrap();
    if let Some(section) = path.strip_suffix(".delay_after") {
        file = with(&file, &format!("{section}.mode"), &json!("delay"));
    }
    let (section, key) = path.rsplit_once('.').unwrap();
    if let Some(fields) = section_of(&mut file, section) {
        fields.remove(key);
    }
    file
}

/// The same file with the key set to this value.
fn with(file: &Value, path: &str, value: &Value) -> Value {
    let mut file = file.clone();
    let (section, key) = path.rsplit_once('.').unwrap();
    section_of(&mut file, section).unwrap().insert(key.to_owned(), value.clone());
    file
}

/// The section of a file, created if absent; of a list, its first item.
fn section_of<'f>(file: &'f mut Value, path: &str) -> Option<&'f mut Map<String, Value>> {
    let section = path.split('.').fold(file, |node, name| {
        if let Some(list) = name.strip_suffix("[]") {
            return &mut node[list][0];
        }
        let below = &mut node[name];
        if below.is_null() {
            *below = json!({});
        }
        below
    });
    section.as_object_mut()
}

fn load(file: &Value) -> Result<Settings, Problems> {
    yaml(&file.to_string()).map(|LoadedSettings { settings, .. }| settings)
}

/// The effective values of these settings, with inheritance applied.
fn active_settings(settings: &Settings) -> String {
    let mut settings = settings.clone();
    let Some(GatewaySettings { routing, .. }) = &mut settings.gateway else {
        return format!("{settings:#?}");
    };
    let limits = routing.limits();
    // Only the resolved limits show it.
    let closed = format!("{limits:?}").matches("close_4429: true").count();
    let effective = RateLimiter::new(limits).unwrap().effective_limits();
    let effective = effective.iter().map(|limit| {
        (&limit.service, &limit.endpoint, limit.kind, limit.limit, limit.dry_run, limit.delay_after)
    });
    let effective = format!("{:#?}", effective.collect::<Vec<_>>());
    let platform = &mut routing.platform;
    (platform.limit, platform.ip_guard) = (PartialLimit::new(), IpGuard::Usual);
    platform.websocket = WebSocketSettings::default();
    for service in &mut routing.services {
        (service.limit, service.websocket) = (PartialLimit::new(), WebSocketSettings::default());
        service.endpoints.iter_mut().for_each(|endpoint| endpoint.limit = PartialLimit::new());
    }
    format!("{settings:#?}\n{effective}\n{closed}")
}

/// Candidate values for a key of this schema, valid and invalid.
fn samples(schema: &Value) -> Vec<Value> {
    let any = [
        json!(7),
        json!(0.5),
        json!(true),
        json!(false),
        json!("7s"),
        json!("9MiB"),
        json!("64KiB"),
        json!(56),
        json!("forwarded"),
        json!("/x"),
        json!("other"),
        json!("192.0.2.7"),
        json!("192.0.2.7:7"),
        json!("https://192.0.2.7/x"),
        json!("mailto:a@example.com"),
        json!(["ip"]),
    ];
    let named = ["enum", "examples"].iter().filter_map(|word| schema[*word].as_array()).flatten();
    let named: Vec<Value> = named.filter(|value| !value.is_null()).cloned().collect();
    let listed = named.iter().map(|value| json!([value])).collect::<Vec<_>>();
    named.into_iter().chain(listed).chain(any).collect()
}

/// The part of the settings without a key that differs from those with it.
fn in_its_place(without: &str, with: &str) -> Vec<String> {
    let (without, with): (Vec<&str>, Vec<&str>) = (without.lines().collect(), with.lines().collect());
    let same = without.iter().zip(&with).take_while(|(a, b)| a == b).count();
    let rest =
        without[same..].iter().rev().zip(with[same..].iter().rev()).take_while(|(a, b)| a == b).count();
    without[same..without.len() - rest].iter().map(|line| line.trim().to_owned()).collect()
}

/// The key of the level above that is inherited when this one is absent.
fn above(path: &str) -> Option<String> {
    let (_, of_service) = path.split_once("gateway.services[].")?;
    let of_service = of_service.strip_prefix("endpoints[].").unwrap_or(of_service);
    let key =
        of_service.strip_prefix("limits.").or(of_service.starts_with("websocket.").then_some(of_service))?;
    Some(format!("gateway.platform.{key}"))
}

/// The key that a key's default refers to, according to the page.
fn inherited() -> BTreeMap<&'static str, &'static str> {
    let keys = keys();
    let rows = reference::rows(CONFIGURATION, "", "");
    let of_keys = rows.into_iter().filter_map(|(key, row)| Some((key, row.default?)));
    of_keys.filter(|(_, default)| keys.contains_key(*default)).collect()
}

// Seen failing on: the schema that had 100 requests in 60s for every limit, one with the platform's defaults at services
// and endpoints, and on the page: `10s` for `server.idle_timeout`, `51` for `storage.redis.timeout_ms`, `16` for
// `mesh.ask_timeout_ms`, `2s` for the messages of a `websocket`.
#[test]
fn schema_defaults_match_the_code() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (path, schema) in keys() {
        let Some(default) = schema.get("default") else { continue };
        count += 1;
        let file = without(&path);
        let force = |file: &Value| load(file).map(|settings| active_settings(&settings));
        let usual = match force(&file) {
            Ok(usual) => usual,
            Err(problems) => {
                wrong.push(format!("{path} has no default: {problems}"));
                continue;
            }
        };
        match force(&with(&file, &path, default)) {
            Ok(same) if same == usual => {}
            Ok(other) => wrong.push(format!("{path} is not {default}: {:?}", in_its_place(&usual, &other))),
            Err(problems) => wrong.push(format!("{path} cannot be {default}: {problems}")),
        }
        // A value inherited from the level above is not a default of this level.
        for above in above(&path)
            .iter()
            .flat_map(|above| samples(&schema).into_iter().map(|value| with(&file, above, &value)))
        {
            let Ok(usual) = force(&above) else { continue };
            if force(&with(&above, &path, default)).is_ok_and(|other| other != usual) {
                wrong.push(format!("{path} is not {default} in {above}"));
            }
        }
        // A key without effect has any default; a key with a single possible value has no effect.
        let one_word = schema["enum"].as_array().is_some_and(|words| words.len() <= 2);
        let differs = |value: &Value| force(&with(&file, &path, value)).is_ok_and(|other| other != usual);
        if !one_word && !samples(&schema).iter().any(differs) {
            wrong.push(format!("{path} has no effect in {file}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(count > 100, "{count} defaults were found");
}

// Seen failing on: – for `gateway.session_cookie` and for `server.grpc_host`, and `gateway.timeouts.response` for the
// `timeouts.idle` of a service.
#[test]
fn key_without_default_is_unset_required_or_inherited() {
    let (inherited, mut wrong) = (inherited(), Vec::new());
    let keys = keys();
    for (path, schema) in keys.iter().filter(|(_, schema)| schema.get("default").is_none()) {
        let file = without(path);
        let set = samples(schema).into_iter().map(|value| (load(&with(&file, path, &value)), value));
        let set: Vec<(Settings, Value)> = set.filter_map(|(set, value)| Some((set.ok()?, value))).collect();
        let Ok(usual) = load(&file) else {
            // The key is required; or no value is valid, as for delayed messages.
            let refused = path.ends_with(".delay_after");
            if set.is_empty() != refused {
                wrong.push(format!("{path}: {} values were accepted in {file}", set.len()));
            }
            continue;
        };
        let usual = format!("{usual:#?}");
        let places = set.iter().map(|(set, _)| in_its_place(&usual, &format!("{set:#?}")));
        let places: Vec<Vec<String>> = places.filter(|lines| !lines.is_empty()).collect();
        let is_none = |line: &String| ["None,", "[],", "{},", "Usual,"].iter().any(|end| line.ends_with(end));
        if let Some(from) = inherited.get(path.as_str()) {
            for (_, value) in &set {
                let file = with(&file, from, value);
                let same = load(&file).map(|settings| settings == load(&with(&file, path, value)).unwrap());
                if same.is_ok_and(|same| !same) {
                    wrong.push(format!("{path} is not {from}"));
                }
            }
        } else if !places.iter().flatten().all(is_none) {
            wrong.push(format!("{path} has a default: {places:?}"));
        }
        if places.is_empty() {
            wrong.push(format!("{path} has no effect in {file}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(inherited.len() >= 9, "{inherited:?}");
}

// Seen failing on: a burst of 100 in the page's sentence.
#[test]
fn page_states_defaults_of_an_open_guard() {
    let guard = |text: &str| {
        let limits = yaml(text).unwrap().settings.gateway.unwrap().routing.limits();
        let limits = RateLimiter::new(limits).unwrap().effective_limits();
        let guard = limits.iter().find(|limit| limit.kind == LimitKind::IpGuard).unwrap().limit;
        (guard.requests(), guard.period().length().as_secs(), guard.burst())
    };
    let of = |platform: &str| {
        format!("gateway: {{platform: {{{platform}}}, services: [{{id: a, upstream: 'http://a'}}]}}")
    };
    assert_eq!(
        guard(&of("requests: 7, burst: 8, window: 9s")),
        (70, 9, 80),
        "ten times the most generous limit"
    );
    let (requests, seconds, burst) = guard(&of("requests: 7, ip_guard: {dry_run: true}"));
    let sentence =
        format!("those it leaves open are {requests} requests in `{seconds}s` and a burst of {burst}.");
    assert!(CONFIGURATION.contains(&sentence), "{sentence}");
}
