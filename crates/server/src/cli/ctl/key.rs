//! `hivemind ctl key`: one key, looked at and acted on.

mod told;

use crate::cli::client::Question;
use crate::cli::ctl::table::{each, is_display_hash};
use crate::cli::ctl::who::Who;
use clap::{Args, Subcommand};
use hivemind_config::kind::duration;
use hivemind_tls::harmless::harmless;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::time::Duration;

/// One key: look it up, give it back what it spent, block it
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind ctl key get shop user=ada
  hivemind ctl key grant shop user=ada --extra 100
  hivemind ctl key block shop user=ada --for 10m
  hivemind ctl key unblock shop user=ada
  hivemind ctl key block shop authorization --value-file authorization=FILE --for 10m

A key is a domain and the entries of a descriptor, in their order; an entry is key=value. What opens something is better in a \
file than in an argument: --value-file. A block of a node that is in no mesh ends with a restart of it, too. The exit status \
is 1 if a reset reached no counter, or not all of it, and if a grant gave nothing back; it is 0 if a key is unblocked that was \
not blocked.")]
pub(super) struct Key {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// What is left of its limits, and until when
    Get(Who),
    /// Forget what it has spent
    Reset(Who),
    /// Give back some of what it has spent
    Grant {
        #[command(flatten)]
        who: Who,
        /// How much at most
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
        extra: u64,
    },
    /// Refuse it for a time, whatever its limits say
    Block {
        #[command(flatten)]
        who: Who,
        /// For how long: 30s, 10m, 2h, 1d
        #[arg(long = "for", value_name = "TIME", value_parser = span_of, required_unless_present = "until_ms")]
        span: Option<Duration>,
        /// Until when, in milliseconds since 1970
        #[arg(long, value_name = "NUMBER", conflicts_with = "span")]
        until_ms: Option<u64>,
    },
    /// End a block before its time
    Unblock(Who),
}

fn span_of(text: &str) -> Result<Duration, String> {
    let span = duration(text).filter(|span| !span.is_zero());
    span.ok_or_else(|| "write it as 30s, 10m, 2h or 1d: more than nothing, and 366d at most".to_owned())
}

/// What is shown of a value that opens something is not that value. Any name may have one, so whatever looks like it is told.
fn warn_of_hashes(entries: &[(String, String)]) -> io::Result<()> {
    for (key, value) in entries {
        if is_display_hash(value) {
            let key = harmless(key, 60);
            writeln!(
                io::stderr(),
                "warning: `{key}={value}` is the hash that is shown instead of a value, and not the value: give what the \
                 client sends, or nobody is found"
            )?;
        }
    }
    Ok(())
}

impl Key {
    pub(super) fn question(&self) -> anyhow::Result<Question> {
        let (what, who) = match &self.command {
            Command::Get(who) => ("lookup", who),
            Command::Reset(who) => ("reset", who),
            Command::Grant { who, .. } => ("grant", who),
            Command::Block { who, .. } => ("block", who),
            Command::Unblock(who) => ("unblock", who),
        };
        let entries = who.entries()?;
        warn_of_hashes(&entries)?;
        let mut body = who.body(&entries);
        match &self.command {
            Command::Grant { extra, .. } => {
                body.insert("extra".to_owned(), json!(extra));
            }
            Command::Block { span: Some(span), .. } => {
                body.insert("for_ms".to_owned(), json!(u64::try_from(span.as_millis())?));
            }
            Command::Block { until_ms: Some(until), .. } => {
                body.insert("until_ms".to_owned(), json!(until));
            }
            _ => {}
        }
        Ok(Question::post(&format!("/api/v1/keys/{what}"), Some(Value::Object(body))))
    }

    /// Whether an answer says that it was done. What is as it was asked for needs nothing done: who was not blocked is
    /// unblocked.
    pub(super) fn is_done(&self, body: &Value) -> bool {
        let number = |of: &Value, name: &str| of.get(name).and_then(Value::as_u64).unwrap_or(0);
        match &self.command {
            Command::Reset(_) => {
                number(body, "reset") > 0 && number(body, "crowded") == 0 && number(body, "in_doubt") == 0
            }
            Command::Grant { .. } => each(body, "limits").any(|limit| number(limit, "granted") > 0),
            Command::Get(_) | Command::Block { .. } | Command::Unblock(_) => true,
        }
    }

    pub(super) fn shown(&self, body: &Value) -> String {
        match &self.command {
            Command::Get(_) => told::looked_up(body),
            Command::Reset(_) => told::reset(body),
            Command::Grant { .. } => told::granted(body),
            Command::Block { .. } => told::blocked(body),
            Command::Unblock(_) => told::unblocked(body),
        }
    }
}
