//! Answers of a running service, held to the schemas of `/api/v1/openapi.json`.

use crate::{may_be_missing, repository};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// The description that the service serves.
pub const DESCRIPTION: &str = "crates/admin/src/openapi.json";

/// The path of schemathesis, as `./test` installs it. Without it, tests that need it are skipped.
pub fn schemathesis() -> Option<PathBuf> {
    let program = std::env::var_os("HIVEMIND_SCHEMATHESIS").map(PathBuf::from);
    assert!(
        program.is_some() || may_be_missing(),
        "HIVEMIND_SCHEMATHESIS names no program; `./test` installs it"
    );
    program
}

/// Runs a program with a time limit and without a proxy; returns its output if it fails.
pub async fn failure_output(command: &mut Command, input: &str, within: Duration) -> Option<String> {
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
    let output_text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (!output.status.success()).then(|| output_text.into_owned())
}

/// Sends each of these requests, in the format of `validate.py`, to a service; returns the schema violations,
/// if any.
pub async fn schema_violations(
    program: &Path,
    admin: SocketAddr,
    token: &str,
    lines: &str,
) -> Option<String> {
    // The Python environment of schemathesis includes the schema reader.
    let mut command = Command::new(program.with_file_name("python"));
    command.arg(repository("crates/testkit/data/validate.py")).arg(repository(DESCRIPTION));
    command.args([&format!("http://{admin}"), token]);
    failure_output(&mut command, lines, Duration::from_secs(60)).await
}
