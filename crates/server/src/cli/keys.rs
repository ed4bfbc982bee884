//! `hivemind keys`: API keys for callers and operators.

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, Subcommand};
use hivemind_tls::access::{ADMIN, SecretDigest, format_key_line, is_name};
use hivemind_tls::random_bytes;
use std::io::Write;
use std::process::ExitCode;

/// Prefix of each key, so that a leaked key is recognizable.
const BEGINS: &str = "hm_";

/// Create API keys for `security.api_keys_file`
#[derive(Args)]
pub(super) struct ApiKeysArgs {
    #[command(subcommand)]
    command: ApiKeysCommand,
}

#[derive(Subcommand)]
enum ApiKeysCommand {
    New(New),
}

/// Create a key: it is printed once, with the line to add to `security.api_keys_file`
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind keys new --name envoy                   a key for every domain
  hivemind keys new --name shop --domain shop      a key for one domain
  hivemind keys new --name ops --admin             a key for the admin port only

To rotate a key: add the line of the new key, give the key to its caller, then remove the old line.")]
struct New {
    /// The key's name: letters, digits, `.`, `_` and `-`
    #[arg(long)]
    name: String,

    /// A domain that the key may use; may be given several times [default: every domain]
    #[arg(long, value_name = "DOMAIN")]
    domain: Vec<String>,

    /// The key may use the admin port, and only the domains that are named
    #[arg(long)]
    admin: bool,
}

impl ApiKeysArgs {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let ApiKeysCommand::New(New { name, domain: mut domains, admin }) = self.command;
        ensure!(is_name(&name), "--name is 1 to 64 letters, digits, `.`, `_` and `-`");
        let is_domain = |domain: &String| !domain.trim().is_empty() && !domain.contains([',', '\n']);
        ensure!(
            domains.iter().all(is_domain),
            "--domain is a name without a comma; give the flag several times"
        );
        domains.extend(admin.then(|| ADMIN.to_owned()));
        let key = format!("{BEGINS}{}", URL_SAFE_NO_PAD.encode(random_bytes()?));
        let digest = SecretDigest::of(key.as_bytes()).context("the key is too long")?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "The key, for the header x-api-key. It is shown only once:\n\n  {key}\n")?;
        writeln!(
            out,
            "The line for security.api_keys_file:\n\n  {}",
            format_key_line(&name, digest, &domains)
        )?;
        Ok(ExitCode::SUCCESS)
    }
}
