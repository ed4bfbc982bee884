//! Commands for one key, and for blocks and decisions, as tables and as JSON.

use super::{CommandOutput, ctl, run};
use crate::RULES;
use crate::http::json;
use hivemind_testkit::{Server, Setup, overall, within};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Command;

/// The rows of a table as words, headings first.
fn table(output: &CommandOutput) -> Vec<Vec<String>> {
    assert_eq!(output.code, Some(0), "{}{}", output.out, output.error);
    output
        .out
        .lines()
        .map(|line| line.split("  ").map(str::trim).map(str::to_owned).collect())
        .map(filled)
        .collect()
}

fn filled(words: Vec<String>) -> Vec<String> {
    words.into_iter().filter(|word| !word.is_empty()).collect()
}

async fn answer(server: &Server, arguments: &[&str]) -> Value {
    answer_with(0, server, arguments).await
}

/// The JSON output of a command that had no effect.
async fn answer_without_effect(server: &Server, arguments: &[&str]) -> Value {
    answer_with(1, server, arguments).await
}

async fn answer_with(code: i32, server: &Server, arguments: &[&str]) -> Value {
    let output = ctl(server, &[&["--json"], arguments].concat()).await;
    assert_eq!(output.code, Some(code), "{arguments:?}: {}{}", output.out, output.error);
    json(&output.out)
}

// Seen failing on: a grant that does not explain why it returned less than requested.
#[tokio::test]
async fn key_get_grant_and_reset_print_table_and_json() {
    let server = Server::with_rules(RULES).await;
    let key = ["shop", "plan=gold", "user=ada"];
    let on = |what: &'static str, more: &[&'static str]| [&["key", what][..], &key, more].concat();
    for _ in 0..5 {
        server.ask("shop", "plan=gold user=ada").await;
    }
    let found = table(&ctl(&server, &on("get", &[])).await);
    assert_eq!(found[0], ["limit", "remaining", "reset in", "mode"]);
    assert_eq!(
        (found.len(), &found[1][..2], &found[1][3]),
        (2, &["50 per 1m", "45"].map(str::to_owned)[..], &"enforce".to_owned())
    );
    let found = answer(&server, &on("get", &[])).await;
    assert_eq!((&found["limits"][0]["remaining"], &found["blocked_until_ms"]), (&json!(45), &Value::Null));
    let given = table(&ctl(&server, &on("grant", &["--extra", "2"])).await);
    assert_eq!(given[0], ["limit", "remaining", "reset in", "returned"]);
    assert_eq!((&given[1][1], &given[1][3], given.len()), (&"47".to_owned(), &"2".to_owned(), 2));
    let given = answer(&server, &on("grant", &["--extra", "1"])).await;
    assert_eq!((&given["limits"][0]["remaining"], &given["limits"][0]["granted"]), (&json!(48), &json!(1)));
    // If less was returned than requested, the output explains it.
    let given = ctl(&server, &on("grant", &["--extra", "100"])).await;
    let last = given.out.lines().last().expect("a line");
    assert!(
        given.out.contains("50") && last.starts_with("A grant returns at most what was spent"),
        "{}",
        given.out
    );
    server.ask("shop", "plan=gold user=ada").await;
    assert_eq!(ctl(&server, &on("reset", &[])).await.out, "reset: 1 counters\n");
    assert_eq!(answer(&server, &on("get", &[])).await["limits"][0]["remaining"], 50);
    assert_eq!(answer(&server, &on("reset", &[])).await, json!({"reset": 1}));
    assert_eq!(given.code, Some(0), "a part was returned");
    let unlimited = ctl(&server, &["key", "get", "shop", "color=red"]).await;
    assert!(unlimited.out.starts_with("no rule limits this key"), "{}", unlimited.out);
}

#[tokio::test]
async fn blocked_key_is_listed_refused_and_shown_in_decisions() {
    let server = Server::with_rules(RULES).await;
    assert_eq!(ctl(&server, &["blocks"]).await.out, "no blocked keys\n");
    let blocked = ctl(&server, &["key", "block", "shop", "user=ada", "--for", "1h"]).await;
    assert!(
        blocked.out.starts_with("blocked until 2") && !blocked.out.contains("No rule"),
        "{}",
        blocked.out
    );
    assert_eq!(overall(&server.ask("shop", "user=ada").await), "OVER");
    assert_eq!(overall(&server.ask("shop", "user=bob").await), "OK");
    let listed = table(&ctl(&server, &["blocks"]).await);
    assert_eq!(listed[0], ["until", "domain", "key"]);
    assert_eq!((listed.len(), &listed[1][1..]), (2, &["shop", "user=ada"].map(str::to_owned)[..]));
    let listed = answer(&server, &["blocks"]).await;
    assert_eq!(listed["items"][0]["entries"], json!([{"key": "user", "value": "ada"}]));
    let found = ctl(&server, &["key", "get", "shop", "user=ada"]).await;
    assert!(found.out.starts_with("blocked until 2"), "{}", found.out);
    let denied = table(&ctl(&server, &["decisions", "--denied"]).await);
    assert_eq!(denied[0], ["time", "by", "outcome", "domain", "descriptor", "hits", "left", "rule"]);
    assert_eq!(
        (denied.len(), &denied[1][1..6]),
        (2, &["grpc", "denied", "shop", "user=ada", "1"].map(str::to_owned)[..])
    );
    let allowed = answer(&server, &["decisions", "--allowed", "--value", "bob", "--limit", "5"]).await;
    assert_eq!(allowed["items"][0]["descriptors"][0]["entries"][0]["value"], "bob", "{allowed}");
    let ended = ctl(&server, &["key", "unblock", "shop", "user=ada"]).await;
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "no longer blocked\n"));
    assert_eq!(overall(&server.ask("shop", "user=ada").await), "OK");
    assert_eq!(ctl(&server, &["key", "unblock", "shop", "user=ada"]).await.out, "it was not blocked\n");
    let hour = answer(&server, &["key", "block", "shop", "user=ada", "--for", "1h"]).await;
    let later = hour["blocked_until_ms"].as_u64().unwrap() + 1_000;
    let again = ["key", "block", "shop", "user=ada", "--until-ms", &later.to_string()];
    assert_eq!(answer(&server, &again).await["blocked_until_ms"], later);
    assert_eq!(answer(&server, &["key", "unblock", "shop", "user=ada"]).await, json!({"was_blocked": true}));
}

// Seen failing on: success reported for a block that refuses no request.
#[tokio::test]
async fn block_of_key_without_limit_prints_its_effect() {
    let server = Server::with_rules(RULES).await;
    let blocked = ctl(&server, &["key", "block", "shop", "color=red", "--for", "1h"]).await;
    let text = "No rule limits this key: the block affects only requests that carry their own limit.";
    assert!(blocked.code == Some(0) && blocked.out.contains(text), "{}", blocked.out);
    assert_eq!(overall(&server.ask("shop", "color=red").await), "OK", "as the output says");
}

// Seen failing on: a reset and a grant reported as done although the shared counter keeps the spent hits.
#[tokio::test]
async fn key_in_overflow_counter_is_not_reset_or_granted() {
    let server = Setup::rules(RULES).with("rate_limiting.max_keys", "1").start().await;
    server.ask("shop", "user=first").await; // It takes the only slot.
    for name in ["second", "third"] {
        server.ask("shop", &format!("user={name}")).await;
    }
    let own = ["key", "reset", "shop", "user=second"];
    let before = answer(&server, &["key", "get", "shop", "user=second"]).await;
    let left = before["limits"][0]["remaining"].as_u64().unwrap();
    assert!(left < 2, "{before}");
    let reset = ctl(&server, &own).await;
    assert!(reset.out.starts_with("reset: 0 counters\nnot reset: 1 counters\n"), "{}", reset.out);
    assert!(reset.out.contains("rate_limiting.max_keys"), "{}", reset.out);
    assert_eq!(reset.code, Some(1), "nothing was reset");
    let reset = answer_without_effect(&server, &own).await;
    assert_eq!((&reset["reset"], &reset["crowded"]), (&json!(0), &json!(1)), "{reset}");
    let given =
        answer_without_effect(&server, &["key", "grant", "shop", "user=second", "--extra", "1"]).await;
    let limit = &given["limits"][0];
    assert_eq!((&limit["granted"], &limit["remaining"]), (&json!(0), &json!(left)), "{given}");
    assert!(limit["why"].as_str().is_some_and(|why| why.contains("because the table is full")), "{given}");
    // A key with a counter of its own is reset, which frees the slot.
    assert_eq!(
        answer(&server, &["key", "grant", "shop", "user=first", "--extra", "1"]).await["limits"][0]["granted"],
        1
    );
}

// Seen failing on: at most one `--url`; a refusal without the service's problem.
#[tokio::test]
async fn several_urls_are_called_in_turn_and_failures_reported() {
    let servers = [Server::with_rules(RULES).await, Server::with_rules(RULES).await];
    let urls: Vec<String> = servers.iter().map(|server| format!("http://{}", server.admin)).collect();
    let unreachable = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let unreachable = format!("http://127.0.0.1:{unreachable}");
    let block = ["key", "block", "shop", "user=ada", "--for", "1h"];
    let both = ["--url", &urls[0], "--url", &urls[1]];
    let done = run(&[&both[..], &block].concat(), &[]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.error);
    assert_eq!(done.out.matches("at this node only").count(), 2, "{}", done.out);
    for server in &servers {
        assert_eq!(overall(&server.ask("shop", "user=ada").await), "OVER");
    }
    let three = ["--url", &urls[0], "--url", &unreachable, "--url", &urls[1]];
    let some = run(&[&three[..], &["key", "unblock", "shop", "user=ada"]].concat(), &[]).await;
    assert_eq!((some.code, some.out.matches("no longer blocked").count()), (Some(1), 2), "{}", some.out);
    assert!(some.out.contains(&format!("{unreachable}: failed: cannot reach")), "{}", some.out);
    let some = run(&[&three[..], &["--json"], &block].concat(), &[]).await;
    let lines: Vec<Value> = some.out.lines().map(json).collect();
    assert_eq!((some.code, lines.len()), (Some(1), 3), "{}", some.out);
    for (line, url) in lines.iter().zip([&urls[0], &unreachable, &urls[1]]) {
        assert_eq!(line["url"], **url);
        assert_eq!(line["answer"]["scope"] == "node", *url != unreachable, "{line}");
        assert_eq!(line["error"].is_string(), *url == unreachable, "{line}");
        assert_eq!(line.get("problem"), None, "{line}");
    }
    // The output for a service that refused contains its whole problem.
    let refused = run(&[&both[..], &["--json", "peers", "--forget", "absent"]].concat(), &[]).await;
    let lines: Vec<Value> = refused.out.lines().map(json).collect();
    assert_eq!((refused.code, lines.len()), (Some(1), 2), "{}", refused.out);
    for line in lines {
        assert!(line["error"].is_string() && line["problem"]["status"] == 404, "{line}");
    }
}

/// Runs a command with standard input.
async fn with_input(server: &Server, arguments: &[&str], input: &str) -> CommandOutput {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hivemind"));
    command.args(["ctl", "--url", &format!("http://{}", server.admin)]).args(arguments).env_clear();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
    let output = within("ctl", child.wait_with_output()).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    CommandOutput { code: output.status.code(), out: text(output.stdout), error: text(output.stderr) }
}

// Seen failing on: `-` taken as a file name.
#[tokio::test]
async fn credential_is_read_from_file_or_stdin() {
    let rules = "domain: shop\ndescriptors:\n- {key: plan, value: gold, descriptors: [{key: authorization, rate_limit: {unit: day, requests_per_unit: 9}}]}\n";
    let server = Server::with_rules(rules).await;
    let ask = || server.ask("shop", "plan=gold authorization=opens-it");
    let file = server.path().join("value");
    std::fs::write(&file, "opens-it\n").unwrap();
    let from = format!("authorization={}", file.display());
    let key = ["shop", "plan=gold", "authorization"];
    let block = [&["key", "block"][..], &key, &["--value-file", &from, "--for", "1h"]].concat();
    let blocked = ctl(&server, &block).await;
    assert_eq!((blocked.code, overall(&ask().await)), (Some(0), "OVER"), "{}", blocked.error);
    let explained = ctl(&server, &[&["explain"][..], &key, &["--value-file", &from]].concat()).await;
    assert!(explained.out.starts_with("blocked until"), "{} {}", explained.out, explained.error);
    let unblock = [&["key", "unblock"][..], &key, &["--value-file", "authorization=-"]].concat();
    let ended = with_input(&server, &unblock, "opens-it\n").await;
    assert_eq!((ended.code, overall(&ask().await)), (Some(0), "OK"), "{}{}", ended.out, ended.error);
}

// Guards against: exit status 0 of a reset that reached no counter and of a grant that returned unlimited.
#[tokio::test]
async fn commands_without_effect_fail_unless_already_true() {
    let server = Server::with_rules(RULES).await;
    let no_rule = ["key", "reset", "shop", "color=red"];
    let output = ctl(&server, &no_rule).await;
    assert_eq!(
        (output.code, output.out.as_str()),
        (Some(1), "reset: 0 counters\nno rule limits this key; see `hivemind ctl explain`\n"),
        "{}",
        output.error
    );
    assert_eq!(answer_without_effect(&server, &no_rule).await, json!({"reset": 0}));
    let unspent = ["key", "grant", "shop", "user=ada", "--extra", "1"];
    let output = ctl(&server, &unspent).await;
    assert!(
        output.code == Some(1) && output.out.contains("all of it is there"),
        "{}{}",
        output.out,
        output.error
    );
    assert_eq!(answer_without_effect(&server, &unspent).await["limits"][0]["granted"], 0);
    assert_eq!(
        answer_without_effect(&server, &["key", "grant", "shop", "color=red", "--extra", "1"]).await,
        json!({"limits": []})
    );
    // With several services, one without effect is enough to fail.
    let other = Server::with_rules(RULES).await;
    other.ask("shop", "user=ada").await;
    let urls = [&server, &other].map(|server| format!("http://{}", server.admin));
    let both = ["--url", &urls[0], "--url", &urls[1]];
    assert_eq!(run(&[&both[..], &unspent].concat(), &[]).await.code, Some(1));
    let unblocked = ctl(&server, &["key", "unblock", "shop", "user=ada"]).await;
    assert_eq!((unblocked.code, unblocked.out.as_str()), (Some(0), "it was not blocked\n"));
}

// Guards against: hashes and truncated values shown as if they were the key.
#[tokio::test]
async fn hashed_and_cut_values_are_marked_and_hash_as_key_warns() {
    let rules = "domain: d\ndescriptors:\n- {key: authorization, rate_limit: {unit: day, requests_per_unit: 1}}\n- {key: path, rate_limit: {unit: day, requests_per_unit: 1}}\n";
    let server = Server::with_rules(rules).await;
    let long = format!("/{}", "x".repeat(2_000));
    for _ in 0..2 {
        server.ask("d", "authorization=secret-of-ada").await;
        server.ask("d", &format!("path={long}")).await;
        server.ask("d", "path=/").await;
    }
    let block = ["key", "block", "d", "authorization=secret-of-ada", "--for", "1h"];
    let blocked = ctl(&server, &block).await;
    assert_eq!((blocked.code, blocked.error.as_str()), (Some(0), ""), "{}", blocked.out);
    let line =
        |out: &str, part: &str| out.lines().find(|line| line.contains(part)).unwrap_or_default().to_owned();
    for listed in [&["keys", "top"][..], &["decisions", "--denied"], &["blocks"]] {
        let out = ctl(&server, listed).await.out;
        assert!(line(&out, "sha256:").contains(" (hashed)"), "{listed:?}: {out}");
        if listed[0] != "blocks" {
            assert!(line(&out, "path=/x").contains("… (cut)"), "{listed:?}: {out}");
            assert!(out.lines().any(|line| line.contains("path=/ ") || line.ends_with("path=/")), "{out}");
        }
    }
    // A hash used in place of the value leads to a warning.
    let top = ctl(&server, &["blocks"]).await.out;
    let shown = line(&top, "sha256:");
    let shown = shown.split_whitespace().find(|word| word.starts_with("authorization=")).unwrap();
    for what in ["get", "reset", "unblock"] {
        let output = ctl(&server, &["key", what, "d", shown]).await;
        assert!(output.error.contains("not the value"), "{what}: {}", output.error);
        assert!(!output.out.contains("not the value"), "{what}: {}", output.out);
    }
    let plain = ctl(&server, &["key", "get", "d", "path=/"]).await;
    assert_eq!(plain.error, "");
}

// Guards against: an explanation without the block.
#[tokio::test]
async fn explanation_prints_the_block_of_a_key() {
    let server = Server::with_rules(RULES).await;
    let explain = ["explain", "shop", "user=ada"];
    assert!(!ctl(&server, &explain).await.out.contains("blocked"));
    ctl(&server, &["key", "block", "shop", "user=ada", "--for", "1h"]).await;
    let text = ctl(&server, &explain).await.out;
    let got = ctl(&server, &["key", "get", "shop", "user=ada"]).await.out;
    assert!(text.starts_with("blocked until 2") && text.contains("\nuser=ada\n"), "{text}");
    assert_eq!(text.lines().next(), got.lines().next());
}
