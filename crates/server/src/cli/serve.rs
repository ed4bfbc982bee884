//! `hivemind serve`: everything that is configured.

use crate::config::{environment, load_settings};
use crate::{app, logging};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run everything that is configured: the rate limit service for Envoy, its admin port and its metrics
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind serve                          built-in defaults and demo rules, to try it
  hivemind serve --rules rules/           your rules, everything else by default
  hivemind serve --config hivemind.yaml   everything as configured
  HIVEMIND_SERVER__GRPC_PORT=9081 hivemind serve

Every key of the configuration is also an environment variable, HIVEMIND_SECTION__KEY.
SIGHUP loads the rules anew; SIGTERM and SIGINT end it within server.shutdown_grace.")]
pub(super) struct Serve {
    /// The configuration: YAML, or TOML if its name ends in .toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Rules: a file, or a folder of .yaml and .yml files; goes before `rate_limiting.config_path`
    #[arg(long, value_name = "PATH")]
    rules: Option<PathBuf>,
}

impl Serve {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let loaded = load_settings(self.config.as_deref(), environment())?;
        let mut settings = loaded.settings;
        if let Some(rules) = &self.rules {
            settings.rate_limiting.config_path = Some(rules.clone());
        }
        logging::start(&settings.observability);
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let ended = runtime.block_on(app::run(&settings, app::Fronts::All));
        // Whoever is still connected after the grace period is not waited for.
        runtime.shutdown_background();
        ended.map(|()| ExitCode::SUCCESS)
    }
}
