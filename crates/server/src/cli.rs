//! The command line: arguments, output and exit status of each command. The work itself is done elsewhere.

mod certs;
mod check;
mod client;
mod completions;
mod ctl;
mod demo;
mod entries;
mod explain;
mod gateway;
mod health;
mod import;
mod keys;
mod man;
mod rate;
mod replay;
mod schema;
mod serve;

use clap::{CommandFactory, Parser, Subcommand};
use hivemind_config::problem::Problems;
use std::io::Write;
use std::process::ExitCode;

/// One rate limiter for everywhere.
#[derive(Parser)]
#[command(name = "hivemind", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
    Gateway(gateway::GatewayArgs),
    Check(check::Check),
    Health(health::HealthArgs),
    Explain(explain::ExplainArgs),
    Replay(replay::ReplayArgs),
    Import(import::Import),
    Certs(certs::Certs),
    Demo(demo::DemoArgs),
    Keys(keys::ApiKeysArgs),
    Schema(schema::Schema),
    Ctl(ctl::Ctl),
    Completions(completions::Completions),
    Man(man::Man),
}

/// The clap definition of all commands.
fn described() -> clap::Command {
    Cli::command()
}

pub(crate) fn run() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Serve(serve) => serve.run(),
        Command::Gateway(gateway) => gateway.run(),
        Command::Check(check) => check.run(),
        Command::Health(health) => health.run(),
        Command::Explain(explain) => explain.run(),
        Command::Replay(replay) => replay.run(),
        Command::Import(import) => import.run(),
        Command::Certs(certs) => certs.run(),
        Command::Demo(demo) => demo.run(),
        Command::Keys(keys) => keys.run(),
        Command::Schema(schema) => schema.run(),
        Command::Ctl(ctl) => ctl.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    };
    match result {
        Ok(code) => code,
        // The reader closed the pipe, as `head` does.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr is closed too, the error cannot be reported.
            let _ = match error.downcast_ref::<Problems>() {
                Some(problems) => writeln!(std::io::stderr(), "{problems}"),
                None => writeln!(std::io::stderr(), "hivemind: {error:#}"),
            };
            // clap exits with 2 for an invalid argument; so do we.
            if error.is::<entries::NotUnderstood>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}
