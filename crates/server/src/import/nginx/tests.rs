//! Imports, and their notes.

mod notes;
mod protection;

use super::{ImportError, ImportedConfiguration, import};
use crate::settings::load_settings;
use hivemind_gateway::settings::{GatewaySettings, HostHeader, IdentityStep, ServiceSettings};
use hivemind_tower::PartialLimit;
use std::path::Path;
use std::time::Duration;

/// A realistic file.
const WHOLE: &str = include_str!("../../../tests/data/nginx.conf");

/// Imports this text as the main file, together with other files.
fn imported(text: &str, others: &[(&str, &str)]) -> Result<ImportedConfiguration, ImportError> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in others.iter().chain(&[("nginx.conf", text)]) {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    import(&folder.path().join("nginx.conf"))
}

/// The generated section, as `hivemind check` reads it.
fn gateway(text: &str) -> GatewaySettings {
    checked(&imported(text, &[]).unwrap_or_else(|error| panic!("{error}")).yaml)
}

fn checked(yaml: &str) -> GatewaySettings {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hivemind.yaml");
    std::fs::write(&path, yaml).unwrap();
    let loaded = load_settings(Some(&path), std::iter::empty());
    let loaded = loaded.unwrap_or_else(|problems| panic!("{problems}\n{yaml}"));
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    loaded.settings.gateway.unwrap()
}

/// A server with one location, and these directives in `http` and in the location.
fn one(http: &str, location: &str) -> String {
    format!(
        "http {{ {http} server {{ listen 8000; location / {{ {location} proxy_pass http://127.0.0.1:3000; }} }} }}"
    )
}

fn first(text: &str) -> ServiceSettings {
    gateway(text).routing.services.remove(0)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

// Fails when the burst is copied unchanged.
#[test]
fn rate_burst_and_delay_are_converted() {
    let limit =
        |requests, window, burst| PartialLimit::new().requests(requests).window(seconds(window)).burst(burst);
    for (rate, limit_req, expected) in [
        ("10r/s", "zone=a burst=20 nodelay", limit(10, 1, 21).reject()),
        ("10r/s", "zone=a burst=20", limit(10, 1, 21).delay(0)),
        ("10r/s", "zone=a burst=20 delay=8", limit(10, 1, 21).delay(8)),
        ("10r/s", "zone=a burst=20 delay=20", limit(10, 1, 21).reject()),
        ("10r/s", "zone=a", limit(10, 1, 1).reject()),
        ("5r/m", "zone=a burst=2 nodelay", limit(5, 60, 3).reject()),
    ] {
        let zone = format!("limit_req_zone $binary_remote_addr zone=a:10m rate={rate};");
        assert_eq!(
            first(&one(&zone, &format!("limit_req {limit_req};"))).limit,
            expected,
            "{rate} {limit_req}"
        );
    }
}

#[test]
fn unlimited_location_gets_a_very_high_limit() {
    let limit = first(&one("", "")).limit;
    assert_eq!(limit, PartialLimit::new().requests(1_000_000).window(seconds(1)).burst(1_000_000));
}

#[test]
fn inner_block_inherits_missing_directives() {
    let zones = "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s; limit_req_zone $binary_remote_addr zone=b:1m rate=2r/s;";
    let text = format!(
        "http {{ {zones} limit_req zone=a; limit_req_dry_run on; client_max_body_size 8m; proxy_read_timeout 5;
        server {{ location / {{ proxy_pass http://h:1; location /in/ {{ limit_req zone=b burst=3; proxy_pass http://h:2; client_max_body_size 0; }} }} }} }}"
    );
    let gateway = gateway(&text);
    let [outer, inner] = &gateway.routing.services[..] else { panic!("two services") };
    assert_eq!((outer.path_prefix.as_str(), inner.path_prefix.as_str()), ("/", "/in"));
    assert_eq!(outer.limit, PartialLimit::per_second(1).burst(1).reject().dry_run(true));
    assert_eq!(inner.limit, PartialLimit::per_second(2).burst(4).delay(0).dry_run(true));
    assert_eq!((outer.max_body, inner.max_body), (Some(8 << 20), None));
    assert_eq!((outer.timeouts.response, outer.timeouts.idle), (seconds(5), seconds(5)));
}

#[test]
fn locations_become_services_or_endpoints() {
    let text = "limit_req_zone $remote_addr zone=a:1m rate=1r/s; upstream app { server 10.0.0.1:80; server 10.0.0.2; }
    server { server_name shop.example.org .example.com; limit_req zone=a burst=9 nodelay;
      location / { proxy_pass http://app; }
      location /same/ { proxy_pass http://app; }
      location = /login { limit_req zone=a; proxy_pass http://app; }
      location ^~ /other/ { proxy_pass http://10.0.0.9:9000/; proxy_set_header Host $host; }
      location = /elsewhere { proxy_pass https://safe; proxy_ssl_verify on; proxy_ssl_trusted_certificate /ca.pem; }
    }
    server { server_name '*.b.example.org' b2.example.org; location / { proxy_pass http://app; proxy_set_header Host fixed.example.org; } }";
    let gateway = gateway(text);
    let services = &gateway.routing.services;
    let shown: Vec<(&str, &str, Vec<String>)> = services
        .iter()
        .map(|of| {
            (of.id.as_str(), of.path_prefix.as_str(), of.upstreams.iter().map(ToString::to_string).collect())
        })
        .collect();
    let app = || vec!["http://10.0.0.1:80".to_owned(), "http://10.0.0.2:80".to_owned()];
    assert_eq!(
        shown,
        [
            ("shop.example.org", "/", app()),
            ("shop.example.org-other", "/other", vec!["http://10.0.0.9:9000".to_owned()]),
            ("shop.example.org-elsewhere", "/elsewhere", vec!["https://safe:443".to_owned()]),
            ("b.example.org", "/", app()),
        ]
    );
    assert!(services[0].hosts.is_empty(), "the first server accepts any host");
    assert_eq!(services[3].hosts, ["*.b.example.org", "b2.example.org"]);
    assert_eq!(services[0].host_header, HostHeader::Set("app".into()));
    assert_eq!((&services[1].host_header, services[1].strip_prefix), (&HostHeader::Keep, true));
    assert_eq!(services[2].host_header, HostHeader::Upstream);
    assert_eq!(services[2].upstream_ca.as_deref(), Some(Path::new("/ca.pem")));
    assert_eq!(services[3].host_header, HostHeader::Set("fixed.example.org".into()));
    let [login] = &services[0].endpoints[..] else { panic!("one endpoint") };
    assert_eq!((login.id.as_str(), login.path.as_str(), login.methods.len()), ("login", "/login", 0));
    assert_eq!(login.limit, PartialLimit::per_second(1).burst(1).reject());
}

#[test]
fn zone_keys_become_client_identities() {
    for (key, steps, cookie) in [
        ("$binary_remote_addr", &[IdentityStep::Ip][..], "hivemind_session"),
        ("$remote_addr", &[IdentityStep::Ip], "hivemind_session"),
        ("${binary_remote_addr}$server_name", &[IdentityStep::Ip], "hivemind_session"),
        ("$http_authorization", &[IdentityStep::Bearer, IdentityStep::Ip], "hivemind_session"),
        ("$http_x_api_key_id", &[IdentityStep::ApiKey, IdentityStep::Ip], "hivemind_session"),
        ("$cookie_sid", &[IdentityStep::Session, IdentityStep::Ip], "sid"),
    ] {
        let text = one(&format!("limit_req_zone {key} zone=a:1m rate=1r/s;"), "limit_req zone=a;");
        let clients = gateway(&text).front.clients;
        assert_eq!((&clients.identity[..], clients.session_cookie.as_str()), (steps, cookie), "{key}");
    }
}

#[test]
fn listeners_certificates_and_redirect_are_converted() {
    let text = "server { listen 80; listen [::]:80; server_name a.org; return 301 https://$host$request_uri; }
    server { listen 443 ssl http2; listen [::]:443 ssl; server_name a.org; ssl_certificate /a.crt; ssl_certificate_key /a.key;
      ssl_protocols TLSv1.3; location / { proxy_pass http://h; } }
    server { listen 443 ssl; server_name b.org; ssl_certificate /b.crt; ssl_certificate_key /b.key; location / { proxy_pass http://h; } }
    set_real_ip_from 10.0.0.0/8; set_real_ip_from 2001:db8::/32; real_ip_header X-Forwarded-For; real_ip_recursive on;";
    let GatewaySettings { front, routing } = gateway(text);
    assert_eq!(front.listen.to_string(), "[::]:443");
    let tls = front.tls.unwrap();
    assert_eq!((tls.certificates.len(), tls.redirect_from.unwrap().to_string()), (2, "[::]:80".to_owned()));
    assert!(tls.only_tls13);
    assert_eq!(front.clients.trusted_proxies, ["10.0.0.0/8", "2001:db8::/32"]);
    assert_eq!(routing.services.len(), 2);
}

#[test]
fn included_files_are_read_in_order() {
    let text = "http { include zones.conf; include sites/*.conf; }";
    let zones = "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s;";
    let site = |name: &str| {
        format!("server {{ server_name {name}; location / {{ limit_req zone=a; proxy_pass http://h; }} }}")
    };
    let (b, a) = (site("b.org"), site("a.org"));
    let others = [
        ("zones.conf", zones),
        ("sites/2.conf", b.as_str()),
        ("sites/1.conf", a.as_str()),
        ("sites/.x.conf", "}"),
    ];
    let made = imported(text, &others).unwrap();
    let ids: Vec<String> = checked(&made.yaml).routing.services.into_iter().map(|of| of.id).collect();
    assert_eq!(ids, ["a.org", "b.org"]);
}

#[test]
fn realistic_file_passes_check_and_contains_its_notes() {
    let made = imported(WHOLE, &[]).unwrap();
    let gateway = checked(&made.yaml);
    assert_eq!(gateway.routing.services.len(), 2, "{}", made.yaml);
    for note in &made.notes {
        assert!(made.yaml.contains(&note.to_string()), "{note}");
    }
}

// Fails when a surplus `}` ends the file.
#[test]
fn broken_file_is_rejected_with_its_place() {
    for (text, place, cause) in [
        ("http {\n server { }", ":1: ", "unclosed `{`"),
        ("http { } }", ":1: ", "unexpected `}`"),
        ("http {\n server { listen 80 } }", ":2: ", "missing `;` before `}`"),
        ("a;\n\nlimit_req zone=a", ":3: ", "missing `;` after"),
        ("a 'b;\n", ":1: ", "unclosed quote"),
        (";", ":1: ", "missing directive"),
        ("include nginx.conf;", ":1: ", "check whether a file includes itself"),
        ("\ninclude gone.conf;", ":2: ", "cannot read"),
    ] {
        let error = imported(text, &[]).unwrap_err().to_string();
        assert!(error.contains(place) && error.contains(cause), "{text}: {error}");
    }
    let deep = "a { ".repeat(20_000);
    assert!(matches!(imported(&deep, &[]), Err(ImportError::Broken { .. })));
}

#[test]
fn file_without_proxied_locations_is_rejected() {
    for text in ["", "http { server { location / { root /www; } } }"] {
        assert!(matches!(imported(text, &[]), Err(ImportError::Nothing { .. })), "{text}");
    }
}

mod any_text {
    use super::{ImportError, checked, imported};
    use proptest::prelude::*;

    const WORDS: &[&str] = &[
        "http",
        "server",
        "location",
        "/",
        "=",
        "~",
        "proxy_pass",
        "http://h",
        "limit_req",
        "zone=a",
        "burst=3",
        "limit_req_zone",
        "$remote_addr",
        "zone=a:1m",
        "rate=1r/s",
        "server_name",
        "a.org",
        "{",
        "}",
        ";",
        "{",
        "}",
        ";",
        " ",
        " ",
        "'",
        "\"",
        "\\",
        "$",
        "#",
        "\n",
        "é",
        "listen",
        "80",
        "include",
        "*",
    ];

    proptest! {
        #[test]
        fn any_text_imports_to_a_valid_section_or_fails(
            words in prop::collection::vec(prop::sample::select(WORDS), 0..60)
        ) {
            match imported(&words.join(" "), &[]) {
                Ok(made) => drop(checked(&made.yaml)),
                Err(ImportError::Broken { place, .. }) => prop_assert!(place.line > 0),
                Err(ImportError::Nothing { .. }) => {}
            }
        }
    }
}

#[test]
fn imported_ports_do_not_conflict() {
    for port in [80, 8080, 8081, 9090] {
        let made = imported(&one("", "").replace("8000", &port.to_string()), &[]).unwrap();
        assert_eq!(checked(&made.yaml).front.listen.port(), port);
        assert!(made.yaml.contains("grpc_port: off"), "{}", made.yaml);
    }
}
