//! `hivemind ctl key`: looks up and changes one key.

mod output;

use crate::cli::client::AdminRequest;
use crate::cli::ctl::key_selection::KeySelection;
use crate::cli::ctl::table::{each, is_display_hash};
use clap::{Args, Subcommand};
use hivemind_config::value_kind::duration;
use hivemind_tls::escape::escape_line;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::time::Duration;

/// Look up one key, refund or reset its counters, or block it
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind ctl key get shop user=ada
  hivemind ctl key grant shop user=ada --extra 100
  hivemind ctl key block shop user=ada --for 10m
  hivemind ctl key unblock shop user=ada
  hivemind ctl key block shop authorization --value-file authorization=FILE --for 10m

A key is a domain and the entries of a descriptor, in order; an entry is key=value. Pass credentials \
in a file with --value-file, not in an argument. Without a mesh, a block ends when the node \
restarts.

The exit status is 1 if a reset reached no counter (or only some), or a grant returned nothing. \
Unblocking a key that is not blocked succeeds.")]
pub(super) struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Subcommand)]
enum KeyCommand {
    /// Show what is left of its limits, and when they reset
    Get(KeySelection),
    /// Reset its counters
    Reset(KeySelection),
    /// Return some of what it has spent
    Grant {
        #[command(flatten)]
        who: KeySelection,
        /// The maximum to return
        #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
        extra: u64,
    },
    /// Refuse it for a time, regardless of its limits
    Block {
        #[command(flatten)]
        who: KeySelection,
        /// Duration: 30s, 10m, 2h, 1d
        #[arg(long = "for", value_name = "TIME", value_parser = span_of, required_unless_present = "until_ms")]
        span: Option<Duration>,
        /// End of the block, in milliseconds since 1970
        #[arg(long, value_name = "NUMBER", conflicts_with = "span")]
        until_ms: Option<u64>,
    },
    /// End a block early
    Unblock(KeySelection),
}

fn span_of(text: &str) -> Result<Duration, String> {
    let span = duration(text).filter(|span| !span.is_zero());
    span.ok_or_else(|| "write it as 30s, 10m, 2h or 1d, above zero and up to 366d".to_owned())
}

/// Warns about a displayed hash that is used as a value: it is not the credential itself, so no counter would match.
fn warn_of_hashes(entries: &[(String, String)]) -> io::Result<()> {
    for (key, value) in entries {
        if is_display_hash(value) {
            let key = escape_line(key, 60);
            writeln!(
                io::stderr(),
                "warning: `{key}={value}` is a displayed hash and not the value; no counter matches it. \
                 Use the value that the client sends"
            )?;
        }
    }
    Ok(())
}

impl KeyArgs {
    pub(super) fn question(&self) -> anyhow::Result<AdminRequest> {
        let (what, who) = match &self.command {
            KeyCommand::Get(who) => ("lookup", who),
            KeyCommand::Reset(who) => ("reset", who),
            KeyCommand::Grant { who, .. } => ("grant", who),
            KeyCommand::Block { who, .. } => ("block", who),
            KeyCommand::Unblock(who) => ("unblock", who),
        };
        let entries = who.entries()?;
        warn_of_hashes(&entries)?;
        let mut body = who.body(&entries);
        match &self.command {
            KeyCommand::Grant { extra, .. } => {
                body.insert("extra".to_owned(), json!(extra));
            }
            KeyCommand::Block { span: Some(span), .. } => {
                body.insert("for_ms".to_owned(), json!(u64::try_from(span.as_millis())?));
            }
            KeyCommand::Block { until_ms: Some(until), .. } => {
                body.insert("until_ms".to_owned(), json!(until));
            }
            _ => {}
        }
        Ok(AdminRequest::post(&format!("/api/v1/keys/{what}"), Some(Value::Object(body))))
    }

    /// Whether the response means that the command took effect. Unblocking a key that was not blocked has nothing to
    /// do, and succeeds.
    pub(super) fn is_done(&self, body: &Value) -> bool {
        let number = |of: &Value, name: &str| of.get(name).and_then(Value::as_u64).unwrap_or(0);
        match &self.command {
            KeyCommand::Reset(_) => {
                number(body, "reset") > 0 && number(body, "crowded") == 0 && number(body, "in_doubt") == 0
            }
            KeyCommand::Grant { .. } => each(body, "limits").any(|limit| number(limit, "granted") > 0),
            KeyCommand::Get(_) | KeyCommand::Block { .. } | KeyCommand::Unblock(_) => true,
        }
    }

    pub(super) fn shown(&self, body: &Value) -> String {
        match &self.command {
            KeyCommand::Get(_) => output::looked_up(body),
            KeyCommand::Reset(_) => output::reset(body),
            KeyCommand::Grant { .. } => output::granted(body),
            KeyCommand::Block { .. } => output::blocked(body),
            KeyCommand::Unblock(_) => output::unblocked(body),
        }
    }
}
