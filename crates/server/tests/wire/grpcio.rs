//! Python's grpcio, which wraps the C++ gRPC library, as an independent client.

use crate::service::RULES;
use hivemind_testkit::may_be_missing;
use hivemind_testkit::proto::envoy::service::ratelimit::v3::RateLimitResponse;
use hivemind_testkit::{Server, request, statuses, within};
use prost::Message;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A Python with grpcio, as `./test` installs it. Without it the tests are skipped.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("HIVEMIND_GRPCIO").map(PathBuf::from);
    assert!(python.is_some() || may_be_missing(), "HIVEMIND_GRPCIO names no Python; `./test` installs it");
    python
}

/// Calls the service in one of the client's modes and returns a short line per call.
async fn calls(server: &Server, way: &str, text: &str) -> Option<Vec<String>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/data/grpcio_client.py");
    let message = request("d", text).encode_to_vec().iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    });
    let mut command = tokio::process::Command::new(python()?);
    command.arg(script).arg(server.grpc.to_string()).args([way, &message]).kill_on_drop(true);
    // A proxy of this machine must not be used.
    command.env_remove("http_proxy").env_remove("https_proxy").env("no_proxy", "*");
    let output = within("grpcio", command.output()).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    assert!(output.status.success(), "{}", text(output.stderr));
    Some(text(output.stdout).lines().map(short).collect())
}

/// The status, or the short form of a response.
fn short(line: &str) -> String {
    let Some(hex) = line.strip_prefix("OK ") else { return line.to_owned() };
    let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(digits).collect();
    statuses(&RateLimitResponse::decode(&*bytes).unwrap())
}

#[tokio::test]
async fn grpcio_calls_with_deadline_and_metadata_are_served() {
    let server = Server::with_rules(RULES).await;
    let Some(lines) = calls(&server, "plain", "k=x").await else { return };
    assert_eq!(lines, ["OK 9/DAY, 8 left"]);
    assert_eq!(calls(&server, "within a deadline", "k=x").await.unwrap(), ["OK 9/DAY, 7 left"]);
    let mut expected: Vec<_> = (0..7).rev().map(|left| format!("OK 9/DAY, {left} left")).collect();
    expected.extend(vec!["OVER 9/DAY".to_owned(); 3]);
    assert_eq!(calls(&server, "with metadata", "k=x").await.unwrap(), expected);
}

#[tokio::test]
async fn grpcio_call_without_message_exceeds_its_deadline() {
    let server = Server::with_rules(RULES).await;
    let Some(lines) = calls(&server, "past a deadline", "k=x").await else { return };
    assert_eq!(lines, ["DEADLINE_EXCEEDED", "OK 9/DAY, 8 left"]);
}

#[tokio::test]
async fn grpcio_compressed_call_is_unimplemented() {
    let server = Server::with_rules(RULES).await;
    // Long enough to be compressed.
    let value = "x".repeat(5_000);
    let Some(lines) = calls(&server, "compressed", &format!("k={value}")).await else { return };
    assert_eq!(lines, ["UNIMPLEMENTED", "OK 9/DAY, 8 left"]);
}

#[tokio::test]
async fn grpcio_cancelled_call_is_not_charged() {
    let server = Server::with_rules(RULES).await;
    let Some(lines) = calls(&server, "cancelled", "k=x").await else { return };
    assert_eq!(lines, ["CANCELLED", "OK 9/DAY, 8 left"]);
}

#[tokio::test]
async fn thousand_concurrent_grpcio_calls_are_answered() {
    let server = Server::with_rules(RULES).await;
    let Some(lines) = calls(&server, "a thousand", "free=x").await else { return };
    assert_eq!(lines.len(), 1_000);
    let mut left: Vec<u32> = lines.iter().map(|line| number_in(line)).collect();
    left.sort_unstable();
    assert_eq!(left, (999_000..1_000_000).collect::<Vec<_>>(), "each is counted once");
}

fn number_in(line: &str) -> u32 {
    let left = line.strip_prefix("OK 1000000/DAY, ").and_then(|rest| rest.strip_suffix(" left"));
    left.unwrap_or_else(|| panic!("{line}")).parse().unwrap()
}
