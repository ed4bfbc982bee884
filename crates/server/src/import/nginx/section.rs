//! Everything that a `gateway` section is made of.

use super::context::Context;
use super::key::Identity;
use super::limit::Limits;
use super::location::Around;
use super::others;
use super::real_ip::ClientIp;
use super::report::Report;
use super::server::{self, Listen, Service};
use super::tree::Directive;
use super::zone;
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct Section {
    pub(super) listen: Option<String>,
    pub(super) redirect_from: Option<String>,
    pub(super) certificates: Vec<(String, String)>,
    pub(super) only_tls13: bool,
    pub(super) client_ip: ClientIp,
    pub(super) identity: Option<Identity>,
    pub(super) services: Vec<Service>,
}

const IN_HTTP: [&str; 3] = ["server", "upstream", "limit_req_zone"];

impl Section {
    pub(super) fn of(directives: &[Directive], report: &mut Report) -> Self {
        let http = directives.iter().find(|directive| directive.name == "http");
        // A file that others include begins inside of `http`.
        let block = http.map_or(directives, Directive::children);
        if http.is_some() {
            others::tell(directives, &[&["http"]], report);
        }
        others::tell(block, &[&IN_HTTP, &Context::DIRECTIVES, &ClientIp::DIRECTIVES], report);
        let upstreams: Vec<&Directive> = block.iter().filter(|of| of.name == "upstream").collect();
        let servers: Vec<&Directive> = block.iter().filter(|of| of.name == "server").collect();
        let mut limits = Limits { zones: zone::read(block, report), identity: None };
        let mut section = Self::default();
        let mut client_ip = ClientIp::default();
        client_ip.add(block, report);
        let context = Context::default().within(block);
        let mut around =
            Around { upstreams: &upstreams, limits: &mut limits, client_ip: &mut client_ip, report };
        let listens: Vec<Vec<Listen<'_>>> =
            servers.iter().map(|server| server::listens(server, &mut around)).collect();
        let default = listens.iter().position(|all| all.iter().any(|listen| listen.is_default)).unwrap_or(0);
        section.listen_on(&listens, &servers, &mut around);
        for (index, server) in servers.iter().enumerate() {
            if is_redirect(server) && section.redirect_from.is_some() {
                continue;
            }
            section.certify(server, &mut around);
            let services = server::services(server, index == default, &context, &mut around);
            section.services.extend(services);
            tell_returns(server, &mut around);
        }
        section.identity = limits.identity.clone();
        section.client_ip = client_ip;
        section.name_apart();
        section.tell_shared(&limits, report);
        section
    }

    /// One address to listen on, and one that sends to HTTPS.
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
                // Both at once are `[::]`, which takes IPv4 as well.
                Some(of) if of.address.replace("0.0.0.0:", "[::]:") == listen.address => Some(listen),
                Some(of)
                    if of.address == listen.address
                        || of.address == listen.address.replace("0.0.0.0:", "[::]:") =>
                {
                    Some(of)
                }
                Some(of) => {
                    let text = format!(
                        "the gateway listens on one address, `{}`; run another one for this",
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
                let redirects = is_redirect(server);
                match &self.redirect_from {
                    None if redirects => self.redirect_from = Some(listen.address.clone()),
                    Some(from) if redirects && from.replace("0.0.0.0:", "[::]:") == listen.address => {
                        self.redirect_from = Some(listen.address.clone());
                    }
                    Some(from) if redirects && *from == listen.address => {}
                    _ => around.report.note(
                        listen.directive,
                        "the gateway speaks TLS on its one address; plain HTTP it sends there (`tls.redirect_from`)",
                    ),
                }
            }
        }
    }

    fn certify<'d>(&mut self, server: &'d Directive, around: &mut Around<'_, 'd>) {
        let all = |name: &'static str| server.children().iter().filter(move |of| of.name == name);
        for (cert, key) in all("ssl_certificate").zip(all("ssl_certificate_key")) {
            let pair = (cert.arg(0).to_owned(), key.arg(0).to_owned());
            if pair.0.contains('$') || pair.0.starts_with("data:") {
                around.report.note(cert, "the gateway reads certificates from files with a fixed name");
            } else if !self.certificates.contains(&pair) {
                self.certificates.push(pair);
            }
        }
        for protocols in all("ssl_protocols") {
            self.only_tls13 = protocols.args.iter().all(|protocol| protocol == "TLSv1.3");
            if protocols.args.iter().any(|protocol| !["TLSv1.2", "TLSv1.3"].contains(&protocol.as_str())) {
                around.report.note(protocols, "the gateway speaks TLS 1.2 and 1.3, and nothing older");
            }
        }
    }

    /// No two services have one name, and none is too long.
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

    /// A zone in several places is one bucket for each client to nginx, and several to the gateway.
    fn tell_shared(&self, limits: &Limits<'_>, report: &mut Report) {
        for (name, zone) in &limits.zones {
            let of_service = |service: &Service| {
                let endpoints = service.endpoints.iter().filter_map(|endpoint| endpoint.limit.as_ref());
                service.limit.iter().chain(endpoints).filter(|limit| limit.zone == *name).count()
            };
            let places: usize = self.services.iter().map(of_service).sum();
            if let Some(zone) = zone.as_ref().filter(|_| places > 1) {
                let text = format!(
                    "in nginx the {places} places that use `{name}` share a client's requests; here each service and \
                     endpoint counts its own, so that a client may have {places} times as many in all"
                );
                report.note(zone.directive, text);
            }
        }
    }
}

/// Whether a server does nothing but send to HTTPS.
fn is_redirect(server: &Directive) -> bool {
    let inside = server.children();
    let sends = |directives: &[Directive]| {
        directives
            .iter()
            .any(|of| of.name == "return" && of.args.last().is_some_and(|to| to.starts_with("https://")))
    };
    let locations: Vec<&Directive> = inside.iter().filter(|of| of.name == "location").collect();
    sends(inside) && locations.is_empty()
        || locations.len() == 1 && locations.iter().all(|of| of.args.concat() == "/" && sends(of.children()))
}

fn tell_returns<'d>(server: &'d Directive, around: &mut Around<'_, 'd>) {
    for directive in server.children().iter().filter(|of| of.name == "return") {
        around
            .report
            .note(directive, "the gateway only proxies; plain HTTP it sends to HTTPS by `tls.redirect_from`");
    }
}
