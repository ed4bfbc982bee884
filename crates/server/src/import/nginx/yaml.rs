//! YAML output of the section, with notes as comments.

use super::key::ZoneIdentity;
use super::limit::ImportedLimit;
use super::report::ImportNote;
use super::section::GatewaySection;
use super::server::ImportedService;
use std::fmt::{self, Write};

pub(super) fn write(section: &GatewaySection, notes: &[ImportNote]) -> String {
    let mut out = String::new();
    let _ = section_to(&mut out, section, notes); // Writing to a string cannot fail.
    out
}

fn section_to(out: &mut String, section: &GatewaySection, notes: &[ImportNote]) -> fmt::Result {
    writeln!(
        out,
        "# Created by `hivemind import nginx`. Check it with `hivemind check`, and run it with `hivemind serve --config`."
    )?;
    if !notes.is_empty() {
        writeln!(out, "#\n# Not converted, or not exactly:")?;
        for note in notes {
            writeln!(out, "#   {note}")?;
        }
    }
    server(out, section)?;
    writeln!(out, "\ngateway:")?;
    match &section.listen {
        Some(listen) => writeln!(out, "  listen: {}", quoted(listen))?,
        None => writeln!(out, "  # No `listen` found; the default is 127.0.0.1:10080.")?,
    }
    tls(out, section)?;
    if !section.client_ip.trusted_proxies.is_empty() {
        let proxies: Vec<String> = section.client_ip.trusted_proxies.iter().map(|of| quoted(of)).collect();
        writeln!(out, "  client_ip: {{trusted_proxies: [{}], header: x-forwarded-for}}", proxies.join(", "))?;
    }
    writeln!(
        out,
        "  # nginx counts each IPv6 address; the gateway counts each /64, unless `client_ip.ipv6_prefix` is set."
    )?;
    writeln!(out, "  identity: {}", section.identity.as_ref().unwrap_or(&ZoneIdentity::Address).steps())?;
    if let Some(ZoneIdentity::SessionCookie(cookie)) = &section.identity {
        writeln!(out, "  session_cookie: {cookie}")?;
    }
    writeln!(out, "  # nginx does not limit WebSockets: opening one counts like any request.")?;
    writeln!(
        out,
        "  platform: {{websocket: {{connections: {{enabled: false}}, messages: {{enabled: false}}}}}}"
    )?;
    writeln!(out, "  services:")?;
    section.services.iter().try_for_each(|of| service(out, of))
}

/// Disables the Envoy service, and moves operator ports that conflict with nginx's.
fn server(out: &mut String, section: &GatewaySection) -> fmt::Result {
    let taken: Vec<u16> = [&section.listen, &section.redirect_from]
        .into_iter()
        .flatten()
        .filter_map(|address| address.rsplit(':').next()?.parse().ok())
        .collect();
    writeln!(out, "\nserver:\n  grpc_port: off # The rate limit service for Envoy is not needed.")?;
    for (key, port, instead) in [("admin_port", 8080, 18080), ("metrics_port", 9090, 19090)] {
        if taken.contains(&port) {
            writeln!(out, "  {key}: {instead} # The default {port} is used by nginx.")?;
        }
    }
    Ok(())
}

fn tls(out: &mut String, section: &GatewaySection) -> fmt::Result {
    if section.certificates.is_empty() {
        return Ok(());
    }
    writeln!(out, "  tls:\n    certificates:")?;
    for (cert, key) in &section.certificates {
        writeln!(out, "      - {{cert: {}, key: {}}}", quoted(cert), quoted(key))?;
    }
    if let Some(from) = &section.redirect_from {
        writeln!(out, "    redirect_from: {}", quoted(from))?;
    }
    if section.only_tls13 {
        writeln!(out, "    min_version: 1.3")?;
    }
    Ok(())
}

fn service(out: &mut String, service: &ImportedService) -> fmt::Result {
    let manner = &service.manner;
    writeln!(out, "    # {}", service.place)?;
    writeln!(out, "    - id: {}", quoted(&service.id))?;
    if !service.hosts.is_empty() {
        let hosts: Vec<String> = service.hosts.iter().map(|host| quoted(host)).collect();
        writeln!(out, "      host: [{}]", hosts.join(", "))?;
    }
    if service.prefix != "/" {
        writeln!(out, "      path_prefix: {}", quoted(&service.prefix))?;
    }
    let upstreams: Vec<String> = manner.upstreams.iter().map(|url| quoted(url)).collect();
    writeln!(out, "      upstream: [{}]", upstreams.join(", "))?;
    if let Some(ca) = &manner.upstream_ca {
        writeln!(out, "      upstream_ca: {}", quoted(ca))?;
    }
    writeln!(out, "      host_header: {}", quoted(&manner.host_header))?;
    if manner.strip_prefix && service.prefix != "/" {
        writeln!(out, "      strip_prefix: true")?;
    }
    writeln!(out, "      max_body: {}", manner.max_body)?;
    if !manner.timeouts.is_empty() {
        let times: Vec<String> = manner.timeouts.iter().map(|(key, time)| format!("{key}: {time}")).collect();
        writeln!(out, "      timeouts: {{{}}}", times.join(", "))?;
    }
    write!(out, "      limits: ")?;
    limit(out, service.limit.as_ref())?;
    if !service.endpoints.is_empty() {
        writeln!(out, "      endpoints:")?;
    }
    for endpoint in &service.endpoints {
        writeln!(out, "        - id: {}\n          path: {}", quoted(&endpoint.id), quoted(&endpoint.path))?;
        write!(out, "          limits: ")?;
        limit(out, endpoint.limit.as_ref())?;
    }
    Ok(())
}

/// Writes a limit on one line, with its origin in a comment.
fn limit(out: &mut String, limit: Option<&ImportedLimit>) -> fmt::Result {
    let Some(limit) = limit else {
        return writeln!(
            out,
            "{{requests: 1000000, window: 1s, burst: 1000000}} # no limit was converted for it"
        );
    };
    let ImportedLimit { zone, requests, seconds, burst, delay_after, dry_run } = limit;
    write!(out, "{{requests: {requests}, window: {seconds}s, burst: {burst}, ")?;
    match delay_after {
        Some(after) => write!(out, "mode: delay, delay_after: {after}")?,
        None => write!(out, "mode: reject")?,
    }
    // Written only if true: unset values come from the platform, and `false` would override the platform.
    if *dry_run {
        write!(out, ", dry_run: true")?;
    }
    let nginx = burst.saturating_sub(1);
    writeln!(out, "}} # zone={zone}; nginx's burst={nginx} is {burst} here")
}

/// Quotes text unless it is plain, so that YAML reads it as a string.
fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"./_-".contains(&byte);
    let is_word = text.bytes().all(plain)
        && text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'/');
    if is_word { text.to_owned() } else { format!("'{}'", text.replace('\'', "''")) }
}
