//! `hivemind serve`: everything that is configured.

use crate::app::{self, Heritage, Origin};
use crate::config::Settings;
use crate::reload::Configuration;
use crate::systemd;
use anyhow::Context;
use clap::Args;
use hivemind_core::SystemClock;
use hivemind_telemetry::logging;
use rustix::process::{Signal, getpid, kill_process};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run everything that is configured: the rate limit service for Envoy, the gateway, the admin port, metrics
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind serve                          built-in defaults and demo rules, to try it
  hivemind serve --rules rules/           your rules, everything else by default
  hivemind serve --config hivemind.yaml   everything as configured; with a `gateway` section the gateway, too
  HIVEMIND_SERVER__GRPC_PORT=9081 hivemind serve

Every key of the configuration is also an environment variable, HIVEMIND_SECTION__KEY.
Rules, and the gateway's limits and services, follow their files; SIGHUP and `POST /api/v1/reload` on the
admin port load them at once. `server.grpc_port: off` leaves the rate limit service for Envoy out.
With `storage.kind: mesh` nodes share their limits: `hivemind certs --help` has the lines that it takes. SIGTERM and SIGINT end it within server.shutdown_grace.
With `server.handover_socket` a second process takes over by --take-over, and SIGUSR2 starts it.")]
pub(super) struct Serve {
    /// The configuration: YAML, or TOML if its name ends in .toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Rules: a file, or a folder of .yaml and .yml files; goes before `rate_limiting.config_path`
    #[arg(long, value_name = "PATH")]
    rules: Option<PathBuf>,

    /// Take the listening sockets over from the process that runs with the same `server.handover_socket`; it ends when
    /// this one serves, and no request is lost
    #[arg(long)]
    take_over: bool,

    /// End when the standard input is closed: for nodes that shall not outlive who started them
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
        run(&settings, Origin { configuration, loaded }, self.take_over)
    }
}

/// Waits until nobody can write to the standard input any more, and ends this process as an operator does.
fn end_with_stdin() {
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink()); // What cannot be read has ended too.
    let _ = kill_process(getpid(), Signal::TERM); // Nothing forbids a signal to oneself.
}

/// By how many milliseconds this process shall read the clock wrongly: for tests of nodes whose clocks differ, and for
/// nothing else.
const WRONG_CLOCK: &str = "HIVEMIND_TEST_CLOCK_OFFSET_MS";

fn be_wrong_by(offset: Option<&str>) -> anyhow::Result<()> {
    let Some(offset) = offset.filter(|offset| !offset.is_empty()) else { return Ok(()) };
    let millis: i64 = offset
        .parse()
        .with_context(|| format!("{WRONG_CLOCK} is a whole number of milliseconds, for tests"))?;
    SystemClock::set_error_millis(millis);
    tracing::warn!(
        "{WRONG_CLOCK} is set: this process reads the clock wrongly by {millis} ms, as tests want it"
    );
    Ok(())
}

/// The sockets that are open already: systemd's, or those of the process before.
fn heritage(settings: &Settings, take_over: bool) -> anyhow::Result<Heritage> {
    if !take_over {
        return Ok(Heritage { handed: systemd::sockets()?, predecessor: None });
    }
    let path = settings.server.handover_socket.as_deref();
    let path =
        path.context("--take-over needs `server.handover_socket`, the same as of the process that runs")?;
    let (handed, predecessor) = app::take_over(path)?;
    Ok(Heritage { handed, predecessor: Some(predecessor) })
}

/// Runs what is configured until it is told to stop.
pub(super) fn run(settings: &Settings, origin: Origin, take_over: bool) -> anyhow::Result<ExitCode> {
    // The gateway has a log of its own for refusals, and each is told once.
    let log = logging::start(&settings.observability.log, settings.gateway.is_none());
    for warning in &origin.loaded.warnings {
        tracing::warn!("{warning}");
    }
    be_wrong_by(std::env::var(WRONG_CLOCK).ok().as_deref())?;
    let heritage = heritage(settings, take_over)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(app::run(settings, origin, heritage, log));
    // Whoever is still connected after the grace period is not waited for.
    runtime.shutdown_background();
    ended.map(|()| ExitCode::SUCCESS)
}
