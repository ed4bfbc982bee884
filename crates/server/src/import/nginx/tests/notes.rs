//! Everything that is not converted gets a note with its line.

use super::{imported, one};

/// The notes of a file as `line: directive: text`.
fn notes(text: &str) -> Vec<String> {
    let notes = imported(text, &[]).unwrap_or_else(|error| panic!("{error}")).notes;
    notes.iter().map(|note| format!("{}: {}: {}", note.place.line, note.directive, note.text)).collect()
}

const ZONE: &str = "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s; limit_req_status 429;";

/// Directives in `http` and in the location, the start of the note, and a part of it.
const CASES: &[(&str, &str, &str, &str)] = &[
    ("", "limit_req zone=gone;", "1: limit_req zone=gone: ", "unknown zone `gone`"),
    (
        "limit_req_zone $server_name zone=s:1m rate=1r/s;",
        "",
        "1: limit_req_zone $server_name",
        "counts each client",
    ),
    ("limit_req_zone $http_x_key zone=s:1m rate=1r/s;", "", "1: limit_req_zone", "not by `$http_x_key`"),
    (
        "limit_req_zone $uri zone=s:1m rate=1r/s;",
        "limit_req zone=s;",
        "1: limit_req zone=s: ",
        "so this is not limited",
    ),
    ("limit_req_zone $remote_addr zone=s:1m rate=1;", "", "1: limit_req_zone", "the rate is not in the form"),
    (
        "limit_req_zone $cookie_x zone=s:1m rate=1r/s;",
        "limit_req zone=a; limit_req zone=s;",
        "1: limit_req zone=s: ",
        "in one way for all limits",
    ),
    (
        "limit_req_zone $remote_addr zone=s:1m rate=9r/s;",
        "limit_req zone=s; limit_req zone=a;",
        "1: limit_req zone=s: ",
        "is the slowest of the limits here",
    ),
    ("", "limit_req zone=a; limit_req_status 444;", "1: limit_req_status 444: ", "always refuses with 429"),
    (
        "limit_req_log_level warn;",
        "limit_req zone=a;",
        "1: limit_req_log_level warn: ",
        "gateway.refusal_log",
    ),
    ("limit_conn_zone $remote_addr zone=c:1m;", "", "1: limit_conn_zone ", "concurrent requests"),
    ("", "limit_conn c 5;", "1: limit_conn c 5: ", "websocket.max_open"),
    ("gzip on;", "", "1: gzip on: ", "unchanged"),
    ("", "deny all;", "1: deny all: ", "does not restrict access"),
    ("", "if ($x) { return 403; }", "1: if ($x): ", "only proxies"),
    (
        "",
        "proxy_set_header X-Real-IP $remote_addr;",
        "1: proxy_set_header X-Real-IP",
        "only adds the headers",
    ),
    (
        "real_ip_header X-Real-IP;",
        "",
        "1: real_ip_header X-Real-IP: ",
        "reads `x-forwarded-for` or `forwarded`",
    ),
    ("set_real_ip_from unix:;", "", "1: set_real_ip_from unix:: ", "not names or sockets"),
    (
        "limit_req_zone $http_authorization zone=s:1m rate=1r/s;",
        "",
        "1: limit_req_zone $http_authorization",
        "such as `Basic`, by their address",
    ),
    (
        "",
        "proxy_set_header X-Forwarded-Proto https;",
        "1: proxy_set_header X-Forwarded-Proto",
        "`https` over TLS",
    ),
    (
        "",
        "proxy_set_header X-Forwarded-For $http_x;",
        "1: proxy_set_header X-Forwarded-For",
        "with another value",
    ),
    (
        "upstream u { server unix:/a; server b:1; } server { listen 9000; location /x { proxy_pass http://u; } }",
        "",
        "1: server unix:/a: ",
        "a host and a port; the server was omitted",
    ),
    ("", "internal;", "1: internal: ", "no internal locations"),
    ("frobnicate on;", "", "1: frobnicate on: ", "no such setting"),
    ("proxy_send_timeout 7s;", "", "1: proxy_send_timeout 7s: ", "applies to both directions"),
    (
        "server { listen 9000; location ~ \\.php$ { proxy_pass http://p; } }",
        "",
        "1: location ~ ",
        "no regular expressions",
    ),
    (
        "server { listen 9000; location /x { fastcgi_pass p; limit_req zone=a; } }",
        "",
        "1: location /x: ",
        "has no `proxy_pass`",
    ),
    (
        "server { listen 9000; location / { proxy_pass http://$x; } }",
        "",
        "1: proxy_pass http://$x: ",
        "depends on a variable",
    ),
    (
        "server { listen 9000; location / { proxy_pass http://unix:/s; } }",
        "",
        "1: proxy_pass http://unix:/s: ",
        "with a host and a port",
    ),
    (
        "upstream u { server a weight=2; ip_hash; } server { listen 9000; location / { proxy_pass http://u; } }",
        "",
        "1: ip_hash: ",
        "less loaded of two",
    ),
    (
        "server { listen unix:/s; location / { proxy_pass http://u; } }",
        "",
        "1: listen unix:/s: ",
        "an IP address and a port",
    ),
];

// Fails when `others::tell` is not called for a location.
#[test]
fn unconverted_directive_is_noted_with_its_line() {
    for (http, location, start, part) in CASES {
        let text = one(&format!("{ZONE} {http}"), location);
        let notes = notes(&text);
        let is_it = |note: &String| note.starts_with(start) && note.contains(part);
        assert!(notes.iter().any(is_it), "{start} ... {part} is not in\n{notes:#?}");
    }
}

#[test]
fn fully_converted_file_has_no_notes() {
    let text =
        one(ZONE, "limit_req zone=a burst=5 nodelay; proxy_set_header Host $host; proxy_read_timeout 5s;");
    assert_eq!(notes(&text), Vec::<String>::new());
}

// Fails when a shared zone is only noted from the tenth place on.
#[test]
fn shared_zone_is_noted() {
    let places = "location /b/ { limit_req zone=a; proxy_pass http://b; } location /c/ { limit_req zone=a; proxy_pass http://c; }";
    let text = format!("{ZONE} server {{ {places} }}");
    let notes = notes(&text);
    assert!(notes.iter().any(|note| note.contains("the 2 places that use `a` share")), "{notes:#?}");
}

#[test]
fn missing_limit_req_status_is_noted() {
    let notes = notes(&one("limit_req_zone $remote_addr zone=a:1m rate=1r/s;", "limit_req zone=a;"));
    assert!(notes.len() == 1 && notes[0].contains("nginx refuses with 503"), "{notes:#?}");
}
