//! `hivemind serve`: runs every configured component.

use crate::app::{self, Inheritance, SettingsSource};
use crate::reload::Configuration;
use crate::settings::Settings;
use crate::systemd;
use anyhow::Context;
use clap::Args;
use hivemind_core::SystemClock;
use hivemind_telemetry::logging;
use rustix::process::{Signal, getpid, kill_process};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run all configured components: the Envoy rate limit service, the gateway, the admin port, metrics
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind serve                          built-in defaults and demo rules, to try it
  hivemind serve --rules rules/           your rules, defaults for everything else
  hivemind serve --config hivemind.yaml   as configured; a `gateway` section starts the gateway too
  HIVEMIND_SERVER__GRPC_PORT=9081 hivemind serve

Every key of the configuration is also an environment variable, HIVEMIND_SECTION__KEY.

Rules, and the gateway's limits and services, are reloaded when their files change; SIGHUP and
`POST /api/v1/reload` on the admin port reload them immediately. `server.grpc_port: off` disables
the Envoy rate limit service. With `storage.kind: mesh` nodes share their limits; see
`hivemind certs --help` for the setup. SIGTERM and SIGINT stop the service within
server.shutdown_grace. With `server.handover_socket` a second process takes over with --take-over,
and SIGUSR2 starts it.")]
pub(super) struct Serve {
    /// The configuration: YAML, or TOML if its name ends in .toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Rules: a file, or a folder of .yaml and .yml files; overrides `rate_limiting.config_path`
    #[arg(long, value_name = "PATH")]
    rules: Option<PathBuf>,

    /// Take over the listening sockets of the running process with the same `server.handover_socket`; that process
    /// stops when this one serves, and no request is lost
    #[arg(long)]
    take_over: bool,

    /// Stop when standard input is closed: for nodes that must not outlive the process that started them
    #[arg(long, hide = true)]
    end_with_stdin: bool,
}

impl Serve {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let configuration = Configuration { path: self.config.clone(), over: Vec::new() };
        let loaded = configuration.load()?;
        let mut settings = loaded.settings.clone();
        if let Some(rules) = &self.rules {
            settings.rate_limiting.config_path = Some(rules.clone());
        }
        if self.end_with_stdin {
            std::thread::Builder::new().name("stdin".to_owned()).spawn(end_with_stdin)?;
        }
        run(&settings, SettingsSource { configuration, loaded }, self.take_over)
    }
}

/// Waits until standard input is closed, then stops this process as an operator would.
fn end_with_stdin() {
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink()); // A read error counts as closed.
    let _ = kill_process(getpid(), Signal::TERM); // A process may always signal itself.
}

/// Offset of this process's clock in milliseconds, only for tests of nodes whose clocks differ.
const WRONG_CLOCK: &str = "HIVEMIND_TEST_CLOCK_OFFSET_MS";

fn be_wrong_by(offset: Option<&str>) -> anyhow::Result<()> {
    let Some(offset) = offset.filter(|offset| !offset.is_empty()) else { return Ok(()) };
    let millis: i64 = offset.parse().with_context(|| {
        format!("{WRONG_CLOCK} must be a whole number of milliseconds; it is for tests only")
    })?;
    SystemClock::set_error_millis(millis);
    tracing::warn!(
        "{WRONG_CLOCK} is set: the clock of this process is shifted by {millis} ms; use it in tests only"
    );
    Ok(())
}

/// Sockets that are already open: from systemd, or from the previous process.
fn inheritance(settings: &Settings, take_over: bool) -> anyhow::Result<Inheritance> {
    if !take_over {
        return Ok(Inheritance { sockets: systemd::sockets()?, predecessor: None });
    }
    let path = settings.server.handover_socket.as_deref();
    let path =
        path.context("--take-over needs `server.handover_socket`; set it as in the running process")?;
    let (sockets, predecessor) = app::take_over(path)?;
    Ok(Inheritance { sockets, predecessor: Some(predecessor) })
}

/// Runs the configured components until a signal stops them.
pub(super) fn run(settings: &Settings, origin: SettingsSource, take_over: bool) -> anyhow::Result<ExitCode> {
    // The gateway writes refusals to its own access log; each is logged once.
    let log = logging::start(&settings.observability.log, settings.gateway.is_none());
    for warning in &origin.loaded.warnings {
        tracing::warn!("{warning}");
    }
    be_wrong_by(std::env::var(WRONG_CLOCK).ok().as_deref())?;
    let inheritance = inheritance(settings, take_over)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(app::run(settings, origin, inheritance, log));
    // Connections that are still open after the grace period are dropped.
    runtime.shutdown_background();
    ended.map(|()| ExitCode::SUCCESS)
}
