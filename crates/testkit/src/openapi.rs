//! Answers of a running service, held to the schemas of `/api/v1/openapi.json`.

use crate::{may_be_missing, repository};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// The description that the service serves.
pub const DESCRIPTION: &str = "crates/server/src/admin/openapi.json";

/// schemathesis, as `./test` installs it. Without it there is nothing to test.
pub fn schemathesis() -> Option<PathBuf> {
    let program = std::env::var_os("HIVEMIND_SCHEMATHESIS").map(PathBuf::from);
    assert!(
        program.is_some() || may_be_missing(),
        "HIVEMIND_SCHEMATHESIS names no program; `./test` installs it"
    );
    program
}

/// Runs a program that may take this long, with no proxy of this machine; what it said, if it was not content.
pub async fn complaints(command: &mut Command, input: &str, within: Duration) -> Option<String> {
    for proxy in ["http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
        command.env_remove(proxy);
    }
    command
        .env("NO_PROXY", "*")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
    let output =
        tokio::time::timeout(within, child.wait_with_output()).await.expect("it ends in time").unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (!output.status.success()).then(|| said.into_owned())
}

/// Asks a service for each of these lines, as `validate.py` reads them; what is not as it is described, if anything.
pub async fn not_as_described(program: &Path, admin: SocketAddr, token: &str, lines: &str) -> Option<String> {
    // It comes with what reads schemas.
    let mut command = Command::new(program.with_file_name("python"));
    command.arg(repository("crates/testkit/data/validate.py")).arg(repository(DESCRIPTION));
    command.args([&format!("http://{admin}"), token]);
    complaints(&mut command, lines, Duration::from_secs(60)).await
}
