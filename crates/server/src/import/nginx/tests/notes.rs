//! Everything that is not carried over is told at its line.

use super::{imported, one};

/// The notes that a file makes, as lines of `line: directive: text`.
fn notes(text: &str) -> Vec<String> {
    let notes = imported(text, &[]).unwrap_or_else(|error| panic!("{error}")).notes;
    notes.iter().map(|note| format!("{}: {}: {}", note.place.line, note.directive, note.text)).collect()
}

const ZONE: &str = "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s; limit_req_status 429;";

/// In `http`, in the location, how the note begins and what is in it.
const CASES: &[(&str, &str, &str, &str)] = &[
    ("", "limit_req zone=gone;", "1: limit_req zone=gone: ", "there is no zone `gone`"),
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
    ("limit_req_zone $remote_addr zone=s:1m rate=1;", "", "1: limit_req_zone", "its rate is not like"),
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
        "is the slowest of those here",
    ),
    (
        "",
        "limit_req zone=a; limit_req_status 444;",
        "1: limit_req_status 444: ",
        "429 and Retry-After, always",
    ),
    (
        "limit_req_log_level warn;",
        "limit_req zone=a;",
        "1: limit_req_log_level warn: ",
        "gateway.refusal_log",
    ),
    ("limit_conn_zone $remote_addr zone=c:1m;", "", "1: limit_conn_zone ", "requests at the same time"),
    ("", "limit_conn c 5;", "1: limit_conn c 5: ", "websocket.max_open"),
    ("gzip on;", "", "1: gzip on: ", "as they are"),
    ("", "deny all;", "1: deny all: ", "restricts nobody's access"),
    ("", "if ($x) { return 403; }", "1: if ($x): ", "only proxies"),
    ("", "proxy_set_header X-Real-IP $remote_addr;", "1: proxy_set_header X-Real-IP", "adds no headers"),
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
        "such as `Basic`, by its address",
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
        "not with this value",
    ),
    (
        "upstream u { server unix:/a; server b:1; } server { listen 9000; location /x { proxy_pass http://u; } }",
        "",
        "1: server unix:/a: ",
        "a host and a port alone; it is left out",
    ),
    ("", "internal;", "1: internal: ", "only nginx itself"),
    ("frobnicate on;", "", "1: frobnicate on: ", "no such setting"),
    ("proxy_send_timeout 7s;", "", "1: proxy_send_timeout 7s: ", "one time for both ways"),
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
        "by a host and a port",
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

// Seen failing on: `others::tell` not called in a location.
#[test]
fn each_thing_that_is_not_carried_over_is_told_at_its_line() {
    for (http, location, start, part) in CASES {
        let text = one(&format!("{ZONE} {http}"), location);
        let notes = notes(&text);
        let is_it = |note: &String| note.starts_with(start) && note.contains(part);
        assert!(notes.iter().any(is_it), "{start} ... {part} is not in\n{notes:#?}");
    }
}

#[test]
fn what_is_carried_over_whole_needs_no_word() {
    let text =
        one(ZONE, "limit_req zone=a burst=5 nodelay; proxy_set_header Host $host; proxy_read_timeout 5s;");
    assert_eq!(notes(&text), Vec::<String>::new());
}

// Seen failing on: a zone told of from its tenth place on.
#[test]
fn a_zone_that_several_places_share_is_told() {
    let places = "location /b/ { limit_req zone=a; proxy_pass http://b; } location /c/ { limit_req zone=a; proxy_pass http://c; }";
    let text = format!("{ZONE} server {{ {places} }}");
    let notes = notes(&text);
    assert!(notes.iter().any(|note| note.contains("the 2 places that use `a` share")), "{notes:#?}");
}

#[test]
fn without_a_status_nginx_says_503() {
    let notes = notes(&one("limit_req_zone $remote_addr zone=a:1m rate=1r/s;", "limit_req zone=a;"));
    assert!(notes.len() == 1 && notes[0].contains("nginx refuses with 503"), "{notes:#?}");
}
