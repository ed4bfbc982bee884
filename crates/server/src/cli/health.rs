//! `hivemind health`: how a running service is, for whoever has no curl.

use super::client::{Client, Question};
use crate::config::Settings;
use crate::reload::Configuration;
use anyhow::{Context, bail};
use clap::Args;
use hivemind_config::kind::duration;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Ask a running service how it is: exit 0 if it serves, 1 if not
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind health                                   at http://127.0.0.1:8080, or where the environment says
  hivemind health --ready --config hivemind.yaml    at the admin port or socket of a configuration
  hivemind health --url unix:/run/hivemind/admin.sock

Without --ready it asks /healthz, which answers as long as the process serves: for restarts. With it /readyz, which says
whether calls should come: for traffic. For probes of containers: HEALTHCHECK CMD [\"/usr/bin/hivemind\", \"health\"].")]
pub(super) struct Health {
    /// The service: http://host:port, https://host:port or unix:PATH
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    url: Option<String>,

    /// The CA that the certificate of an https:// URL is checked with [default: the system's]
    #[arg(long, value_name = "FILE", requires = "url")]
    ca: Option<PathBuf>,

    /// The configuration that the service runs with: its admin port, or its socket where that is all there is
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Ask whether calls should come to it, too
    #[arg(long)]
    ready: bool,

    /// How long it may take
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = time)]
    timeout: Duration,
}

impl Health {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let service = if let Some(url) = &self.url {
            Client::at_url(url, None, self.ca.as_deref())?
        } else {
            let configuration = Configuration { path: self.config.clone(), over: Vec::new() };
            configured(&configuration.load()?.settings)?
        };
        let path = if self.ready { "/readyz" } else { "/healthz" };
        let place = format!("{}{path}", service.url().trim_end_matches('/'));
        let question = Question::get(path).in_words();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let asked =
            runtime.block_on(async { tokio::time::timeout(self.timeout, service.ask(&question)).await });
        // A name that is still being looked up is not waited for.
        runtime.shutdown_background();
        let answer = match asked {
            Ok(answer) => answer.with_context(|| format!("{place} does not answer"))?,
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

/// Where a service with these settings is asked from its own machine.
fn configured(settings: &Settings) -> anyhow::Result<Client> {
    let (server, tls) = (&settings.server, &settings.security.admin_tls);
    // A port that asks for certificates is not opened by a command that has none.
    let asks_for_more = tls.as_ref().is_some_and(|files| files.client_ca.is_some());
    match (server.admin.filter(|at| at.port() != 0), &server.admin_uds) {
        (None, Some(path)) => Ok(Client::at_socket(path)),
        (Some(_), Some(path)) if asks_for_more => Ok(Client::at_socket(path)),
        (Some(_), None) if asks_for_more => bail!(
            "the admin port asks for certificates (`security.admin.tls.client_ca`), and this command has none; set \
             `server.admin_uds`, and it asks there"
        ),
        (Some(mut at), _) => {
            match at.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => at.set_ip(Ipv4Addr::LOCALHOST.into()),
                IpAddr::V6(ip) if ip.is_unspecified() => at.set_ip(Ipv6Addr::LOCALHOST.into()),
                _ => {}
            }
            Client::at(at, tls.as_ref().map(|files| files.certificate.cert.as_path()))
        }
        (None, None) => bail!(
            "nobody can be asked: the configuration has no admin port that is known beforehand, and no \
             `server.admin_uds`; set one of them, or name the service by --url"
        ),
    }
}

fn time(text: &str) -> Result<Duration, String> {
    duration(text)
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "write it with its unit, as in 2s or 500ms".to_owned())
}
