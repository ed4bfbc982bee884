//! The format of log lines.

use crate::{RULES, line};
use hivemind_testkit::{Log, Setup};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use tokio::process::Command;

/// A configuration file that causes a warning, so that there is a line.
fn config_with_warning(folder: &std::path::Path) -> std::path::PathBuf {
    let file = folder.join("hivemind.yaml");
    std::fs::write(&file, "server: {grpc_port: 0, admin_port: 0, metrics_port: 0}").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    file
}

// Seen failing on: JSON although text is configured.
#[tokio::test]
async fn log_is_text_on_a_terminal_json_otherwise_never_colored() {
    let folder = tempfile::tempdir().unwrap();
    let file = config_with_warning(folder.path());
    let hivemind = env!("CARGO_BIN_EXE_hivemind");
    // The process gets SIGHUP when its terminal closes, which only reloads; the test ends it by its id.
    let on_terminal = format!("echo process $$; exec {hivemind} serve --config {}", file.display());
    for (format, is_terminal, is_json) in
        [("auto", false, true), ("auto", true, false), ("json", true, true), ("text", false, false)]
    {
        // `script` runs it on a terminal of its own.
        let mut command = Command::new(if is_terminal { "script" } else { hivemind });
        if is_terminal {
            command.args(["-qec", &on_terminal, "/dev/null"]);
        } else {
            command.args(["serve", "--config"]).arg(&file);
        }
        command.env_clear().env("HIVEMIND_OBSERVABILITY__LOG_FORMAT", format).env("TERM", "xterm-256color");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut log = if is_terminal {
            Log::of(child.stdout.take().unwrap())
        } else {
            Log::of(child.stderr.take().unwrap())
        };
        let process = if is_terminal { Some(log.next("process ").await) } else { None };
        let message = log.next("can read the configuration").await;
        if let Some(process) = process.as_deref().and_then(|line| line.trim().strip_prefix("process ")) {
            let ended = Command::new("sh").args(["-c", &format!("kill -TERM {process}")]).status().await;
            assert!(ended.unwrap().success());
        }
        assert!(message.contains("WARN") && !message.contains('\u{1b}'), "{format}: {message:?}");
        assert_eq!(message.starts_with('{'), is_json, "{format}, terminal {is_terminal}: {message}");
        if is_json {
            let entry = line(message.trim());
            assert_eq!(
                (&entry["level"], &entry["target"]),
                (&"WARN".into(), &"hivemind::app::port_access".into())
            );
            let time = entry["timestamp"].as_str().unwrap();
            assert!(time.len() > 20 && time.ends_with('Z'), "{time}");
            assert!(entry["fields"]["message"].is_string());
        }
    }
}

// Seen failing on: a value written in full length.
#[tokio::test]
async fn client_text_adds_no_log_lines_or_terminal_codes() {
    for format in ["json", "text"] {
        let mut server = Setup::rules(RULES)
            .with("observability.log_format", format)
            .with("observability.log_decisions", "true")
            .with("observability.log_decisions_values", "k")
            .start()
            .await;
        let long = format!("k=a{}", "b".repeat(10_000));
        server.ask("d\n2026 ERROR forged\u{1b}[31m", "key\u{1b}forged=v").await;
        let message = server.log.next("decided").await;
        assert!(message.contains("forged") && !message.contains('\u{1b}'), "{message}");
        server.ask("d", &long).await;
        let message = server.log.next("decided").await;
        assert!(message.contains("k=abbb") && message.contains("...") && message.len() < 1_000, "{message}");
    }
}
