//! Tests of configuration errors with their places and texts; those of `storage` are in `storage.rs`.

use super::{toml, yaml};

/// Input, line and column, cause, remedy.
pub(super) type Case = (&'static str, &'static str, &'static str, &'static str);

const IN_YAML: &[Case] = &[
    // Syntax errors.
    ("server: [", "1:", "", "this is not YAML as it stands"),
    ("server: {grpc_port: 1}\nserver: {}\n", "2:1", "`server` is there twice", "leave one of the two out"),
    ("- server", "1:1", "the file is a section with keys of its own, and this is a list", "configuration.md"),
    ("server: 5", "1:9", "`server` is a section with keys of its own, and this is a plain value", "its keys"),
    // Keys.
    ("sever: {host: ::1}", "1:1", "unknown section `sever`", "did you mean `server`?"),
    ("server:\n  hots: ::1", "2:3", "unknown key `hots` in `server`", "did you mean `host`?"),
    ("server: {zzzzzzzzzz: 1}", "1:10", "in `server`", "the keys here are: admin_host, admin_port"),
    (
        "server: {max_keys: 1}",
        "1:10",
        "unknown key `max_keys`",
        "belongs elsewhere: `rate_limiting.max_keys`",
    ),
    ("max_keys: 1", "1:1", "unknown section `max_keys`", "belongs elsewhere: `rate_limiting.max_keys`"),
    ("storage: {timeout_ms: 1}", "1:11", "in `storage`", "elsewhere: `storage.redis.timeout_ms`"),
    ("rate_limiting: {mesh: {}}", "1:17", "unknown key `mesh`", "belongs elsewhere: `mesh`"),
    ("domain: d", "1:1", "unknown section `domain`", "this is a file of rules: name it with `--rules`"),
    ("server: {[a]: 1}", "1:10", "a key is a word, and this is a list", "write `key: value`"),
    // Kinds of value.
    ("server: {host: localhost}", "1:16", "`server.host` is an IP address", "`host: 127.0.0.1`"),
    (
        "server: {host: [::1]}",
        "1:16",
        "`server.host` is an IP address, 0.0.0.0 or :: for all of them, and this is a list",
        "as in `host: 127.0.0.1`",
    ),
    (
        "server: {grpc_port: 70000}",
        "1:21",
        "a port from 1 to 65535, 0 for any that is free, or off, and `70000` is not",
        "`grpc_port: 8081`",
    ),
    ("server: {grpc_port: -1}", "1:21", "and `-1` is not", "`grpc_port: 8081`"),
    (
        "server: {grpc_port: \"80\"}",
        "1:21",
        "and this is a text in quotes",
        "without quotes, as in `grpc_port: 8081`",
    ),
    ("server: {grpc_uds: ''}", "1:20", "`server.grpc_uds` is the path of a file, and `` is not", "as in"),
    (
        "server: {shutdown_grace: 10}",
        "1:26",
        "is a duration with its unit (ms, s, m, h or d)",
        "`shutdown_grace: 60s`",
    ),
    ("server: {shutdown_grace: 1.5s}", "1:26", "and `1.5s` is not", "`shutdown_grace: 60s`"),
    ("server: {shutdown_grace: 366d}", "1:26", "at most 365d, and `366d` is not", "60s"),
    ("rate_limiting: {idle_ttl: 0s}", "1:27", "is a duration above 0", "`idle_ttl: 60s`"),
    ("rate_limiting: {max_keys: 0}", "1:27", "is a whole number of at least 1, and `0` is not", "1000"),
    (
        "rate_limiting: {local_cache_size: 0}",
        "1:35",
        "is a whole number of at least 1, and `0` is not",
        "1000",
    ),
    ("rate_limiting: {staleness_threshold_ms: 5ms}", "1:41", "a whole number of milliseconds", "_ms: 500`"),
    ("rate_limiting: {near_limit_ratio: 80}", "1:35", "is a number from 0 to 1, and `80` is not", "0.8"),
    ("rate_limiting: {near_limit_ratio: nan}", "1:35", "is a number from 0 to 1, and `nan` is not", "0.8"),
    (
        "rate_limiting: {shadow_mode: maybe}",
        "1:30",
        "is true or false, and `maybe` is not",
        "shadow_mode: true",
    ),
    (
        "rate_limiting: {on_refusal: count}",
        "1:29",
        "`rate_limiting.on_refusal` cannot be `count`",
        "one of: count_refusing, count_all, count_none",
    ),
    (
        "rate_limiting: {response_headers: {limit: a b}}",
        "1:43",
        "the name of an HTTP header",
        "limit: RateLimit-Limit",
    ),
    (
        "rate_limiting: {response_headers: true}",
        "1:35",
        "`rate_limiting.response_headers` is a section",
        "its keys",
    ),
    (
        "observability: {log_level: loud}",
        "1:28",
        "`observability.log_level` cannot be `loud`",
        "one of: off, error, warn",
    ),
    (
        "observability: {log_levels: [h2=loud]}",
        "1:30",
        "is a module and its level (off, error, warn",
        "hivemind_mesh=debug",
    ),
    (
        "observability: {log_levels: {h2: info}}",
        "1:29",
        "is a list, and this is a map",
        "[hivemind_mesh=debug]",
    ),
    ("observability: {log_decisions: some}", "1:32", "is true, false or denied", "denied"),
    (
        "observability: {log_decisions_values: [path, Set-Cookie]}",
        "1:46",
        "whose values are not secret, and `Set-Cookie` is not",
        "path",
    ),
    ("observability: {log_decisions_per_second: 0}", "1:43", "whole number from 1", "100"),
    ("observability: {log_format: [a]}", "1:29", "cannot be `a list`", "one of: auto, json, text"),
    ("observability: {prometheus: {path: metrics}}", "1:36", "is a path from `/` on", "path: /metrics"),
    ("observability: {otel: {tracing: {exporter: both}}}", "1:44", "cannot be `both`", "one of: otlp"),
    ("observability: {otel: {tracing: {sample_rate: 2}}}", "1:47", "is a number from 0 to 1", "0.8"),
    (
        "observability: {otel: {tracing: {span_status_on_limit: error}}}",
        "1:56",
        "cannot be `error`",
        "one of: unset, ok",
    ),
    ("observability: {otel: {metrics: {endpoint: c:4317}}}", "1:44", "is a URL of http or https", "http://"),
    ("mesh: {bind: 7946}", "1:14", "`mesh.bind` is an IP address and a port", "bind: 192.0.2.1:7946"),
    ("mesh: {bootstrap_peers: [a]}", "1:26", "`mesh.bootstrap_peers` is a host and a port", "peer1"),
    ("mesh: {bootstrap_peers: a:1}", "1:25", "`mesh.bootstrap_peers` is a list", "put it in brackets"),
    (
        "mesh: {node_id: a b}",
        "1:17",
        "`mesh.node_id` is auto, or a name that is valid in a certificate",
        "node-1",
    ),
    ("mesh: {node_id: 192.0.2.1}", "1:17", "`mesh.node_id` is auto, or a name", "node-1"),
    ("mesh: {advertise: 0.0.0.0}", "1:19", "`mesh.advertise` is auto, an IP address", "192.0.2.1:7946"),
    ("mesh: {advertise: pod}", "1:19", "`mesh.advertise` is auto, an IP address", "192.0.2.1:7946"),
    ("mesh: {dns: 'a b'}", "1:13", "`mesh.dns` is a DNS name", "hivemind-mesh."),
    ("mesh: {max_peers: 128}", "1:19", "`mesh.max_peers` is at most 127", "default of 100"),
    ("mesh: {ask_timeout_ms: 0}", "1:24", "a whole number of milliseconds, at least 1", "500"),
    ("mesh: {on_unreachable: panic}", "1:24", "cannot be `panic`", "one of: share, refuse, admit"),
    ("mesh: {tls: {crt: a}}", "1:14", "unknown key `crt` in `mesh.tls`", "`cert`"),
    ("mesh: {bandwidth_limit: 10}", "1:25", "is a size above 0 with its unit", "bandwidth_limit: 10MB"),
    // Contradictions.
    (
        "server: {grpc_port: 8080}",
        "1:21",
        "`server.grpc_port` and `server.admin_port` are both 8080",
        "its own port",
    ),
    ("server: {metrics_host: 0.0.0.0, metrics_port: 8081}", "1:47", "are both 8081", "0 is any that is free"),
    ("server: {grpc_port: off}", "1:21", "there is nothing to run", "add a `gateway`"),
    ("server: {grpc_uds: a, admin_uds: a}", "1:34", "are the same", "give each its own socket"),
    (
        "storage: {kind: mesh}",
        "1:17",
        "a mesh needs certificates, which authenticate its nodes; missing: `mesh.tls.ca`, `mesh.tls.cert`, \
         `mesh.tls.key`",
        "`hivemind certs ca --out ca` once and `hivemind certs node --ca ca --name NAME --out NAME`",
    ),
    (
        "{storage: {kind: mesh}, mesh: {tls: {ca: a, cert: b}}}",
        "1:18",
        "missing: `mesh.tls.key`",
        "certs node",
    ),
    (
        "{server: {grpc_host: 0.0.0.0}, storage: {kind: mesh}, mesh: {bind: '192.0.2.1:8081', tls: {ca: a, cert: b, key: c}}}",
        "1:68",
        "`mesh.bind` and `server.grpc_port` both use port 8081",
        "its own port",
    ),
    // Values that do not exist and must not be ignored silently.
    ("storage: {kind: disk}", "1:17", "`storage.kind` cannot be `disk`", "one of: memory, mesh, redis"),
    (
        "security: {grpc_tls: {cert: a}}",
        "1:12",
        "`security.grpc_tls` needs a certificate and its key",
        "write `cert: FILE` and `key: FILE`",
    ),
    (
        "security: {metrics_tls: {client_ca: a}}",
        "1:12",
        "`security.metrics_tls` needs a certificate and its key",
        "remove the section for plaintext",
    ),
    (
        "security: {admin: {tls: {}}}",
        "1:20",
        "`security.admin.tls` needs a certificate and its key",
        "remove the section for plaintext",
    ),
    ("security: {admin: {token: t}}", "1:20", "unknown key `token` in `security.admin`", "tls, token_file"),
];

const IN_TOML: &[Case] = &[
    ("[server\n", "1:", "", "this is not TOML as it stands"),
    ("[server]\ngrpc_port = 1\ngrpc_port = 2\n", "3:1", "duplicate key", "this is not TOML as it stands"),
    ("[rate_limiting]\nidle_ttl = 300s\n", "2:", "", "`idle_ttl = \"300s\"`"),
    ("[server]\nhots = \"::1\"\n", "2:1", "unknown key `hots` in `server`", "did you mean `host`?"),
    ("[server]\nhost = \"localhost\"\n", "2:8", "is an IP address", "as in `host = \"127.0.0.1\"`"),
    (
        "[server]\ngrpc_port = \"80\"\n",
        "2:13",
        "a text in quotes",
        "without quotes, as in `grpc_port = 8081`",
    ),
    ("[server]\ngrpc_port = 0x1_0000\n", "2:13", "and `65536` is not", "`grpc_port = 8081`"),
    ("[rate_limiting]\nidle_ttl = 1979-05-27\n", "2:12", "is a duration", "`idle_ttl = \"60s\"`"),
    ("server.max_keys = 1\n", "1:8", "unknown key `max_keys`", "elsewhere: `rate_limiting.max_keys`"),
    ("[storage]\nkind = \"mesh\"\n", "2:8", "a mesh needs certificates", "hivemind certs ca"),
];

// Seen failing on: `report_unknown` not called; `clash` without the unspecified address.
#[test]
fn mistake_is_reported_once_with_place_cause_and_remedy() {
    let in_yaml = IN_YAML.iter().chain(super::storage::MISTAKES);
    let yaml = in_yaml.map(|case| (case, "hivemind.yaml", yaml(case.0)));
    let toml = IN_TOML.iter().map(|case| (case, "hivemind.toml", toml(case.0)));
    for ((input, place, cause, remedy), file, result) in yaml.chain(toml) {
        let Err(problems) = result else { panic!("{input} was loaded") };
        let text = problems.to_string();
        assert_eq!(problems.0.len(), 1, "{input}\n{text}");
        assert!(text.starts_with("error: "), "{input}\n{text}");
        let place = format!("{file}:{place}");
        for part in [place.as_str(), cause, remedy] {
            assert!(text.contains(part), "{part} is missing for\n{input}\n{text}");
        }
    }
}

// Seen failing on: problems in the order in which they were found.
#[test]
fn all_mistakes_are_reported_in_file_order() {
    let text = "server:\n  hots: ::1\n  grpc_port: x\nobservability:\n  log_level: loud\nrate_limiting:\n  max_keys: 0\n";
    let problems = yaml(text).unwrap_err();
    let text = problems.to_string();
    let places: Vec<_> =
        ["2:3", "3:14", "5:14", "7:13"].iter().map(|p| text.find(&format!("yaml:{p}"))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} in {text}");
    assert!(text.ends_with("4 problems; nothing was loaded"), "{text}");
}

#[test]
fn mistake_is_displayed_in_its_line() {
    let text = yaml("server:\n  grpc_port: 70000\n").unwrap_err().to_string();
    let expected = "\
error: `server.grpc_port` is a port from 1 to 65535, 0 for any that is free, or off, and `70000` is not
 --> hivemind.yaml:2:14
  |
2 |   grpc_port: 70000
  |              ^^^^^ write it as in `grpc_port: 8081`

1 problem; nothing was loaded";
    assert_eq!(text, expected);
}

#[test]
fn url_with_password_is_never_printed() {
    let text = "storage:\n  redis:\n    url: 'redis:/:hunter2@host'\n";
    let text = yaml(text).unwrap_err().to_string();
    assert!(!text.contains("hunter2"), "{text}");
    assert!(
        text.starts_with("error: hivemind.yaml: line 3: `storage.redis.url` is a URL of redis"),
        "{text}"
    );
}
