//! Lost protection is reported.

use super::{checked, first, gateway, imported, one};

const ZONE: &str = "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s;";

/// Whether the result protects less than nginx did.
fn is_weaker(text: &str) -> bool {
    let made = imported(text, &[]).unwrap_or_else(|error| panic!("{error}"));
    checked(&made.yaml);
    made.is_weaker
}

#[test]
fn lost_limit_makes_the_result_weaker() {
    let two = format!("{ZONE} limit_req_zone $binary_remote_addr zone=b:1m rate=9r/s;");
    for (http, location, weaker) in [
        (ZONE, "limit_req zone=a burst=5;", false),
        ("", "", false),
        ("", "limit_req zone=gone;", true),
        ("limit_req_zone $binary_remote_addr$uri zone=a:1m rate=1r/s;", "limit_req zone=a;", true),
        (two.as_str(), "limit_req zone=a; limit_req zone=b;", true),
    ] {
        assert_eq!(is_weaker(&one(http, location)), weaker, "{http} {location}");
    }
}

#[test]
fn dry_run_is_written_only_when_set() {
    let made = imported(&one(ZONE, "limit_req zone=a;"), &[]).unwrap();
    assert!(!made.yaml.contains("dry_run"), "{}", made.yaml);
    assert!(
        first(&one(&format!("{ZONE} limit_req_dry_run on;"), "limit_req zone=a;")).limit
            != first(&one(ZONE, "limit_req zone=a;")).limit
    );
}

#[test]
fn proxies_with_another_header_are_not_trusted() {
    let trusted =
        |header: &str| gateway(&one(&format!("set_real_ip_from 10.0.0.0/8; {header}"), "")).front.clients;
    assert_eq!(trusted("real_ip_header X-Forwarded-For;").trusted_proxies, ["10.0.0.0/8"]);
    for header in ["", "real_ip_header X-Real-IP;", "real_ip_header proxy_protocol;"] {
        assert!(trusted(header).trusted_proxies.is_empty(), "{header}");
    }
    let of_one = one("real_ip_header X-Forwarded-For;", "set_real_ip_from 10.0.0.0/8;");
    assert!(is_weaker(&of_one), "trusted for one location, now for all");
}

#[test]
fn redirect_only_to_same_host_and_extra_directives_noted() {
    let tls = "server { listen 443 ssl; server_name b.org; ssl_certificate /b.crt; ssl_certificate_key /b.key; location / { proxy_pass http://h; } }";
    let redirect =
        |to: &str| format!("server {{ listen 80; server_name a.org; deny all; return 301 {to}; }} {tls}");
    let from = |text: &str| gateway(text).front.tls.unwrap().redirect_from;
    assert!(from(&redirect("https://$host$request_uri")).is_some());
    assert!(from(&redirect("https://www.a.org$request_uri")).is_none());
    let made = imported(&redirect("https://$host$request_uri"), &[]).unwrap();
    for noted in ["deny all", "return 301"] {
        assert!(made.notes.iter().any(|note| note.directive.starts_with(noted)), "{noted}: {}", made.yaml);
    }
}

#[test]
fn default_server_is_that_of_the_gateway_address() {
    let text = "server { listen 80; return 301 https://$host$request_uri; } ssl_certificate /a.crt; ssl_certificate_key /a.key;
        server { listen 443 ssl; server_name a.org; location / { proxy_pass http://h; } }";
    let gateway = gateway(text);
    assert!(gateway.routing.services[0].hosts.is_empty(), "it accepts any host");
    assert!(gateway.front.tls.is_some(), "the certificate of all servers is used");
}

#[test]
fn tls_without_a_certificate_makes_the_result_weaker() {
    assert!(is_weaker("server { listen 443 ssl; location / { proxy_pass http://h; } }"));
}

// Fails when lost access restrictions are mere notes, or when a refusing location is silently served by the
// surrounding service.
#[test]
fn lost_access_restriction_makes_the_result_weaker() {
    for (location, weaker) in [
        ("", false),
        ("deny all;", true),
        ("allow all;", false),
        ("auth_basic closed;", true),
        ("auth_basic off;", false),
        ("limit_conn c 5;", true),
    ] {
        assert_eq!(is_weaker(&one("", location)), weaker, "{location}");
    }
    let tls = "listen 443 ssl; ssl_certificate /a; ssl_certificate_key /b;";
    let server = |more: &str| format!("server {{ {tls} {more} location / {{ proxy_pass http://h; }} }}");
    assert!(!is_weaker(&server("")));
    assert!(is_weaker(&server("ssl_verify_client on; ssl_client_certificate /ca;")));
    assert!(!is_weaker(&server("ssl_verify_client off;")));
    for (inside, weaker) in
        [("return 403;", true), ("return 301 /x;", false), ("root /x;", false), ("internal;", true)]
    {
        assert_eq!(is_weaker(&server(&format!("location /no {{ {inside} }}"))), weaker, "{inside}");
    }
    let made = imported(&server("location /no { return 403; }"), &[]).unwrap();
    let note = made.notes.iter().find(|note| note.directive.starts_with("location /no")).unwrap();
    assert!(note.text.contains("the service with the next shorter path prefix"), "{}", note.text);
}

// Fails when both are written, which the check rejects.
#[test]
fn conflicting_servers_are_noted_and_one_is_written() {
    let text = "server { listen 80; location / { proxy_pass http://a; } } \
                server { listen 192.0.2.1:8081; location / { proxy_pass http://b; } location /x { proxy_pass http://c; } } \
                server { listen 80; server_name n; location / { proxy_pass http://d; } } \
                server { listen 81; server_name n m; location / { proxy_pass http://e; } }";
    assert!(is_weaker(text));
    let of = |gateway: &hivemind_gateway::settings::GatewaySettings| -> Vec<String> {
        let services = gateway.routing.services.iter();
        services.map(|of| format!("{:?}{} {}", of.hosts, of.path_prefix, of.upstreams[0])).collect()
    };
    assert_eq!(
        of(&gateway(text)),
        ["[]/ http://a:80", "[]/x http://c:80", "[\"n\"]/ http://d:80", "[\"m\"]/ http://e:80"]
    );
}

#[test]
fn byte_order_mark_is_not_a_directive() {
    let text = format!("\u{feff}{}", one("", ""));
    assert!(imported(&text, &[]).unwrap().notes.iter().all(|note| !note.directive.contains("http")));
}
