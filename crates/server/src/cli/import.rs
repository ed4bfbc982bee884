//! `hivemind import`: converts the configuration of another program.

use crate::import::nginx::{self, ImportError};
use anyhow::Context;
use clap::{Args, Subcommand};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Convert the configuration of another program
#[derive(Args)]
pub(super) struct Import {
    #[command(subcommand)]
    from: From,
}

#[derive(Subcommand)]
enum From {
    Nginx(Nginx),
}

/// Convert nginx's `limit_req`, `server`, `location` and `proxy_pass` to a `gateway` section
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind import nginx /etc/nginx/nginx.conf --output hivemind.yaml
  hivemind check hivemind.yaml
  hivemind serve --config hivemind.yaml

Included files are read too. Everything that is not converted, or not exactly, is reported on
standard error, line by line, and again in comments of the output. The exit status is 0 even then;
2 if a limit, TLS or an access restriction was not converted, so that less is protected than
before; and 1 if the file is invalid or contains nothing that could become a service.

nginx's burst=20 becomes `burst: 21`, because nginx does not count the first request. A limit
without `nodelay` becomes `mode: delay`.")]
struct Nginx {
    /// nginx's configuration, usually /etc/nginx/nginx.conf
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The file to write [default: standard output]
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
                // If stderr is closed, the notes cannot be shown.
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
                writeln!(log, "wrote {path}; {notes} directives were not converted, or not exactly")?;
            }
            None => std::io::stdout().write_all(imported.yaml.as_bytes())?,
        }
        if imported.is_weaker {
            writeln!(
                log,
                "a limit, TLS or an access restriction was not converted; follow the notes above before you switch"
            )?;
            return Ok(ExitCode::from(2));
        }
        Ok(ExitCode::SUCCESS)
    }
}
