//! The content of the `gateway` section.

use super::context::InheritedDirectives;
use super::key::ZoneIdentity;
use super::limit::LimitImporter;
use super::location::Around;
use super::others;
use super::real_ip::RealIp;
use super::report::ImportReport;
use super::server::{self, ImportedService, Listen};
use super::tree::Directive;
use super::zone;
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct GatewaySection {
    pub(super) listen: Option<String>,
    pub(super) redirect_from: Option<String>,
    pub(super) certificates: Vec<(String, String)>,
    pub(super) only_tls13: bool,
    pub(super) client_ip: RealIp,
    pub(super) identity: Option<ZoneIdentity>,
    pub(super) services: Vec<ImportedService>,
}

const IN_HTTP: [&str; 6] =
    ["server", "upstream", "limit_req_zone", "ssl_certificate", "ssl_certificate_key", "ssl_protocols"];
/// Directives of a server that only redirects to HTTPS.
const IN_REDIRECT: [&str; 4] = ["listen", "server_name", "return", "location"];

impl GatewaySection {
    pub(super) fn of(directives: &[Directive], report: &mut ImportReport) -> Self {
        let http = directives.iter().find(|directive| directive.name == "http");
        // An included file starts inside of `http`.
        let block = http.map_or(directives, Directive::children);
        if http.is_some() {
            others::note_unread(directives, &[&["http"]], report);
        }
        others::note_unread(
            block,
            &[&IN_HTTP, &InheritedDirectives::DIRECTIVES, &RealIp::DIRECTIVES],
            report,
        );
        let upstreams: Vec<&Directive> = block.iter().filter(|of| of.name == "upstream").collect();
        let servers: Vec<&Directive> = block.iter().filter(|of| of.name == "server").collect();
        let mut limits = LimitImporter { zones: zone::read(block, report), identity: None };
        let mut section = Self::default();
        let mut client_ip = RealIp::default();
        client_ip.add(block, None, report);
        let context = InheritedDirectives::default().within(block);
        let mut around =
            Around { upstreams: &upstreams, limits: &mut limits, client_ip: &mut client_ip, report };
        let listens: Vec<Vec<Listen<'_>>> =
            servers.iter().map(|server| server::listens(server, &mut around)).collect();
        section.listen_on(&listens, &servers, &mut around);
        let default = section.default_of(&listens);
        section.certify(block, &mut around);
        for (index, (server, of_server)) in servers.iter().zip(&listens).enumerate() {
            if section.redirect_from.is_some()
                && let Some(sends) = redirect(server, of_server)
            {
                others::note_unread(server.children(), &[&IN_REDIRECT], around.report);
                if sends.arg(0) != "308" {
                    around.report.note(sends, "the gateway redirects to HTTPS with 308, for any host");
                }
                continue;
            }
            section.certify(server.children(), &mut around);
            let services = server::services(server, Some(index) == default, &context, &mut around);
            section.add(services, server, &mut around);
            note_returns(server, &mut around);
        }
        section.note_plain(&listens, &mut around);
        section.identity.clone_from(&limits.identity);
        client_ip.finish(report);
        section.client_ip = client_ip;
        section.name_apart();
        section.note_shared(&limits, report);
        section
    }

    /// Adds the services of a server, unless an earlier one has the same hosts and path: on one address they would
    /// conflict.
    fn add<'d>(
        &mut self,
        services: Vec<ImportedService>,
        server: &'d Directive,
        around: &mut Around<'_, 'd>,
    ) {
        for mut service in services {
            let is_same = |other: &&ImportedService| other.prefix == service.prefix;
            let others: Vec<&ImportedService> = self.services.iter().filter(is_same).collect();
            let is_taken = |host: &String| others.iter().any(|other| other.hosts.contains(host));
            let is_any_taken = service.hosts.is_empty() && others.iter().any(|other| other.hosts.is_empty());
            let had_hosts = !service.hosts.is_empty();
            service.hosts.retain(|host| !is_taken(host));
            if is_any_taken || (had_hosts && service.hosts.is_empty()) {
                let text = format!(
                    "an earlier server has the same hosts with `{}`, which conflict on the gateway's one address; the \
                     server was omitted: run another gateway for it",
                    service.prefix
                );
                around.report.lose(server, text);
            } else {
                self.services.push(service);
            }
        }
    }

    /// Selects one address to listen on, and one to redirect to HTTPS.
    fn listen_on<'d>(
        &mut self,
        listens: &[Vec<Listen<'d>>],
        servers: &[&'d Directive],
        around: &mut Around<'_, 'd>,
    ) {
        let all: Vec<&Listen<'d>> = listens.iter().flatten().collect();
        let has_tls = all.iter().any(|listen| listen.is_tls);
        let mut chosen: Option<&Listen<'d>> = None;
        for listen in all.iter().filter(|listen| listen.is_tls == has_tls) {
            chosen = match chosen {
                None => Some(listen),
                // Both together are `[::]`, which accepts IPv4 too.
                Some(of) if wide(&of.address) == listen.address => Some(listen),
                Some(of) if of.address == listen.address || of.address == wide(&listen.address) => Some(of),
                Some(of) => {
                    let text = format!(
                        "the gateway listens on one address, `{}`; run another gateway for this one",
                        of.address
                    );
                    around.report.note(listen.directive, text);
                    Some(of)
                }
            };
        }
        self.listen = chosen.map(|listen| listen.address.clone());
        for (of_server, server) in listens.iter().zip(servers) {
            for listen in of_server.iter().filter(|listen| has_tls && !listen.is_tls) {
                let redirects = redirect(server, of_server).is_some();
                match &self.redirect_from {
                    None if redirects => self.redirect_from = Some(listen.address.clone()),
                    Some(from) if redirects && wide(from) == listen.address => {
                        self.redirect_from = Some(listen.address.clone());
                    }
                    Some(from) if redirects && *from == listen.address => {}
                    _ => around.report.note(
                        listen.directive,
                        "the gateway uses TLS on its one address, and can redirect plain HTTP to it (`tls.redirect_from`)",
                    ),
                }
            }
        }
    }

    /// The server for unknown hosts: the default server of the gateway's address, or the first one.
    fn default_of(&self, listens: &[Vec<Listen<'_>>]) -> Option<usize> {
        let is_here = |listen: &Listen<'_>| {
            self.listen.as_deref().is_none_or(|here| wide(here) == wide(&listen.address))
        };
        let default = listens.iter().position(|all| all.iter().any(|of| of.is_default && is_here(of)));
        default.or_else(|| listens.iter().position(|all| all.is_empty() || all.iter().any(is_here)))
    }

    /// TLS without a certificate is not possible.
    fn note_plain(&self, listens: &[Vec<Listen<'_>>], around: &mut Around<'_, '_>) {
        let tls = listens.iter().flatten().find(|listen| listen.is_tls);
        if let Some(listen) = tls.filter(|_| self.certificates.is_empty()) {
            let text =
                "no `ssl_certificate` found; without one the gateway serves plain HTTP; add `gateway.tls`";
            around.report.lose(listen.directive, text);
        }
    }

    fn certify<'d>(&mut self, block: &'d [Directive], around: &mut Around<'_, 'd>) {
        let all = |name: &'static str| block.iter().filter(move |of| of.name == name);
        for (cert, key) in all("ssl_certificate").zip(all("ssl_certificate_key")) {
            let pair = (cert.arg(0).to_owned(), key.arg(0).to_owned());
            if pair.0.contains('$') || pair.0.starts_with("data:") {
                around.report.note(cert, "the gateway reads certificates only from files with fixed names");
            } else if !self.certificates.contains(&pair) {
                self.certificates.push(pair);
            }
        }
        for protocols in all("ssl_protocols") {
            self.only_tls13 = protocols.args.iter().all(|protocol| protocol == "TLSv1.3");
            if protocols.args.iter().any(|protocol| !["TLSv1.2", "TLSv1.3"].contains(&protocol.as_str())) {
                around.report.note(protocols, "the gateway supports only TLS 1.2 and 1.3");
            }
        }
    }

    /// Makes service ids unique, and limits their length.
    fn name_apart(&mut self) {
        const LONGEST: usize = 64;
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        let mut apart = |id: &mut String, longest: usize| {
            id.truncate(longest - 4);
            let times = seen.entry(id.clone()).or_default();
            *times += 1;
            if *times > 1 {
                *id = format!("{id}-{times}");
            }
        };
        for service in &mut self.services {
            apart(&mut service.id, LONGEST);
        }
        for service in &mut self.services {
            let mut seen: Vec<String> = Vec::new();
            for endpoint in &mut service.endpoints {
                endpoint.id.truncate(LONGEST - 4);
                while seen.contains(&endpoint.id) {
                    endpoint.id.push('-');
                }
                seen.push(endpoint.id.clone());
            }
        }
    }

    /// nginx shares one bucket per client between all places of a zone; the gateway has a bucket for each place.
    fn note_shared(&self, limits: &LimitImporter<'_>, report: &mut ImportReport) {
        for (name, zone) in &limits.zones {
            let of_service = |service: &ImportedService| {
                let endpoints = service.endpoints.iter().filter_map(|endpoint| endpoint.limit.as_ref());
                service.limit.iter().chain(endpoints).filter(|limit| limit.zone == *name).count()
            };
            let places: usize = self.services.iter().map(of_service).sum();
            if let Some(zone) = zone.as_ref().filter(|_| places > 1) {
                let text = format!(
                    "in nginx the {places} places that use `{name}` share a client's requests; here each service and \
                     endpoint counts separately, so a client may send {places} times as many in total"
                );
                report.note(zone.directive, text);
            }
        }
    }
}

/// The address form that accepts IPv4 and IPv6.
fn wide(address: &str) -> String {
    address.replace("0.0.0.0:", "[::]:")
}

/// The redirect to HTTPS, if a plain HTTP server does nothing else.
fn redirect<'d>(server: &'d Directive, listens: &[Listen<'_>]) -> Option<&'d Directive> {
    const SAME_HOST: [&str; 3] = ["https://$host$", "https://$http_host$", "https://$server_name$"];
    if listens.iter().any(|listen| listen.is_tls) {
        return None;
    }
    let sends = |directives: &'d [Directive]| {
        directives.iter().find(|of| {
            let to = of.args.last().and_then(|to| SAME_HOST.iter().find_map(|host| to.strip_prefix(host)));
            of.name == "return" && matches!(to, Some("request_uri" | "uri"))
        })
    };
    let inside = server.children();
    let mut locations = inside.iter().filter(|of| of.name == "location");
    match (locations.next(), locations.next()) {
        (None, _) => sends(inside),
        (Some(all), None) if all.args.concat() == "/" && all.children().len() == 1 => sends(all.children()),
        _ => None,
    }
}

fn note_returns<'d>(server: &'d Directive, around: &mut Around<'_, 'd>) {
    for directive in server.children().iter().filter(|of| of.name == "return") {
        around.report.note(
            directive,
            "the gateway only proxies; redirect plain HTTP to HTTPS with `tls.redirect_from`",
        );
    }
}
