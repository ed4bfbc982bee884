//! `hivemind gateway`: an app protected in one line.

use super::rate::Rate;
use crate::app::Origin;
use crate::config::gateway::Upstream;
use crate::reload::Configuration;
use clap::Args;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run the gateway alone: a reverse proxy that limits, in front of an app
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind gateway --upstream http://127.0.0.1:3000 --limit 10/s --burst 20
  hivemind gateway --upstream http://10.0.0.1:80 --upstream http://10.0.0.2:80 --listen 0.0.0.0:8000
  hivemind gateway --config gateway.yaml

Each client has a bucket of --burst requests, which is refilled by --limit. It is known by its session
cookie, bearer token, API key or address; see `gateway.identity`. Over its limit it gets 429 with
Retry-After and a problem as JSON.

--burst 20 admits 20 requests at once. nginx's burst=20 admits 21: there the first one is not counted.
`hivemind import nginx FILE` reckons with that.

No other port is opened than --listen, so that it runs beside a `hivemind serve`; --admin opens the one
with health (/healthz, /readyz) and reload. With --config, everything in the file holds but its gRPC
port; what the command line says goes first, and a changed file is followed. SIGTERM and SIGINT end it
within server.shutdown_grace.")]
pub(super) struct Gateway {
    /// The app: http:// or https:// with host and port; several share the load
    #[arg(long, value_name = "URL", value_parser = upstream)]
    upstream: Vec<Upstream>,

    /// How often a client may ask: 10/s, 600/m, 5/h or 100/d [default: 100/m]
    #[arg(long, value_name = "RATE")]
    limit: Option<Rate>,

    /// How many requests it may make at once [default: as many as --limit has]
    #[arg(long, value_name = "NUMBER")]
    burst: Option<NonZeroU32>,

    /// Where clients come to [default: 127.0.0.1:10080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,

    /// Where health and reload are, as in 127.0.0.1:8080; without it, nowhere
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,

    /// The configuration: YAML, or TOML if its name ends in .toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Take the listening sockets over from the process that runs with the same `server.handover_socket`
    #[arg(long)]
    take_over: bool,
}

impl Gateway {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        if self.upstream.is_empty() && self.config.is_none() {
            anyhow::bail!("nothing to protect; name your app, as in --upstream http://127.0.0.1:3000");
        }
        let mut configuration = Configuration { path: self.config.clone(), over: self.settings() };
        // One line must not clash with a service that runs already.
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
            anyhow::bail!("the configuration has no `gateway`; add one, or name your app by --upstream");
        }
        super::serve::run(&settings, Origin { configuration, loaded }, self.take_over)
    }

    /// What the command line says, as variables of the environment would.
    fn settings(&self) -> Vec<(String, String)> {
        let mut settings = vec![("SERVER__GRPC_PORT", "off".to_owned())];
        if !self.upstream.is_empty() {
            let upstreams: Vec<String> = self.upstream.iter().map(|of| format!("'{of}'")).collect();
            settings
                .push(("GATEWAY__SERVICES", format!("[{{id: app, upstream: [{}]}}]", upstreams.join(", "))));
        }
        if let Some(Rate { requests, window }) = self.limit {
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

fn upstream(text: &str) -> Result<Upstream, String> {
    Upstream::parse(text)
        .ok_or_else(|| "write it as http://127.0.0.1:3000 or https://app.internal, without a path".to_owned())
}
