//! `hivemind replay` as a process: its exit codes and output.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod comparison;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }
}

fn replay(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hivemind"))
        .arg("replay")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // Written while reading, or both sides could wait for each other.
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join().unwrap(); // A process that stopped early has closed its input.
    output
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

const TEN_A_SECOND: &str = "domain: d\ndescriptors:\n- key: k\n  rate_limit: \
    {algorithm: token_bucket, unit: second, requests_per_unit: 10, burst: 2}\n";

fn request(t_ms: u64, value: &str) -> String {
    format!("{{\"t_ms\": {t_ms}, \"domain\": \"d\", \"entries\": [[\"k\", \"{value}\"]]}}\n")
}

#[test]
fn request_lines_are_decided_at_their_own_times() {
    let files = Files::new();
    let rules = files.write("rules.yaml", TEN_A_SECOND);
    let input: String = [(5, "a"), (5, "a"), (5, "a"), (104, "a"), (105, "a"), (105, "b")]
        .map(|(t_ms, value)| request(t_ms, value))
        .concat();
    let unruled = r#"{"t_ms": 105, "domain": "other", "entries": [["k", "v"]]}"#;
    let costly = r#"{"t_ms": 200, "domain": "d", "entries": [["k", "c"]], "hits": 3}"#;
    let output = replay(&["--rules", path(&rules)], &format!("{input}{unruled}\n{costly}\n"));
    let expected = [
        r#"{"t_ms":5,"allow":true,"remaining":1,"retry_after_ms":null}"#,
        r#"{"t_ms":5,"allow":true,"remaining":0,"retry_after_ms":null}"#,
        r#"{"t_ms":5,"allow":false,"remaining":0,"retry_after_ms":100}"#,
        r#"{"t_ms":104,"allow":false,"remaining":0,"retry_after_ms":1}"#,
        r#"{"t_ms":105,"allow":true,"remaining":0,"retry_after_ms":null}"#,
        r#"{"t_ms":105,"allow":true,"remaining":1,"retry_after_ms":null}"#,
        r#"{"t_ms":105,"allow":true,"remaining":null,"retry_after_ms":null}"#,
        r#"{"t_ms":200,"allow":false,"remaining":2,"retry_after_ms":null}"#,
    ];
    assert_eq!(text(&output.stdout).lines().collect::<Vec<_>>(), expected);
    assert!(output.status.success(), "a refusal is not a failure");
}

#[test]
fn requests_are_read_from_a_file_or_a_dash() {
    let files = Files::new();
    let rules = files.write("rules.yaml", TEN_A_SECOND);
    let requests = files.write("requests.jsonl", &request(0, "a"));
    let from_file = replay(&["--rules", path(&rules), path(&requests)], "");
    let from_dash = replay(&["--rules", path(&rules), "-"], &request(0, "a"));
    assert_eq!(text(&from_file.stdout), text(&from_dash.stdout));
    assert_eq!(text(&from_file.stdout).lines().count(), 1);
}

#[test]
fn malformed_line_is_named_and_stops_or_is_skipped() {
    let files = Files::new();
    let rules = files.write("rules.yaml", TEN_A_SECOND);
    let input = format!("{}\nnot json\n{}", request(0, "a"), request(0, "b"));
    let stopped = replay(&["--rules", path(&rules)], &input);
    assert_eq!(stopped.status.code(), Some(1));
    assert_eq!(text(&stopped.stdout).lines().count(), 1, "the lines before it were decided");
    let error = text(&stopped.stderr);
    assert!(error.contains("standard input:3: not a request"), "{error}");
    assert!(error.contains("--malformed skip"), "{error}");
    let skipped = replay(&["--rules", path(&rules), "--malformed", "skip"], &input);
    assert!(skipped.status.success());
    assert_eq!(text(&skipped.stdout).lines().count(), 2);
    let error = text(&skipped.stderr);
    assert!(
        error.contains("standard input:3:") && error.contains("1 malformed lines were skipped"),
        "{error}"
    );
}

#[test]
fn all_rule_errors_are_reported_with_place_and_remedy() {
    let files = Files::new();
    let rules = files.write(
        "rules.yaml",
        "domain: d\ndescriptors:\n- key: k\n  rate_limit: {unit: fortnight, requests_per_unit: 1.5}\n\
         - key: l\n  rate_limit: {unit: day, algorithm: leaky_bucket}\n- kye: m\n",
    );
    let output = replay(&["--rules", path(&rules)], "");
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    for part in [
        "rules.yaml:4:22",
        "unknown unit `fortnight`",
        "one of: second, minute",
        "rules.yaml:4:52",
        "rules.yaml:6:38",
        "unknown algorithm `leaky_bucket`",
        "one of: fixed_window, sliding_window, token_bucket",
        "did you mean `key`?",
    ] {
        assert!(error.contains(part), "{part} in:\n{error}");
    }
}

#[test]
fn rule_folder_is_read_without_its_dot_files() {
    let files = Files::new();
    files.write("rules/a.yaml", TEN_A_SECOND);
    files.write("rules/below/b.yml", "domain: e\n");
    files.write("rules/..data/a.yaml", TEN_A_SECOND);
    files.write("rules/.hidden.yaml", "not: rules\n");
    files.write("rules/notes.txt", "not rules\n");
    let folder = files.0.path().join("rules");
    let output = replay(&["--rules", path(&folder)], &request(0, "a"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    files.write("rules/c.yaml", TEN_A_SECOND);
    let output = replay(&["--rules", path(&folder)], &request(0, "a"));
    assert!(text(&output.stderr).contains("the domain `d` is already in"), "{}", text(&output.stderr));
}

#[test]
fn missing_files_are_named_in_the_error() {
    let output = replay(&["--rules", "no/such/rules.yaml"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no/such/rules.yaml"));
    let output = replay(&["no/such/requests.jsonl"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("opening no/such/requests.jsonl"));
}

#[test]
fn access_log_is_decided_by_address_or_chosen_fields() {
    let files = Files::new();
    let rules = files.write(
        "rules.yaml",
        "domain: web\ndescriptors:\n- {key: remote_address, rate_limit: {unit: minute, requests_per_unit: 2}}\n\
         - {key: path, value: /login, rate_limit: {unit: minute, requests_per_unit: 1}}\n",
    );
    let line = |second: u32, path: &str| {
        format!(
            "203.0.113.9 - - [15/Nov/2026:19:00:{second:02} +0000] \"GET {path} HTTP/1.1\" 200 5 \"-\" \"x\"\n"
        )
    };
    let log = [line(0, "/"), line(1, "/login"), line(2, "/login?x=1")].concat();
    let allowed = |arguments: &[&str]| {
        let arguments = [&["--rules", path(&rules), "--format", "combined"], arguments].concat();
        let output = replay(&arguments, &log);
        text(&output.stdout).lines().map(|line| line.contains("\"allow\":true")).collect::<Vec<_>>()
    };
    assert_eq!(allowed(&[]), [true, true, false]);
    assert_eq!(allowed(&["--entries", "path"]), [true, true, false]);
    let wrong = replay(&["--format", "combined", "--entries", "colour"], "");
    assert!(
        text(&wrong.stderr).contains("unknown field `colour` in an access log"),
        "{}",
        text(&wrong.stderr)
    );
}

#[test]
fn demo_shows_the_clients_that_would_be_limited() {
    let output = replay(&["--demo", "--summary"], "");
    let shown = text(&output.stdout);
    assert!(output.status.success());
    assert!(shown.contains("397 requests") && shown.contains("203.0.113.50"), "{shown}");
    assert!(!shown.contains("198.51.100.7"), "the well-behaved client is not limited: {shown}");
    assert!(shown.contains("Over time"), "{shown}");
}

#[test]
fn closed_output_pipe_is_not_an_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hivemind"))
        .arg("replay")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    let lines = request(0, "a").repeat(10_000);
    let _ = stdin.write_all(lines.as_bytes()); // The process may have exited already, which is the case under test.
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
}

#[test]
fn long_recording_is_replayed_in_constant_memory() {
    let files = Files::new();
    let rules = files.write("rules.yaml", TEN_A_SECOND);
    let mut child = Command::new(env!("CARGO_BIN_EXE_hivemind"))
        .args(["replay", "--summary", "--max-keys", "1000", "--rules", path(&rules)])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut peak_after = |lines: u64| {
        for i in 0..lines {
            stdin.write_all(request(i * 100, &format!("client {i} {}", "x".repeat(100))).as_bytes()).unwrap();
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    let (short, long) = (peak_after(10_000), peak_after(200_000));
    drop(stdin);
    assert!(child.wait().unwrap().success());
    // 200,000 lines are 36 MB and would show if they were kept. The allocator grows in steps of 4 MB.
    assert!(long < short + 10_000, "{short} kB after 10,000 lines, {long} kB after 200,000 more");
}

#[test]
fn recorded_nginx_verdicts_and_waits_are_reproduced() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/tests/data/nginx_limit_req.json");
    let data: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(data).unwrap()).unwrap();
    // The trace with two limits has two keys per request; the core's own test replays it.
    let traces = data["traces"].as_array().unwrap().iter().filter(|trace| trace["capacity"].is_u64());
    let mut events = 0;
    for trace in traces {
        let files = Files::new();
        let (rate, burst) = (trace["rate_per_second"].as_f64().unwrap(), &trace["capacity"]);
        let limit =
            format!("{{algorithm: token_bucket, unit: second, requests_per_unit: {rate}, burst: {burst}}}");
        let rules = format!("domain: d\ndescriptors:\n- key: k\n  rate_limit: {limit}\n");
        let rules = files.write("rules.yaml", &rules);
        let recorded = trace["events"].as_array().unwrap();
        let line =
            |event: &serde_json::Value| request(event[0].as_u64().unwrap(), event[1].as_str().unwrap());
        let input: String = recorded.iter().map(line).collect();
        let output = replay(&["--rules", path(&rules)], &input);
        let error = text(&output.stdout);
        for (event, line) in recorded.iter().zip(error.lines()) {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["allow"], event[2], "{}: {event}", trace["name"]);
            assert!(event[3].is_null() || line["remaining"] == event[3], "{}: {event} {line}", trace["name"]);
            assert!(
                event[4].is_null() || line["retry_after_ms"] == event[4],
                "{}: {event} {line}",
                trace["name"]
            );
            events += 1;
        }
    }
    assert_eq!(events, 326);
}

#[test]
fn rule_folder_without_rules_is_rejected() {
    // Seen failing on: `RuleTexts::read` without its check for an empty list.
    let files = Files::new();
    files.write("rules/notes.txt", "not rules\n");
    let output = replay(&["--rules", path(&files.0.path().join("rules"))], &request(0, "a"));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("the folder has no .yaml or .yml file"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn invalid_max_keys_is_rejected_with_exit_code_2() {
    for count in ["0", "1000000001", "18446744073709551615"] {
        let output = replay(&["--max-keys", count], "");
        assert_eq!(output.status.code(), Some(2), "{count}: {}", text(&output.stderr));
    }
}
