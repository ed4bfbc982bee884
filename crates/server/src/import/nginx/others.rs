//! Directives without an equivalent: each gets a note with the reason and what to do.

use super::report::ImportReport;
use super::tree::Directive;

const OF_ITSELF: &str = "concerns nginx itself; the gateway has no equivalent";
const NOT_A_PROXYS: &str =
    "the gateway only proxies; do this in the app, or keep nginx behind the gateway for it";
const UNCHANGED: &str = "the gateway forwards responses unchanged";
const VARIABLES: &str = "the gateway has no variables";

/// Directives that protected the app in nginx and have no equivalent here.
const LOST: &[(&[&str], &str)] = &[
    (
        &["limit_conn"],
        "the gateway does not limit concurrent requests; for WebSockets, use `websocket.max_open`",
    ),
    (
        &["allow", "deny", "satisfy", "auth_"],
        "the gateway does not restrict access; before you switch, restrict it in the app or with a firewall",
    ),
    (
        &[
            "ssl_verify_client",
            "ssl_client_certificate",
            "ssl_trusted_certificate",
            "ssl_crl",
            "ssl_verify_depth",
        ],
        "the gateway does not verify client certificates, and so restricts no access by them; before you switch, \
         restrict it in the app",
    ),
    (
        &["internal"],
        "the gateway has no internal locations; before you switch, make sure that clients cannot reach this path \
         in the app",
    ),
];

/// Notes by directive name or name prefix. The first match is used.
const WHY: &[(&[&str], &str)] = &[
    (&["limit_rate"], "the gateway does not limit the speed of responses"),
    (&["access_log", "log_format"], "the gateway's request log is `gateway.access_log`, with its own format"),
    (
        &[
            "if",
            "rewrite",
            "return",
            "try_files",
            "error_page",
            "root",
            "alias",
            "index",
            "autoindex",
            "fastcgi_",
            "uwsgi_",
            "scgi_",
            "grpc_",
            "memcached_",
            "stub_status",
            "mirror",
            "sub_filter",
        ],
        NOT_A_PROXYS,
    ),
    (
        &[
            "gzip",
            "brotli",
            "add_header",
            "expires",
            "etag",
            "charset",
            "proxy_hide_header",
            "proxy_pass_header",
            "proxy_redirect",
            "proxy_cookie_",
            "proxy_intercept_errors",
        ],
        UNCHANGED,
    ),
    (&["map", "geo", "set", "split_clients"], VARIABLES),
    (&["proxy_cache"], "the gateway does not cache"),
    (
        &["proxy_next_upstream"],
        "the gateway retries another upstream only if the first cannot have received the request",
    ),
    (
        &["ssl_", "http2", "http3", "quic"],
        "the gateway supports TLS 1.2 and 1.3 with the defaults of rustls, HTTP/1.1 and HTTP/2",
    ),
    (
        &["client_", "keepalive_", "send_timeout", "large_client_header_buffers", "lingering_"],
        "use `gateway.header_timeout`, `idle_timeout`, `max_header_bytes` and `timeouts`",
    ),
    (
        &[
            "worker_",
            "events",
            "user",
            "pid",
            "daemon",
            "error_log",
            "load_module",
            "sendfile",
            "tcp_",
            "types",
            "default_type",
            "server_tokens",
            "server_names_",
            "variables_",
            "map_hash",
            "proxy_buffer",
            "proxy_busy_",
            "proxy_request_buffering",
            "proxy_http_version",
            "proxy_temp_",
            "aio",
            "directio",
            "open_file_",
            "resolver",
            "reset_timedout_connection",
            "merge_slashes",
            "absolute_redirect",
            "port_in_redirect",
            "server_name_in_redirect",
            "msie_",
            "ignore_invalid_headers",
        ],
        OF_ITSELF,
    ),
    (
        &["underscores_in_headers"],
        "the gateway always drops headers with an underscore in their name, as nginx does by default: \
         an application may read `X_Real_IP` as `X-Real-IP`",
    ),
];

/// Notes every directive that is not in `read`.
pub(super) fn note_unread(directives: &[Directive], read: &[&[&str]], report: &mut ImportReport) {
    let is_read = |name: &str| read.iter().any(|names| names.contains(&name));
    for directive in directives.iter().filter(|directive| !is_read(&directive.name)) {
        let name = directive.name.as_str();
        // A name that ends in `_` is a prefix; a whole name also matches with `_` appended.
        let fits = |of: &str| {
            name == of
                || (name.starts_with(of)
                    && (of.ends_with('_') || name.as_bytes().get(of.len()) == Some(&b'_')))
        };
        let find = |table: &[(&[&str], &'static str)]| {
            table.iter().find(|(names, _)| names.iter().any(|of| fits(of))).map(|(_, why)| *why)
        };
        let is_off = directive.arg(0) == "off" || (name, directive.arg(0)) == ("allow", "all");
        match find(LOST) {
            Some(why) if !is_off => report.lose(directive, why),
            Some(why) => report.note(directive, why),
            None => report.note(directive, find(WHY).unwrap_or("the gateway has no such setting")),
        }
    }
}
