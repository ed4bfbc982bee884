//! `proxy_pass` and `upstream` blocks.

use super::context::InheritedDirectives;
use super::report::ImportReport;
use super::tree::Directive;
use super::unit;
use hivemind_gateway::settings::UpstreamUrl;

/// The forwarding settings of a location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ForwardingSettings {
    pub(super) upstreams: Vec<String>,
    /// `keep`, `upstream` or a host.
    pub(super) host_header: String,
    pub(super) strip_prefix: bool,
    pub(super) max_body: String,
    pub(super) timeouts: Vec<(&'static str, String)>,
    pub(super) upstream_ca: Option<String>,
}

/// Converts a `proxy_pass` in a location of this path; `None` if it cannot be converted.
pub(super) fn manner(
    pass: &Directive,
    path: &str,
    context: &InheritedDirectives<'_>,
    blocks: &[&Directive],
    report: &mut ImportReport,
) -> Option<ForwardingSettings> {
    let url = pass.arg(0);
    if url.contains('$') {
        report.note(
            pass,
            "the target depends on a variable; name the upstreams and define separate services for them",
        );
        return None;
    }
    let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme))
    else {
        report.note(pass, "the gateway supports only `http://` and `https://` upstreams");
        return None;
    };
    let (authority, uri) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let block = blocks.iter().find(|block| block.arg(0) == authority);
    let servers: Vec<String> = match block {
        Some(block) => servers(block, scheme, report),
        None => vec![format!("{scheme}://{authority}")],
    };
    let upstreams: Vec<String> =
        servers.iter().filter_map(|url| UpstreamUrl::parse(url)).map(|of| of.to_string()).collect();
    if upstreams.is_empty() || upstreams.len() < servers.len() {
        report.note(
            pass,
            "the gateway supports only upstreams with a host and a port, and this is a different kind",
        );
    }
    if upstreams.is_empty() {
        return None;
    }
    let strip_prefix = strips(pass, uri, path, report);
    if scheme == "https" && context.verifies_upstream.is_none_or(|of| of.arg(0) != "on") {
        report.note(pass, "nginx verifies the upstream's certificate only with `proxy_ssl_verify`; the gateway always does: set its CA in `upstream_ca`");
    }
    Some(ForwardingSettings {
        upstreams,
        host_header: host_header(context, block.map(|block| block.arg(0)), report),
        strip_prefix,
        max_body: max_body(context, report),
        timeouts: timeouts(context, report),
        upstream_ca: context.upstream_ca.filter(|_| scheme == "https").map(|of| of.arg(0).to_owned()),
    })
}

fn servers(block: &Directive, scheme: &str, report: &mut ImportReport) -> Vec<String> {
    let mut servers = Vec::new();
    for directive in block.children() {
        if directive.name != "server" {
            let why = match directive.name.as_str() {
                "keepalive" | "zone" | "keepalive_timeout" | "keepalive_requests" => {
                    "connections to upstreams are kept open anyway"
                }
                _ => "of several upstreams the gateway chooses the less loaded of two random ones",
            };
            report.note(directive, why);
            continue;
        }
        let options: Vec<&str> = directive.args.iter().skip(1).map(String::as_str).collect();
        if options.iter().any(|option| ["down", "backup"].contains(option)) {
            report.note(directive, "the gateway has no backup upstreams; the server was omitted");
            continue;
        }
        if !options.is_empty() {
            report.note(
                directive,
                format!("`{}` was not converted: all upstreams are equal", options.join(" ")),
            );
        }
        let address = directive.arg(0);
        let has_port = address.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok());
        // nginx uses port 80 by default, even for `https://`.
        let port = if has_port && !address.ends_with(']') { "" } else { ":80" };
        let url = format!("{scheme}://{address}{port}");
        if UpstreamUrl::parse(&url).is_some() {
            servers.push(url);
        } else {
            report.note(
                directive,
                "the gateway supports only upstreams with a host and a port; the server was omitted",
            );
        }
    }
    servers
}

/// Whether the path prefix is stripped. Other rewriting is not converted.
fn strips(pass: &Directive, uri: &str, path: &str, report: &mut ImportReport) -> bool {
    match uri {
        "" => false,
        uri if uri == path => false,
        "/" if path.ends_with('/') => true,
        _ => {
            report.note(pass, format!("nginx rewrites the path `{path}` to `{uri}`, but the gateway can only strip a prefix (`strip_prefix`)"));
            false
        }
    }
}

fn host_header(context: &InheritedDirectives<'_>, block: Option<&str>, report: &mut ImportReport) -> String {
    let mut host = None;
    for directive in &context.set_header {
        let (name, value) = (directive.arg(0).to_ascii_lowercase(), directive.arg(1));
        match (name.as_str(), value) {
            ("host", "$host" | "$http_host" | "$server_name") => host = Some("keep".to_owned()),
            ("host", "$proxy_host") => host = None,
            ("host", value) if !value.contains('$') => host = Some(value.to_owned()),
            ("host", _) => report.note(
                directive,
                "the gateway can keep the client's `Host`, use the upstream's, or set a fixed one",
            ),
            // The gateway writes these headers and handles upgrades itself.
            ("x-forwarded-for", "$proxy_add_x_forwarded_for" | "$remote_addr")
            | ("x-forwarded-proto", "$scheme")
            | ("x-forwarded-host", "$host" | "$http_host")
            | ("upgrade", "$http_upgrade")
            | ("connection", "" | "upgrade" | "Upgrade" | "close" | "$connection_upgrade" | "$http_connection") => {}
            ("x-forwarded-proto", _) => report.note(
                directive,
                "the gateway sends the client's scheme: `https` over TLS, otherwise `http`, or the value of a trusted proxy \
                 (`client_ip.trusted_proxies`); configure the app if it needs another value",
            ),
            ("x-forwarded-for" | "x-forwarded-host" | "upgrade" | "connection", _) => {
                report.note(directive, "the gateway writes this header itself, with another value");
            }
            _ => report.note(
                directive,
                "the gateway only adds the headers `X-Forwarded-*` or `Forwarded` (`gateway.forwarded`)",
            ),
        }
    }
    host.or_else(|| block.map(str::to_owned)).unwrap_or_else(|| "upstream".to_owned())
}

fn max_body(context: &InheritedDirectives<'_>, report: &mut ImportReport) -> String {
    let Some(directive) = context.max_body else { return "1MiB".to_owned() };
    match unit::bytes(directive.arg(0)) {
        Some(0) => "off".to_owned(),
        Some(bytes) => unit::shown_bytes(bytes),
        None => {
            report.note(directive, "not a size; nginx's default of 1 MiB is used");
            "1MiB".to_owned()
        }
    }
}

fn timeouts(context: &InheritedDirectives<'_>, report: &mut ImportReport) -> Vec<(&'static str, String)> {
    let mut timeouts = Vec::new();
    let mut add = |keys: &[&'static str], directive: Option<&Directive>, report: &mut ImportReport| {
        let Some(directive) = directive else { return };
        match unit::time(directive.arg(0)).filter(|time| !time.is_zero()) {
            Some(time) => timeouts.extend(keys.iter().map(|key| (*key, unit::shown_time(time)))),
            None => report.note(directive, "not a time above 0; the gateway's default is used"),
        }
    };
    add(&["connect"], context.connect_timeout, report);
    add(&["response", "idle"], context.read_timeout, report);
    if let Some(send) = context.send_timeout {
        let same =
            context.read_timeout.is_some_and(|read| unit::time(read.arg(0)) == unit::time(send.arg(0)));
        if !same {
            report.note(
                send,
                "`timeouts.idle` applies to both directions; the value of `proxy_read_timeout` is used",
            );
        }
    }
    timeouts
}
