//! `hivemind gateway`: the gateway in front of one app, configured by flags.

use super::rate::RateArg;
use crate::app::SettingsSource;
use crate::reload::Configuration;
use clap::Args;
use hivemind_gateway::settings::UpstreamUrl;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run only the gateway: a rate limiting reverse proxy in front of an app
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind gateway --upstream http://127.0.0.1:3000 --limit 10/s --burst 20
  hivemind gateway --upstream http://10.0.0.1:80 --upstream http://10.0.0.2:80 --listen 0.0.0.0:8000
  hivemind gateway --config gateway.yaml

Each client has a bucket of --burst requests that --limit refills. A client is identified by its
session cookie, bearer token, API key or address; see `gateway.identity`. Requests over the limit
get 429 with Retry-After and a problem as JSON.

--burst 20 admits 20 requests at once. nginx's burst=20 admits 21, because nginx does not count the
first one. `hivemind import nginx FILE` converts this.

Only --listen is opened, so the gateway can run next to a `hivemind serve`; --admin opens the port
with health (/healthz, /readyz) and reload. With --config everything in the file applies except the
gRPC port; flags override the file, and a changed file is reloaded. SIGTERM and SIGINT stop the
gateway within server.shutdown_grace.")]
pub(super) struct GatewayArgs {
    /// The app: http:// or https:// with host and port; repeat it to balance the load over several
    #[arg(long, value_name = "URL", value_parser = upstream)]
    upstream: Vec<UpstreamUrl>,

    /// Requests that each client may send: 10/s, 600/m, 5/h or 100/d [default: 100/m]
    #[arg(long, value_name = "RATE")]
    limit: Option<RateArg>,

    /// Requests that a client may send at once [default: the number in --limit]
    #[arg(long, value_name = "NUMBER")]
    burst: Option<NonZeroU32>,

    /// The address to listen on [default: 127.0.0.1:10080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// The address for health and reload, such as 127.0.0.1:8080 [default: off]
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,

    /// The configuration: YAML, or TOML if its name ends in .toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Take over the listening sockets of the running process with the same `server.handover_socket`
    #[arg(long)]
    take_over: bool,
}

impl GatewayArgs {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        if self.upstream.is_empty() && self.config.is_none() {
            anyhow::bail!("no app to protect; name it, as in --upstream http://127.0.0.1:3000");
        }
        let mut configuration = Configuration { path: self.config.clone(), over: self.settings() };
        // The defaults must not conflict with a `hivemind serve` on the same machine.
        for (port, host) in [("admin_port", "admin_host"), ("metrics_port", "metrics_host")] {
            if !configuration.says(&format!("server.{port}"))
                && !configuration.says(&format!("server.{host}"))
            {
                configuration.over.push((format!("HIVEMIND_SERVER__{}", port.to_uppercase()), "off".into()));
            }
        }
        let loaded = configuration.load()?;
        let settings = loaded.settings.clone();
        if settings.gateway.is_none() {
            anyhow::bail!("the configuration has no `gateway`; add one, or name your app with --upstream");
        }
        super::serve::run(&settings, SettingsSource { configuration, loaded }, self.take_over)
    }

    /// The flags as environment variables of the configuration.
    fn settings(&self) -> Vec<(String, String)> {
        let mut settings = vec![("SERVER__GRPC_PORT", "off".to_owned())];
        if !self.upstream.is_empty() {
            let upstreams: Vec<String> = self.upstream.iter().map(|of| format!("'{of}'")).collect();
            settings
                .push(("GATEWAY__SERVICES", format!("[{{id: app, upstream: [{}]}}]", upstreams.join(", "))));
        }
        if let Some(RateArg { requests, window }) = self.limit {
            settings.push(("GATEWAY__PLATFORM__REQUESTS", requests.to_string()));
            settings.push(("GATEWAY__PLATFORM__WINDOW", format!("{}s", window.as_secs())));
        }
        if let Some(burst) = self.burst.or(self.limit.map(|limit| limit.requests)) {
            settings.push(("GATEWAY__PLATFORM__BURST", burst.to_string()));
        }
        if let Some(listen) = self.listen {
            settings.push(("GATEWAY__LISTEN", listen.to_string()));
        }
        if let Some(admin) = self.admin {
            settings.push(("SERVER__ADMIN_HOST", admin.ip().to_string()));
            settings.push(("SERVER__ADMIN_PORT", admin.port().to_string()));
        }
        settings.into_iter().map(|(name, value)| (format!("HIVEMIND_{name}"), value)).collect()
    }
}

fn upstream(text: &str) -> Result<UpstreamUrl, String> {
    UpstreamUrl::parse(text)
        .ok_or_else(|| "write it as http://127.0.0.1:3000 or https://app.internal, without a path".to_owned())
}
