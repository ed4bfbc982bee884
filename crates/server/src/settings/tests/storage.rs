//! Tests of `storage` and `security`: values, warnings, errors, and secrets that must not be printed.

use super::errors::Case;
use super::{toml, warnings, with_variables, yaml};
use hivemind_engine::storage::OnError;
use hivemind_engine::storage::settings::RedisSection;
use hivemind_engine::storage::settings::RedisTopology;
use hivemind_tls::{CertificateFiles, PortFiles};
use std::time::Duration;

pub(super) const MISTAKES: &[Case] = &[
    (
        "storage: {kind: redis}",
        "1:17",
        "`storage.kind: redis` needs the URL of a Redis server",
        "add `redis: {url: redis://",
    ),
    (
        "storage: {on_error: panic}",
        "1:21",
        "`storage.on_error` cannot be `panic`",
        "one of: open, closed, local",
    ),
    (
        "storage: {redis: {topology: ring}}",
        "1:29",
        "`storage.redis.topology` cannot be `ring`",
        "one of: single, cluster, sentinel",
    ),
    (
        "storage: {redis: {url: 'redis://h', topology: sentinel}}",
        "1:47",
        "`topology: sentinel` needs the name of the master",
        "master_name: mymaster",
    ),
    (
        "storage: {redis: {url: 'redis://h', master_name: m}}",
        "1:50",
        "`storage.redis.master_name` is for `topology: sentinel`",
        "leave it out",
    ),
    (
        "storage: {redis: {url: 'redis://h', tls: {ca: a}}}",
        "1:37",
        "the URL does not use TLS",
        "write `rediss://`",
    ),
    (
        "storage: {redis: {url: 'rediss://h', tls: {cert: a}}}",
        "1:50",
        "`storage.redis.tls.cert` needs `key`",
        "set both or neither",
    ),
    (
        "storage: {redis: {url: 'rediss://h', tls: {key: a}}}",
        "1:49",
        "`storage.redis.tls.key` needs `cert`",
        "set both or neither",
    ),
    (
        "storage: {redis: {prefix: 'a*b'}}",
        "1:27",
        "`storage.redis.prefix`: the prefix of Redis keys holds '*'",
        "use letters, digits and `:`, `-`, `_`, `.`, `/`, `~`",
    ),
    ("storage: {redis: {prefix: 'a=b'}}", "1:27", "holds '='", "use letters, digits and"),
    ("storage: {redis: {prefix: 'a b'}}", "1:27", "holds ' '", "use letters, digits and"),
    ("storage: {redis: {prefix: 'a{b}'}}", "1:27", "holds '{'", "use letters, digits and"),
    ("storage: {redis: {timeout_ms: 0}}", "1:31", "a whole number of milliseconds, at least 1", "500"),
    ("storage: {redis: {clock: sun}}", "1:26", "cannot be `sun`", "one of: server, local"),
    ("storage: {redis: {over_cache: 5}}", "1:31", "`storage.redis.over_cache` is true or false", "true"),
];

fn redis(text: &str) -> RedisSection {
    let loaded = yaml(text).unwrap_or_else(|problems| panic!("{problems}"));
    loaded.settings.storage.redis.expect("a Redis")
}

#[test]
fn redis_needs_only_a_url() {
    let redis = redis("storage: {kind: redis, redis: {url: 'redis://h:1'}}");
    let urls: Vec<_> = redis.urls.iter().map(hivemind_engine::storage::settings::RedisUrl::as_str).collect();
    assert_eq!(urls, ["redis://h:1"]);
    assert_eq!(redis.topology, RedisTopology::Single);
    assert_eq!((redis.username, redis.password_file), (None, None));
    assert_eq!(redis.timeout, Duration::from_millis(50));
    assert_eq!(redis.prefix, hivemind_redis::Prefix::default());
    assert!(redis.server_clock && redis.over_cache);
    assert_eq!(redis.lease, None);
}

// Seen failing on: `one_or_list` without the comma of a variable.
#[test]
fn yaml_toml_and_environment_agree() {
    let in_yaml = "
storage:
  kind: redis
  on_error: local
  redis:
    url: [rediss://a:1, rediss://b:2]
    topology: sentinel
    master_name: mymaster
    username: hivemind
    password_file: /run/secrets/redis
    tls: {ca: ca.pem, cert: node.pem, key: node.key}
    timeout_ms: 20
    prefix: shop
    clock: local
    over_cache: false
";
    let in_toml = r#"
[storage]
kind = "redis"
on_error = "local"

[storage.redis]
url = ["rediss://a:1", "rediss://b:2"]
topology = "sentinel"
master_name = "mymaster"
username = "hivemind"
password_file = "/run/secrets/redis"
tls = { ca = "ca.pem", cert = "node.pem", key = "node.key" }
timeout_ms = 20
prefix = "shop"
clock = "local"
over_cache = false
"#;
    let variables = [
        ("HIVEMIND_STORAGE__KIND", "redis"),
        ("HIVEMIND_STORAGE__ON_ERROR", "local"),
        ("HIVEMIND_STORAGE__REDIS__URL", "rediss://a:1,rediss://b:2"),
        ("HIVEMIND_STORAGE__REDIS__TOPOLOGY", "sentinel"),
        ("HIVEMIND_STORAGE__REDIS__MASTER_NAME", "mymaster"),
        ("HIVEMIND_STORAGE__REDIS__USERNAME", "hivemind"),
        ("HIVEMIND_STORAGE__REDIS__PASSWORD_FILE", "/run/secrets/redis"),
        ("HIVEMIND_STORAGE__REDIS__TLS__CA", "ca.pem"),
        ("HIVEMIND_STORAGE__REDIS__TLS__CERT", "node.pem"),
        ("HIVEMIND_STORAGE__REDIS__TLS__KEY", "node.key"),
        ("HIVEMIND_STORAGE__REDIS__TIMEOUT_MS", "20"),
        ("HIVEMIND_STORAGE__REDIS__PREFIX", "shop"),
        ("HIVEMIND_STORAGE__REDIS__CLOCK", "local"),
        ("HIVEMIND_STORAGE__REDIS__OVER_CACHE", "false"),
    ];
    let expected = yaml(in_yaml).unwrap().settings;
    assert_eq!(toml(in_toml).unwrap().settings, expected);
    assert_eq!(with_variables("", &variables).unwrap().settings, expected);
    assert_eq!(expected.storage.on_error, OnError::Local);
    let redis = expected.storage.redis.unwrap();
    assert_eq!(
        redis.topology,
        RedisTopology::Sentinel { master_name: "mymaster".into(), username: None, password_file: None }
    );
    assert_eq!(redis.urls.len(), 2);
    let one = with_variables("storage: {kind: redis}", &[("HIVEMIND_STORAGE__REDIS__URL", "redis://h")]);
    assert_eq!(one.unwrap().settings.storage.redis.unwrap().urls.len(), 1);
}

// Seen failing on: `section.refuse` for `refuse_hidden`, which shows the line.
#[test]
fn password_in_a_redis_url_is_a_warning_and_never_printed() {
    let text = "storage:\n  kind: redis\n  redis:\n    url: redis://:hunter2@h:6379\n";
    let loaded = yaml(text).unwrap();
    let warnings = warnings(&loaded);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(
        warnings[0].starts_with("warning: hivemind.yaml: line 4: there is a password in `storage.redis.url`")
    );
    assert!(warnings[0].contains("set `password_file`"), "{warnings:?}");
    assert!(!format!("{warnings:?} {:?}", loaded.settings).contains("hunter2"), "{loaded:?}");
    for (redis, cause) in [
        ("{url: ['redis://:hunter2@a', 'redis://b']}", "are for `topology: cluster` or `sentinel`"),
        ("{url: 'redis://:hunter2@a', password_file: p}", "both `storage.redis.url` and `password_file`"),
        ("{url: ['redis://:hunter2@a', 'rediss://b'], topology: cluster}", "`storage.redis.url` mixes URLs"),
        ("{url: 'unix:///a?pass=hunter2', topology: cluster}", "cannot be reached by a Unix socket"),
    ] {
        let text = yaml(&format!("storage: {{kind: redis, redis: {redis}}}")).unwrap_err().to_string();
        assert!(text.starts_with("error: hivemind.yaml: line 1: ") && text.contains(cause), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn unused_redis_section_is_a_warning() {
    let loaded = yaml("storage: {redis: {url: 'redis://h'}}").unwrap();
    assert_eq!(loaded.settings.storage.redis, None);
    let warnings = warnings(&loaded);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("`storage.redis` has no effect while `storage.kind` is `memory`"));
}

#[test]
fn key_seed_is_read_from_its_file() {
    let loaded = yaml("security: {key_seed_file: /etc/hivemind/seed}").unwrap();
    assert_eq!(loaded.settings.security.key_seed_file, Some("/etc/hivemind/seed".into()));
    assert!(loaded.warnings.is_empty());
}

#[test]
fn each_port_has_its_own_certificate_and_ca() {
    let text = "security: {grpc_tls: {cert: g.pem, key: g.key, client_ca: g-ca.pem}, metrics_tls: {cert: m.pem, key: m.key}, \
                admin: {tls: {cert: a.pem, key: a.key}, token_file: token}, api_keys_file: keys}";
    let security = yaml(text).unwrap().settings.security;
    let files = |of: &str, client_ca: Option<&str>| {
        let path = |ending: &str| format!("{of}.{ending}").into();
        let certificate = CertificateFiles { cert: path("pem"), key: path("key") };
        Some(PortFiles { certificate, client_ca: client_ca.map(Into::into) })
    };
    assert_eq!(security.grpc_tls, files("g", Some("g-ca.pem")));
    assert_eq!(security.metrics_tls, files("m", None));
    assert_eq!(security.admin_tls, files("a", None));
    assert_eq!(security.token_file, Some("token".into()));
    assert_eq!(security.api_keys_file, Some("keys".into()));
}
