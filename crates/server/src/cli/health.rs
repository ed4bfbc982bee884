//! `hivemind health`: the health of a running service, for containers without curl.

use super::client::{AdminClient, AdminRequest};
use crate::reload::Configuration;
use crate::settings::Settings;
use anyhow::{Context, bail};
use clap::Args;
use hivemind_config::value_kind::duration;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Check the health of a running service: exit 0 if it is healthy, 1 if not
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind health                                   http://127.0.0.1:8080, or as the environment says
  hivemind health --ready --config hivemind.yaml    the admin port or socket of a configuration
  hivemind health --url unix:/run/hivemind/admin.sock

Without --ready the command requests /healthz, which succeeds while the process serves: use it to
decide on restarts. With --ready it requests /readyz, which succeeds while the service should
receive traffic. For container probes: HEALTHCHECK CMD [\"/usr/bin/hivemind\", \"health\"].")]
pub(super) struct HealthArgs {
    /// The service: http://host:port, https://host:port or unix:PATH
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    url: Option<String>,

    /// The CA to verify the certificate of an https:// URL [default: the system's]
    #[arg(long, value_name = "FILE", requires = "url")]
    ca: Option<PathBuf>,

    /// The configuration of the service: its admin port is used, or its admin socket if it has no port
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Also check whether the service should receive traffic
    #[arg(long)]
    ready: bool,

    /// Time limit
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    timeout: Duration,
}

impl HealthArgs {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let service = if let Some(url) = &self.url {
            AdminClient::at_url(url, None, self.ca.as_deref())?
        } else {
            let configuration = Configuration { path: self.config.clone(), over: Vec::new() };
            configured(&configuration.load()?.settings)?
        };
        let path = if self.ready { "/readyz" } else { "/healthz" };
        let place = format!("{}{path}", service.url().trim_end_matches('/'));
        let question = AdminRequest::get(path).in_words();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let asked =
            runtime.block_on(async { tokio::time::timeout(self.timeout, service.ask(&question)).await });
        // Do not wait for a name that is still being resolved.
        runtime.shutdown_background();
        let answer = match asked {
            Ok(answer) => answer.with_context(|| format!("{place} did not answer"))?,
            Err(_) => bail!("{place} did not answer within {:?}", self.timeout),
        };
        let said = answer.text.lines().collect::<Vec<_>>().join("; ");
        if answer.status.is_success() {
            writeln!(std::io::stdout(), "{place}: {said}")?;
            return Ok(ExitCode::SUCCESS);
        }
        bail!("{place} answers {}: {said}", answer.status.as_u16())
    }
}

/// The client for a service with these settings on this machine.
fn configured(settings: &Settings) -> anyhow::Result<AdminClient> {
    let (server, tls) = (&settings.server, &settings.security.admin_tls);
    // This command has no client certificate.
    let asks_for_more = tls.as_ref().is_some_and(|files| files.client_ca.is_some());
    match (server.admin.filter(|at| at.port() != 0), &server.admin_uds) {
        (None, Some(path)) => Ok(AdminClient::at_socket(path)),
        (Some(_), Some(path)) if asks_for_more => Ok(AdminClient::at_socket(path)),
        (Some(_), None) if asks_for_more => bail!(
            "the admin port requires client certificates (`security.admin.tls.client_ca`), and this command has none; \
             set `server.admin_uds` to check health there"
        ),
        (Some(mut at), _) => {
            match at.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => at.set_ip(Ipv4Addr::LOCALHOST.into()),
                IpAddr::V6(ip) if ip.is_unspecified() => at.set_ip(Ipv6Addr::LOCALHOST.into()),
                _ => {}
            }
            AdminClient::at(at, tls.as_ref().map(|files| files.certificate.cert.as_path()))
        }
        (None, None) => bail!(
            "the configuration has neither a fixed admin port nor `server.admin_uds`; set one of them, or use --url"
        ),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    duration(text)
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "write it with its unit, as in 2s or 500ms".to_owned())
}
