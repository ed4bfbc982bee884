//! The first screen: where it listens, and a line to try.

use super::gateway::Running;
use super::listeners::Listeners;
use crate::config::Settings;
use axum::serve::Listener;
use std::io::Write;

const TRY: &str =
    r#"{"domain":"demo","descriptors":[{"entries":[{"key":"remote_address","value":"203.0.113.9"}]}]}"#;
const ANSWER: &str = r#"{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":10,"unit":"SECOND"},"limitRemaining":19,"durationUntilReset":"1s"}]}"#;

pub(super) fn show(listeners: &Listeners, gateway: Option<&Running>, settings: &Settings) {
    // Nobody may be looking; the service runs all the same.
    let _ = write(listeners, gateway, settings);
}

fn write(listeners: &Listeners, gateway: Option<&Running>, settings: &Settings) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let admin = listeners.admin.local_addr()?;
    writeln!(out, "hivemind {}", env!("CARGO_PKG_VERSION"))?;
    if let Some(grpc) = &listeners.grpc {
        writeln!(out, "  rate limit service  grpc://{}", grpc.local_addr()?)?;
        if let Some(path) = &settings.server.grpc_uds {
            writeln!(out, "                      unix:{}", path.display())?;
        }
    }
    if let Some(gateway) = gateway {
        let has_tls = settings.gateway.as_ref().is_some_and(|of| of.front.tls.is_some());
        let scheme = if has_tls { "https" } else { "http" };
        writeln!(out, "  gateway             {scheme}://{}", gateway.address()?)?;
    }
    writeln!(out, "  admin               http://{admin}  (/healthz, /readyz, /json, /rlconfig)")?;
    if let Some(path) = &settings.server.admin_uds {
        writeln!(out, "                      unix:{}", path.display())?;
    }
    match &settings.observability.prometheus_path {
        Some(path) => writeln!(
            out,
            "  metrics             http://{}{}",
            listeners.metrics.local_addr()?,
            path.as_str()
        )?,
        None => writeln!(out, "  metrics             off")?,
    }
    if listeners.grpc.is_none() {
        writeln!(out)?;
    } else if let Some(path) = &settings.rate_limiting.config_path {
        writeln!(out, "  rules               {}", path.display())?;
    } else {
        writeln!(out, "  rules               built-in demo rules; give yours with --rules PATH")?;
        writeln!(out, "\nTry it:\n\n  curl -s http://{admin}/json -d '{TRY}'\n")?;
        writeln!(out, "and it answers:\n\n  {ANSWER}\n")?;
    }
    writeln!(out, "Stop it with Ctrl-C.")?;
    out.flush()
}
