//! The static part of `gateway`: listener, connection limits, response headers and logs.

use super::Listeners;
use super::kinds::{HEAD_BYTES, HEAD_COUNT, LIMIT_HEADERS, LISTEN_AT, LOG};
use super::{Front, LimitHeaders, ListenerTls, LogTarget, clients, tls};
use hivemind_config::ports::clash;
use hivemind_config::reader::Section;
use hivemind_config::value_kind::{COUNT, SPAN, count_up_to};
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::time::Duration;

const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10_080);
const CONNECTIONS: NonZeroUsize = NonZeroUsize::new(16_384).unwrap();
/// More connections than any port can have.
const MOST_CONNECTIONS: usize = 1_000_000;

pub(super) fn read(section: &mut Section<'_, '_>, others: Listeners<'_>) -> Front {
    let listen = section.read("listen", &LISTEN_AT).unwrap_or(LISTEN);
    let tls = tls::read(section);
    check_ports(section, listen, tls.as_ref(), others);
    let max_connections =
        section.read("max_connections", &count_up_to(MOST_CONNECTIONS)).unwrap_or(CONNECTIONS);
    if max_connections.get() > MOST_CONNECTIONS {
        let cause = format!("`gateway.max_connections` is at most {MOST_CONNECTIONS}");
        section.refuse(
            "max_connections",
            cause,
            "choose a smaller number; the limit of open files must be above it as well",
        );
    }
    let mut time = |key: &str, seconds: u64| section.read(key, &SPAN).unwrap_or(Duration::from_secs(seconds));
    let header_timeout = time("header_timeout", 10);
    let idle_timeout = time("idle_timeout", 60);
    let access_log = section.read("access_log", &LOG).flatten();
    let refusal_log = section.read("refusal_log", &LOG).unwrap_or(Some(LogTarget::Stdout));
    if let (Some(LogTarget::File(path)), true) = (&access_log, access_log == refusal_log) {
        let cause = format!("`gateway.access_log` and `gateway.refusal_log` are both {}", path.display());
        section.refuse("access_log", cause, "give each its own file: they are read by different programs");
    }
    Front {
        listen,
        tls,
        max_connections,
        max_connections_per_client: section.read("max_connections_per_client", &COUNT),
        header_timeout,
        idle_timeout,
        max_header_bytes: section.read("max_header_bytes", &HEAD_BYTES).unwrap_or(32 << 10),
        max_headers: section.read("max_headers", &HEAD_COUNT).unwrap_or(100),
        clients: clients::read(section),
        keeps_override_headers: section
            .choice("override_headers", &[("remove", false), ("keep", true)])
            .unwrap_or(false),
        headers: section.choice("headers", LIMIT_HEADERS).unwrap_or(LimitHeaders::Both),
        reset_is_delta: section.choice("reset", &[("epoch", false), ("delta", true)]).unwrap_or(false),
        text_body: section.choice("body", &[("problem", false), ("text", true)]).unwrap_or(false),
        access_log,
        refusal_log,
    }
}

/// Two listeners cannot have one port.
fn check_ports(
    section: &mut Section<'_, '_>,
    listen: SocketAddr,
    tls: Option<&ListenerTls>,
    others: Listeners<'_>,
) {
    if !section.is_there() {
        return;
    }
    let remedy = "give each its own port; 0 is any that is free";
    if let Some((other, _)) = others.iter().find(|(_, other)| clash(*other, listen)) {
        let cause = format!("`gateway.listen` and `server.{other}` are both {}", listen.port());
        section.refuse("listen", cause, remedy);
    }
    let Some(redirect) = tls.and_then(|tls| tls.redirect_from) else { return };
    let mut others = others.iter().map(|(key, other)| (format!("server.{key}"), *other));
    let gateway = ("gateway.listen".to_owned(), listen);
    if let Some((other, _)) = others.by_ref().chain([gateway]).find(|(_, other)| clash(*other, redirect)) {
        let cause = format!("`gateway.tls.redirect_from` and `{other}` are both {}", redirect.port());
        section.section("tls").refuse("redirect_from", cause, remedy);
    }
}
