//! Startup banner: the addresses, and a command to try.

use super::limited_listener::LimitedListener;
use super::listeners::Listeners;
use crate::settings::Settings;
use hivemind_engine::mesh::RunningMesh;
use hivemind_gateway::settings::GatewaySettings;
use hivemind_tls::security::Security;
use std::io::Write;
use std::net::SocketAddr;

/// The banner stays on one screen.
const MOST_SERVICES: usize = 10;

const TRY: &str =
    r#"{"domain":"demo","descriptors":[{"entries":[{"key":"remote_address","value":"203.0.113.9"}]}]}"#;
const ANSWER: &str = r#"{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":10,"unit":"SECOND"},"limitRemaining":19,"durationUntilReset":"1s"}]}"#;

pub(super) fn print(listeners: &Listeners, settings: &Settings, mesh: Option<&RunningMesh>) {
    // Standard output may be closed; the service runs anyway.
    let _ = write(listeners, settings, mesh);
}

fn write(listeners: &Listeners, settings: &Settings, mesh: Option<&RunningMesh>) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "hivemind {}", env!("CARGO_PKG_VERSION"))?;
    if let Some(grpc) = &listeners.grpc {
        let scheme = if settings.security.grpc_tls.is_some() { "grpcs" } else { "grpc" };
        writeln!(out, "  rate limit service  {scheme}://{}", grpc.local_addr()?)?;
    }
    if let Some(path) = &settings.server.grpc_uds {
        writeln!(out, "  rate limit service  unix:{}", path.display())?;
    }
    if let (Some(listener), Some(gateway)) = (&listeners.gateway, &settings.gateway) {
        protected(&mut out, listener.local_addr()?, gateway)?;
    }
    if let Some(redirect) = &listeners.redirect {
        writeln!(out, "  redirect to https   http://{}", redirect.local_addr()?)?;
    }
    if let Some(mesh) = mesh {
        writeln!(out, "  mesh                {} as {}", mesh.address(), mesh.name())?;
    }
    let admin = listeners.admin.as_ref().map(LimitedListener::local_addr).transpose()?;
    if let Some(admin) = admin {
        let scheme = scheme(settings.security.admin_tls.is_some());
        writeln!(
            out,
            "  admin               {scheme}://{admin}  (a dashboard, /healthz, /readyz, /json, /api/v1)"
        )?;
    }
    if let Some(path) = &settings.server.admin_uds {
        writeln!(out, "  admin               unix:{}", path.display())?;
    }
    if let Some(metrics) = &listeners.metrics {
        let metrics = metrics.local_addr()?;
        match &settings.observability.prometheus_path {
            Some(path) => {
                let scheme = scheme(settings.security.metrics_tls.is_some());
                writeln!(out, "  metrics             {scheme}://{metrics}{}", path.as_str())?;
            }
            None => writeln!(out, "  metrics             off")?,
        }
    }
    if let Some(path) = &settings.rate_limiting.config_path {
        writeln!(out, "  rules               {}", path.display())?;
    } else if let Some(admin) = admin.filter(|_| settings.server.has_calls()) {
        writeln!(out, "  rules               built-in demo rules; use your own with --rules PATH")?;
        // A command that needs a key or a CA is not easy to try.
        if settings.security == Security::default() {
            writeln!(out, "\nTry it:\n\n  curl -s http://{admin}/json -d '{TRY}'\n")?;
            writeln!(out, "It returns:\n\n  {ANSWER}\n")?;
        }
    }
    if let (Some(listener), Some(gateway), false) =
        (&listeners.gateway, &settings.gateway, settings.server.has_calls())
    {
        try_gateway(&mut out, listener.local_addr()?, gateway)?;
    }
    writeln!(out, "Stop it with Ctrl-C.")?;
    out.flush()
}

/// The services that the gateway protects.
fn protected(out: &mut impl Write, at: SocketAddr, gateway: &GatewaySettings) -> std::io::Result<()> {
    writeln!(out, "  gateway             {}", url(at, gateway))?;
    for service in gateway.routing.services.iter().take(MOST_SERVICES) {
        let hosts = service.hosts.join(", ");
        let upstreams: Vec<String> = service.upstreams.iter().map(ToString::to_string).collect();
        writeln!(out, "    {:<17} {hosts}{} -> {}", service.id, service.path_prefix, upstreams.join(", "))?;
    }
    let more = gateway.routing.services.len().saturating_sub(MOST_SERVICES);
    if more > 0 {
        writeln!(out, "    and {more} more services")?;
    }
    Ok(())
}

/// A command that shows a limit at work.
fn try_gateway(out: &mut impl Write, at: SocketAddr, gateway: &GatewaySettings) -> std::io::Result<()> {
    let Some(service) = gateway.routing.services.first() else { return Ok(()) };
    let host = service.hosts.first().map(|host| format!(" -H 'Host: {}'", host.replace('*', "www")));
    let (host, url) = (host.unwrap_or_default(), url(at, gateway));
    writeln!(out, "\nTry it:\n\n  curl -i{host} {url}{}\n", service.path_prefix)?;
    writeln!(
        out,
        "The headers RateLimit-Policy and RateLimit show the limit and what is left of it; requests over the"
    )?;
    writeln!(out, "limit get 429 with Retry-After.\n")
}

fn url(at: SocketAddr, gateway: &GatewaySettings) -> String {
    format!("{}://{at}", scheme(gateway.front.tls.is_some()))
}

const fn scheme(has_tls: bool) -> &'static str {
    if has_tls { "https" } else { "http" }
}
