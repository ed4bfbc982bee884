//! `hivemind import`: the configuration of another program, made into ours.

use crate::import::nginx::{self, ImportError};
use anyhow::Context;
use clap::{Args, Subcommand};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Make a configuration of another program's
#[derive(Args)]
pub(super) struct Import {
    #[command(subcommand)]
    from: From,
}

#[derive(Subcommand)]
enum From {
    Nginx(Nginx),
}

/// Make a `gateway` section of nginx's `limit_req`, `server`, `location` and `proxy_pass`
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind import nginx /etc/nginx/nginx.conf --output hivemind.yaml
  hivemind check hivemind.yaml
  hivemind serve --config hivemind.yaml

What is included is read too. Everything that is not carried over, or not exactly, is told on standard
error, line by line, and again in the comments of what is made: nothing is dropped in silence. The exit
status is 0 then, too; 2 if a limit, TLS or a restriction of access is among it, so that less is protected
than was; and 1 if the file is broken or has nothing that could become a service.

nginx's burst=20 becomes `burst: 21`: there the first request is not counted. A limit without `nodelay`
becomes `mode: delay`.")]
struct Nginx {
    /// nginx's configuration, mostly /etc/nginx/nginx.conf
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Where to write it; without it, to standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Import {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let From::Nginx(nginx) = &self.from;
        nginx.run()
    }
}

impl Nginx {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let mut log = std::io::stderr().lock();
        let imported = nginx::import(&self.file).inspect_err(|error| {
            if let ImportError::Nothing { notes } = error {
                // With nobody left to read it, there is nobody to tell either.
                let _ = notes.iter().try_for_each(|note| writeln!(log, "{note}"));
            }
        })?;
        for note in &imported.notes {
            writeln!(log, "{note}")?;
        }
        match &self.output {
            Some(path) => {
                std::fs::write(path, &imported.yaml)
                    .with_context(|| format!("writing {}", path.display()))?;
                let (notes, path) = (imported.notes.len(), path.display());
                writeln!(log, "{path}: written; {notes} things were not carried over, or not exactly")?;
            }
            None => std::io::stdout().write_all(imported.yaml.as_bytes())?,
        }
        if imported.is_weaker {
            writeln!(
                log,
                "a limit, TLS or a restriction of access was not carried over: see above what to do before you switch"
            )?;
            return Ok(ExitCode::from(2));
        }
        Ok(ExitCode::SUCCESS)
    }
}
