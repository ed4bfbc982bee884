//! `hivemind ctl`: the admin API from the shell. Each command builds a request and formats the response; `--json`
//! prints the body unchanged.

mod blocks;
mod config;
mod decisions;
mod explain;
mod key;
mod key_selection;
mod keys;
mod limits;
mod log;
mod page_args;
mod peers;
mod reload;
mod rules;
mod table;
mod version;

use crate::cli::client::{AdminClient, AdminRequest, AdminResponse, TokenFile};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// The admin port of a service with default settings.
const USUAL_URL: &str = "http://127.0.0.1:8080";

/// Query and control a running service: the admin API from the shell
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind ctl keys top                               keys with the most refusals
  hivemind ctl key get shop user=ada                  remaining quota and reset time
  hivemind ctl key block shop user=ada --for 10m      refuse the key for ten minutes
  hivemind ctl rules --search user                    active rules with file and line
  hivemind ctl limits --search login                  the gateway's limits, and the level that sets each field
  hivemind ctl --url http://10.0.0.1:8080 --url http://10.0.0.2:8080 key block shop user=ada --for 10m
  hivemind ctl --url unix:/run/hivemind/admin.sock reload
  hivemind ctl --url https://limits.example:8080 --ca ca.pem --token-file token decisions --denied

HIVEMIND_URL and HIVEMIND_TOKEN_FILE replace --url and --token-file if these are missing.

Exit status: 0 if the service did what was requested, 1 if not, 2 for an invalid command line.
A reset that reached no counter (or only some), and a grant that returned nothing, exit with 1.
Unblocking a key that is not blocked and forgetting an unknown peer succeed.

With several --url the services are called in order, and a failure does not stop the others; the
exit status is 1 if one failed. --json prints one line for each. A service that did not answer is a
line with `url` and `error`; if it refused, `problem` contains its response.")]
pub(super) struct Ctl {
    /// The admin port: `http://HOST:PORT`, `https://HOST:PORT` or `unix:PATH`. Repeat it to call several services,
    /// for example to block a key where nodes share a Redis [default: `http://127.0.0.1:8080`]
    #[arg(long, global = true, value_name = "URL")]
    url: Vec<String>,

    /// A file whose first line is the admin token
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Send the token over plain HTTP as well
    #[arg(long, global = true)]
    insecure: bool,

    /// The CA that signed the service's certificate [default: the system's CAs]
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Print the response as JSON
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: CtlCommand,
}

#[derive(Subcommand)]
enum CtlCommand {
    Keys(keys::KeysArgs),
    Key(key::KeyArgs),
    Blocks(blocks::BlocksArgs),
    Decisions(decisions::Decisions),
    Rules(rules::RulesArgs),
    Limits(limits::LimitsArgs),
    Explain(explain::CtlExplainArgs),
    Peers(peers::PeersArgs),
    Config(config::Config),
    Reload(reload::Reload),
    Log(log::LogArgs),
    Version(version::Version),
}

impl CtlCommand {
    fn question(&self) -> anyhow::Result<AdminRequest> {
        match self {
            Self::Keys(keys) => Ok(keys.question()),
            Self::Key(key) => key.question(),
            Self::Blocks(blocks) => Ok(blocks.question()),
            Self::Decisions(decisions) => Ok(decisions.question()),
            Self::Rules(rules) => Ok(rules.question()),
            Self::Limits(limits) => Ok(limits.question()),
            Self::Explain(explain) => explain.question(),
            Self::Peers(peers) => Ok(peers.question()),
            Self::Config(_) => Ok(AdminRequest::get("/api/v1/config")),
            Self::Reload(_) => Ok(AdminRequest::post("/api/v1/reload", None)),
            Self::Log(log) => Ok(log.question()),
            Self::Version(_) => Ok(AdminRequest::get("/api/v1/version")),
        }
    }

    /// Whether a successful response means that the command took effect.
    fn is_done(&self, body: &Value) -> bool {
        match self {
            Self::Key(key) => key.is_done(body),
            _ => true,
        }
    }

    fn shown(&self, body: &Value) -> String {
        match self {
            Self::Keys(_) => keys::shown(body),
            Self::Key(key) => key.shown(body),
            Self::Blocks(_) => blocks::shown(body),
            Self::Decisions(_) => decisions::shown(body),
            Self::Rules(_) => rules::shown(body),
            Self::Limits(_) => limits::shown(body),
            Self::Explain(_) => explain::shown(body),
            Self::Peers(peers) => peers.shown(body),
            Self::Config(_) => config::shown(body),
            Self::Reload(_) => reload::shown(body),
            Self::Log(_) => log::shown(body),
            Self::Version(_) => version::shown(body),
        }
    }
}

impl Ctl {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let usual = || variable("HIVEMIND_URL").unwrap_or_else(|| USUAL_URL.to_owned());
        let urls = if self.url.is_empty() { vec![usual()] } else { self.url.clone() };
        let token = self.token_file.clone().or_else(|| variable("HIVEMIND_TOKEN_FILE").map(PathBuf::from));
        let token = token.map(|file| TokenFile { file, may_be_seen: self.insecure });
        // All URLs are checked before the first request: an invalid one stops the command for all.
        let clients = urls.iter().map(|url| {
            let client = AdminClient::at_url(url, token.as_ref(), self.ca.as_deref());
            self.with_json_error(url, client)
        });
        let clients = clients.collect::<anyhow::Result<Vec<AdminClient>>>()?;
        let question = self.command.question()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        if let [client] = clients.as_slice() {
            let printed = runtime.block_on(client.ask(&question)).and_then(|answer| self.print(&answer));
            return self.with_json_error(client.url(), printed);
        }
        let mut is_good = true;
        for client in &clients {
            let answer = runtime.block_on(client.ask(&question));
            is_good &= self.print_one_of_several(client.url(), answer)?;
        }
        Ok(status(is_good))
    }

    /// With `--json`, an error is printed as JSON too.
    fn with_json_error<T>(&self, url: &str, asked: anyhow::Result<T>) -> anyhow::Result<T> {
        if let (Err(error), true) = (&asked, self.json) {
            write(&(not_answered(url, error, None).to_string() + "\n"))?;
        }
        asked
    }

    fn print(&self, answer: &AdminResponse) -> anyhow::Result<ExitCode> {
        if self.json {
            // An HTML or text page is not the requested JSON: fail instead of printing it.
            if !answer.is_json() {
                answer.body()?;
            }
            let is_done = answer.is_good() && self.command.is_done(&answer.body()?);
            write(&answer.text)?;
            return Ok(status(is_done));
        }
        let body = answer.body()?;
        write(&self.command.shown(&body))?;
        Ok(status(self.command.is_done(&body)))
    }

    /// Prints the response of one of several services under its URL. Returns whether the command took effect there.
    fn print_one_of_several(&self, url: &str, answer: anyhow::Result<AdminResponse>) -> anyhow::Result<bool> {
        let problem = answer.as_ref().ok().and_then(AdminResponse::problem);
        let body = answer.and_then(|answer| answer.body());
        let is_done = body.as_ref().is_ok_and(|body| self.command.is_done(body));
        let line = match (&body, self.json) {
            (Ok(body), true) => json!({"url": url, "answer": body}).to_string() + "\n",
            (Err(error), true) => not_answered(url, error, problem).to_string() + "\n",
            (Ok(body), false) => format!("{url}:\n{}", self.command.shown(body)),
            (Err(error), false) => format!("{url}: failed: {error:#}\n"),
        };
        write(&line)?;
        Ok(is_done)
    }
}

/// The JSON line of a service that failed, with its problem response if there is one.
fn not_answered(url: &str, error: &anyhow::Error, problem: Option<Value>) -> Value {
    let mut line = json!({"url": url, "error": format!("{error:#}")});
    if let (Some(problem), Some(members)) = (problem, line.as_object_mut()) {
        members.insert("problem".to_owned(), problem);
    }
    line
}

fn write(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn status(is_done: bool) -> ExitCode {
    if is_done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
