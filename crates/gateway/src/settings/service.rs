//! `gateway.services`: services behind the gateway, and their endpoints.

use super::kinds::{
    FORWARDED_HEADERS, HOST, HOST_HEADER, ID, MAX_BODY, METHOD, PATTERN, PREFIX, SPAN_OR_OFF, UPSTREAM,
};
use super::{
    EndpointSettings, ForwardedHeaders, HostHeader, Platform, ServiceSettings, Timeouts, limit, limits,
    websocket,
};
use hivemind_config::reader::Section;
use hivemind_config::value_kind::{FLAG, PATH, SPAN};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Longer lists are generated or mistaken.
const MOST_SERVICES: usize = 1_000;
const MOST_ENDPOINTS: usize = 500;
const MOST_UPSTREAMS: usize = 100;
const MOST_HOSTS: usize = 100;

/// Values of the gateway that its services inherit.
struct Common {
    max_body: Option<u64>,
    forwarded: ForwardedHeaders,
    timeouts: Timeouts,
}

const MAX_BODY_BYTES: u64 = 10_000_000;
const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(5),
    response: Duration::from_secs(60),
    idle: Duration::from_secs(60),
    total: None,
};

/// Hosts with prefixes, and ids, that earlier services use.
#[derive(Default)]
struct ServiceNames {
    ids: HashSet<String>,
    places: HashMap<(Option<String>, String), String>,
}

pub(super) fn read_all(section: &mut Section<'_, '_>, platform: Option<&Platform>) -> Vec<ServiceSettings> {
    let common = Common {
        max_body: section.read("max_body", &MAX_BODY).unwrap_or(Some(MAX_BODY_BYTES)),
        forwarded: section.choice("forwarded", FORWARDED_HEADERS).unwrap_or(ForwardedHeaders::XForwarded),
        timeouts: timeouts(section.section("timeouts"), TIMEOUTS),
    };
    let (mut services, mut names) = (Vec::new(), ServiceNames::default());
    section.each("services", |item| {
        let before = item.mistakes();
        let service = read(item, &common);
        if let Some(platform) = platform.filter(|_| item.is_there() && item.mistakes() == before) {
            limits::check_service(item, &service, platform);
        }
        if item.is_there() && services.len() < MOST_SERVICES {
            names.check(item, &service);
            services.push(service);
        } else if services.len() == MOST_SERVICES {
            let cause = format!("`gateway.services` has more than {MOST_SERVICES} services");
            item.lacks(cause, "run several gateways");
        }
    });
    services
}

fn read(section: &mut Section<'_, '_>, common: &Common) -> ServiceSettings {
    let id = required(section, "id", "a service");
    let hosts = section.one_or_list("host", &HOST);
    let path_prefix = section.read("path_prefix", &PREFIX).unwrap_or_else(|| "/".to_owned());
    let upstreams = section.one_or_list("upstream", &UPSTREAM);
    if section.is_there() && !section.has("upstream") {
        let remedy = "add its URL, as in `upstream: http://127.0.0.1:3000`";
        section.lacks("this service has no `upstream`".to_owned(), remedy);
    }
    for (key, count, most) in
        [("upstream", upstreams.len(), MOST_UPSTREAMS), ("host", hosts.len(), MOST_HOSTS)]
    {
        if count > most {
            let cause = format!("`{}` has {count} items, at most {most} are allowed", section.path(key));
            section.refuse(key, cause, "split it into several services");
        }
    }
    let upstream_ca = section.read("upstream_ca", &PATH);
    if upstream_ca.is_some() && !upstreams.iter().any(|upstream| upstream.is_tls) {
        let cause = "`upstream_ca` has no effect: none of the upstreams uses TLS";
        section.refuse("upstream_ca", cause.to_owned(), "write `https://`, or leave `upstream_ca` out");
    }
    ServiceSettings {
        http2: section.read("http2", &FLAG).unwrap_or(false),
        host_header: section.read("host_header", &HOST_HEADER).unwrap_or(HostHeader::Keep),
        strip_prefix: section.read("strip_prefix", &FLAG).unwrap_or(false),
        forwarded: section.choice("forwarded", FORWARDED_HEADERS).unwrap_or(common.forwarded),
        max_body: section.read("max_body", &MAX_BODY).unwrap_or(common.max_body),
        timeouts: timeouts(section.section("timeouts"), common.timeouts),
        limit: limit::read(&mut section.section("limits")),
        endpoints: endpoints(section, &path_prefix),
        websocket: websocket::read(section.section("websocket")),
        id,
        hosts,
        path_prefix,
        upstreams,
        upstream_ca,
    }
}

/// A required name. Empty if it is absent, which is reported.
fn required(section: &mut Section<'_, '_>, key: &str, what: &str) -> String {
    let name = section.read(key, &ID);
    if section.is_there() && !section.has(key) {
        let remedy = "name it in letters, digits, `-`, `_` and `.`, as in `id: users`";
        section.lacks(
            format!("{what} needs an `{key}`, which names its limits in counters and headers"),
            remedy,
        );
    }
    name.unwrap_or_default()
}

fn endpoints(section: &mut Section<'_, '_>, prefix: &str) -> Vec<EndpointSettings> {
    let (mut endpoints, mut ids) = (Vec::new(), HashSet::new());
    section.each("endpoints", |item| {
        let id = required(item, "id", "an endpoint");
        let path = item.read("path", &PATTERN);
        let methods = item.one_or_list("methods", &METHOD);
        let limit = limit::read(&mut item.section("limits"));
        if !item.is_there() {
            return;
        }
        if !item.has("path") {
            item.lacks("this endpoint has no `path`".to_owned(), "add it, as in `path: /users/{id}`");
        }
        if !id.is_empty() && !ids.insert(id.clone()) {
            let cause = format!("two endpoints of one service have the id `{id}`");
            item.refuse("id", cause, "give each its own: its limit is counted by it");
        }
        let path = path.unwrap_or_default();
        if !path.is_empty() && !is_below(&path, prefix) {
            let cause = format!("this path is outside its service, whose prefix is `{prefix}`");
            item.refuse("path", cause, "write the whole path as clients request it");
        }
        if endpoints.len() == MOST_ENDPOINTS {
            item.lacks(
                format!("a service has at most {MOST_ENDPOINTS} endpoints"),
                "split it into two services",
            );
        }
        endpoints.push(EndpointSettings { id, path, methods, limit });
    });
    endpoints
}

/// Whether a pattern is below this prefix. `{name}` matches any segment.
fn is_below(path: &str, prefix: &str) -> bool {
    let mut parts = path.split('/');
    prefix
        .split('/')
        .filter(|part| !part.is_empty() || prefix != "/")
        .all(|wanted| parts.next().is_some_and(|part| part == wanted || part.contains('{')))
}

fn timeouts(mut section: Section<'_, '_>, below: Timeouts) -> Timeouts {
    Timeouts {
        connect: section.read("connect", &SPAN).unwrap_or(below.connect),
        response: section.read("response", &SPAN).unwrap_or(below.response),
        idle: section.read("idle", &SPAN).unwrap_or(below.idle),
        total: section.read("total", &SPAN_OR_OFF).unwrap_or(below.total),
    }
}

impl ServiceNames {
    fn check(&mut self, item: &mut Section<'_, '_>, service: &ServiceSettings) {
        let id = &service.id;
        if !id.is_empty() && !self.ids.insert(id.clone()) {
            let remedy = "give each its own: its clients are counted by it";
            item.refuse("id", format!("two services have the id `{id}`"), remedy);
        }
        let hosts: Vec<Option<&String>> =
            if service.hosts.is_empty() { vec![None] } else { service.hosts.iter().map(Some).collect() };
        for host in hosts {
            let place = (host.cloned(), service.path_prefix.clone());
            let Some(other) = self.places.insert(place, id.clone()) else { continue };
            let host = host.map_or("any host", String::as_str);
            let cause = format!("`{other}` already has {host} with `{}`", service.path_prefix);
            let key = ["path_prefix", "host", "id"].into_iter().find(|key| item.has(key)).unwrap_or("id");
            item.refuse(key, cause, "give one of the two a different `host` or `path_prefix`");
        }
    }
}
