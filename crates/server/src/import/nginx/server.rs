//! `server` blocks: names, addresses, and locations as services.

use super::context::InheritedDirectives;
use super::limit::ImportedLimit;
use super::location::{Around, ProxiedLocation};
use super::others;
use super::real_ip::RealIp;
use super::report::FilePosition;
use super::tree::Directive;
use super::upstream::ForwardingSettings;
use hivemind_tls::authority;

/// A service of the gateway.
pub(super) struct ImportedService {
    pub(super) id: String,
    pub(super) place: FilePosition,
    pub(super) hosts: Vec<String>,
    pub(super) prefix: String,
    pub(super) manner: ForwardingSettings,
    pub(super) limit: Option<ImportedLimit>,
    pub(super) endpoints: Vec<ImportedEndpoint>,
}

/// An endpoint of a service.
pub(super) struct ImportedEndpoint {
    pub(super) id: String,
    pub(super) path: String,
    pub(super) limit: Option<ImportedLimit>,
}

/// An address to listen on.
#[derive(Clone, Debug)]
pub(super) struct Listen<'d> {
    pub(super) directive: &'d Directive,
    pub(super) address: String,
    pub(super) is_tls: bool,
    pub(super) is_default: bool,
}

const READ: [&str; 8] = [
    "listen",
    "server_name",
    "location",
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_protocols",
    "return",
    "ssl",
];

/// The addresses of a server.
pub(super) fn listens<'d>(server: &'d Directive, around: &mut Around<'_, 'd>) -> Vec<Listen<'d>> {
    let mut listens = Vec::new();
    let is_tls = server.children().iter().any(|of| of.name == "ssl" && of.arg(0) == "on");
    for directive in server.children().iter().filter(|directive| directive.name == "listen") {
        let has = |word: &str| directive.args.iter().skip(1).any(|arg| arg == word);
        let text = directive.arg(0).replacen('*', "0.0.0.0", 1);
        let address = match text.parse::<u16>() {
            Ok(port) => format!("0.0.0.0:{port}"),
            Err(_)
                if text.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok())
                    && !text.ends_with(']') =>
            {
                text
            }
            Err(_) => format!("{text}:80"),
        };
        if address.parse::<std::net::SocketAddr>().is_err() {
            around.report.note(directive, "the gateway listens on an IP address and a port");
            continue;
        }
        if has("proxy_protocol") {
            around.report.note(directive, "the gateway does not read the PROXY protocol");
        }
        let is_tls = is_tls || has("ssl");
        let is_default = has("default_server") || has("default");
        listens.push(Listen { directive, address, is_tls, is_default });
    }
    listens
}

/// The services of a server. The default server accepts any host, as in nginx.
pub(super) fn services<'d>(
    server: &'d Directive,
    is_default: bool,
    context: &InheritedDirectives<'d>,
    around: &mut Around<'_, 'd>,
) -> Vec<ImportedService> {
    let inside = server.children();
    let context = context.within(inside);
    // The caller handles redirects to HTTPS.
    others::note_unread(
        inside,
        &[&READ, &InheritedDirectives::DIRECTIVES, &RealIp::DIRECTIVES],
        around.report,
    );
    around.client_ip.add(inside, Some("server"), around.report);
    let names = names(server, around);
    let base = names.first().map_or("app", |name| name.trim_start_matches("*.")).to_owned();
    let hosts = if is_default { Vec::new() } else { names };
    let (exact, prefixes): (Vec<_>, Vec<_>) =
        around.proxied(inside, &context).into_iter().partition(|proxied| proxied.is_exact);
    let mut services: Vec<ImportedService> = Vec::new();
    for proxied in prefixes {
        let prefix = without_slash(&proxied.path);
        if services.iter().any(|service| service.prefix == prefix) {
            let text =
                format!("`{prefix}` is already defined, and equal for the gateway; the location was omitted");
            around.report.note(proxied.directive, text);
            continue;
        }
        services.push(service(&base, &hosts, prefix, proxied));
    }
    merge_equal(&mut services);
    for proxied in exact {
        let of = services.iter_mut().filter(|service| is_below(&proxied.path, &service.prefix));
        let longest =
            of.max_by_key(|service| service.prefix.len()).filter(|service| service.manner == proxied.manner);
        if let Some(service) = longest {
            let id = name_of(&proxied.path, "root");
            service.endpoints.push(ImportedEndpoint { id, path: proxied.path, limit: proxied.limit });
        } else {
            let text = "its upstream differs from the surrounding location, so it became a service, which also matches paths below it";
            around.report.note(proxied.directive, text);
            let prefix = without_slash(&proxied.path);
            services.push(service(&base, &hosts, prefix, proxied));
        }
    }
    services
}

fn service(base: &str, hosts: &[String], prefix: String, proxied: ProxiedLocation<'_>) -> ImportedService {
    let id = if prefix == "/" { base.to_owned() } else { format!("{base}-{}", name_of(&prefix, "root")) };
    ImportedService {
        id,
        place: proxied.directive.place.clone(),
        hosts: hosts.to_vec(),
        prefix,
        manner: proxied.manner,
        limit: proxied.limit,
        endpoints: Vec::new(),
    }
}

/// Merges a location that equals the surrounding one, so that both share their buckets, as in nginx.
fn merge_equal(services: &mut Vec<ImportedService>) {
    let mut index = 0;
    while let Some(service) = services.get(index) {
        let around = services.iter().filter(|other| {
            other.prefix.len() < service.prefix.len() && is_below(&service.prefix, &other.prefix)
        });
        let nearest = around.max_by_key(|other| other.prefix.len());
        let is_same = nearest.is_some_and(|other| {
            other.manner == service.manner && other.limit == service.limit && !service.manner.strip_prefix
        });
        if is_same {
            services.remove(index);
        } else {
            index += 1;
        }
    }
}

fn names(server: &Directive, around: &mut Around<'_, '_>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for directive in server.children().iter().filter(|directive| directive.name == "server_name") {
        for name in &directive.args {
            let name = name.to_ascii_lowercase();
            let below = name.strip_prefix("*.").or(name.strip_prefix('.'));
            let is_host = |text: &str| !text.starts_with('[') && authority::host(text) == Some(text);
            match (name.as_str(), below) {
                ("_" | "", _) => {}
                (_, Some(of)) if is_host(of) => {
                    if name.starts_with('.') {
                        names.push(of.to_owned());
                    }
                    names.push(format!("*.{of}"));
                }
                (of, None) if is_host(of) => names.push(of.trim_end_matches('.').to_owned()),
                _ => {
                    let text = format!(
                        "the gateway supports host names and `*.` as their prefix; `{name}` was omitted"
                    );
                    around.report.note(directive, text);
                }
            }
        }
    }
    names.dedup();
    names
}

fn without_slash(path: &str) -> String {
    if path == "/" { path.to_owned() } else { path.trim_end_matches('/').to_owned() }
}

fn is_below(path: &str, prefix: &str) -> bool {
    prefix == "/" || path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A path as an id: its parts joined by dashes.
fn name_of(path: &str, of_root: &str) -> String {
    let letters = path
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || "._".contains(letter) { letter } else { '-' });
    let name = letters.collect::<String>().trim_matches('-').to_owned();
    if name.is_empty() { of_root.to_owned() } else { name }
}
