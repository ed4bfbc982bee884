//! Directives that have no counterpart: each is told, with why and what to do.

use super::report::Report;
use super::tree::Directive;

const OF_ITSELF: &str = "about how nginx itself runs; the gateway needs nothing for it";
const NOT_A_PROXYS: &str =
    "the gateway only proxies; do this in the app, or keep nginx behind the gateway for it";
const UNCHANGED: &str = "the gateway passes answers on as they are";
const VARIABLES: &str = "the gateway has no variables";

/// What protected the app in nginx, and does not here.
const LOST: &[(&[&str], &str)] = &[
    (
        &["limit_conn"],
        "the gateway does not limit requests at the same time; of WebSockets it does, by `websocket.max_open`",
    ),
    (
        &["allow", "deny", "satisfy", "auth_"],
        "the gateway restricts nobody's access: before you switch, do it in the app or by a firewall",
    ),
    (
        &[
            "ssl_verify_client",
            "ssl_client_certificate",
            "ssl_trusted_certificate",
            "ssl_crl",
            "ssl_verify_depth",
        ],
        "the gateway asks clients for no certificates, and so restricts nobody's access by them: before you switch, \
         do it in the app",
    ),
    (
        &["internal"],
        "the gateway has no places that only nginx itself may go to: before you switch, see that nobody reaches this \
         in the app",
    ),
];

/// What is said of directives by their names, or how these begin. The first that fits is taken.
const WHY: &[(&[&str], &str)] = &[
    (&["limit_rate"], "the gateway does not limit how fast an answer goes"),
    (
        &["access_log", "log_format"],
        "the gateway's log of requests is `gateway.access_log`, in a form of its own",
    ),
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
        "the gateway tries another upstream only where a request cannot have been heard yet",
    ),
    (
        &["ssl_", "http2", "http3", "quic"],
        "the gateway's TLS is TLS 1.2 and 1.3 with rustls' own choices, HTTP/1.1 and HTTP/2",
    ),
    (
        &["client_", "keepalive_", "send_timeout", "large_client_header_buffers", "lingering_"],
        "the gateway's own are `gateway.header_timeout`, `idle_timeout`, `max_header_bytes` and `timeouts`",
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
        "the gateway always leaves out headers with an underscore in their name, as nginx does by default: \
         an application may read `X_Real_IP` as `X-Real-IP`",
    ),
];

/// Tells of every directive that is not one of `read`.
pub(super) fn tell(directives: &[Directive], read: &[&[&str]], report: &mut Report) {
    let is_read = |name: &str| read.iter().any(|names| names.contains(&name));
    for directive in directives.iter().filter(|directive| !is_read(&directive.name)) {
        let name = directive.name.as_str();
        // A name that ends in `_` stands for all that begin with it, and so does a whole one.
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
