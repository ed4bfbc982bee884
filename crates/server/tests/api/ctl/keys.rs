//! One key, and the blocks and decisions around it, from the shell: looked at and acted on, as a table and as JSON.

use super::{Said, ctl, run};
use crate::RULES;
use crate::asked::json;
use hivemind_testkit::{Server, Setup, overall, within};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Command;

/// A table as its rows of words, its headings first.
fn table(said: &Said) -> Vec<Vec<String>> {
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.error);
    said.out
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

/// An answer that says that nothing was done.
async fn undone(server: &Server, arguments: &[&str]) -> Value {
    answer_with(1, server, arguments).await
}

async fn answer_with(code: i32, server: &Server, arguments: &[&str]) -> Value {
    let said = ctl(server, &[&["--json"], arguments].concat()).await;
    assert_eq!(said.code, Some(code), "{arguments:?}: {}{}", said.out, said.error);
    json(&said.out)
}

// Seen failing on: a grant that does not say why less came back than was asked for.
#[tokio::test]
async fn a_key_is_looked_up_given_back_to_and_reset_as_a_table_and_as_json() {
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
    // Where less came back than was asked for, it says why.
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
    assert_eq!(given.code, Some(0), "some of it was given back");
    let nothing = ctl(&server, &["key", "get", "shop", "nobody=x"]).await;
    assert!(nothing.out.starts_with("no rule limits this key"), "{}", nothing.out);
}

#[tokio::test]
async fn a_key_is_blocked_listed_and_unblocked_and_what_was_refused_is_among_the_decisions() {
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

// Seen failing on: success told of a block that refuses nobody.
#[tokio::test]
async fn a_block_of_a_key_that_no_rule_limits_says_whom_it_refuses() {
    let server = Server::with_rules(RULES).await;
    let blocked = ctl(&server, &["key", "block", "shop", "nobody=x", "--for", "1h"]).await;
    let told = "No rule limits this key: the block affects only requests that carry their own limit.";
    assert!(blocked.code == Some(0) && blocked.out.contains(told), "{}", blocked.out);
    assert_eq!(overall(&server.ask("shop", "nobody=x").await), "OK", "as it says");
}

// Seen failing on: a reset and a grant that are told as done, and leave what the others have spent.
#[tokio::test]
async fn what_shares_a_counter_for_want_of_room_is_told_and_not_called_reset_or_given_back() {
    let server = Setup::rules(RULES).with("rate_limiting.max_keys", "1").start().await;
    server.ask("shop", "user=first").await; // It has all the room there is.
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
    assert_eq!(reset.code, Some(1), "it was not done");
    let reset = undone(&server, &own).await;
    assert_eq!((&reset["reset"], &reset["crowded"]), (&json!(0), &json!(1)), "{reset}");
    let given = undone(&server, &["key", "grant", "shop", "user=second", "--extra", "1"]).await;
    let limit = &given["limits"][0];
    assert_eq!((&limit["granted"], &limit["remaining"]), (&json!(0), &json!(left)), "{given}");
    assert!(limit["why"].as_str().is_some_and(|why| why.contains("for want of room")), "{given}");
    // Who has room of its own is reset, and its room is free.
    assert_eq!(
        answer(&server, &["key", "grant", "shop", "user=first", "--extra", "1"]).await["limits"][0]["granted"],
        1
    );
}

// Seen failing on: one --url at most; a refusal without what the service said.
#[tokio::test]
async fn several_services_are_asked_one_after_the_other_and_one_that_fails_is_told_of() {
    let servers = [Server::with_rules(RULES).await, Server::with_rules(RULES).await];
    let urls: Vec<String> = servers.iter().map(|server| format!("http://{}", server.admin)).collect();
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let nobody = format!("http://127.0.0.1:{nobody}");
    let block = ["key", "block", "shop", "user=ada", "--for", "1h"];
    let both = ["--url", &urls[0], "--url", &urls[1]];
    let done = run(&[&both[..], &block].concat(), &[]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.error);
    assert_eq!(done.out.matches("at this node only").count(), 2, "{}", done.out);
    for server in &servers {
        assert_eq!(overall(&server.ask("shop", "user=ada").await), "OVER");
    }
    let three = ["--url", &urls[0], "--url", &nobody, "--url", &urls[1]];
    let some = run(&[&three[..], &["key", "unblock", "shop", "user=ada"]].concat(), &[]).await;
    assert_eq!((some.code, some.out.matches("no longer blocked").count()), (Some(1), 2), "{}", some.out);
    assert!(some.out.contains(&format!("{nobody}: failed: cannot reach")), "{}", some.out);
    let some = run(&[&three[..], &["--json"], &block].concat(), &[]).await;
    let lines: Vec<Value> = some.out.lines().map(json).collect();
    assert_eq!((some.code, lines.len()), (Some(1), 3), "{}", some.out);
    for (line, url) in lines.iter().zip([&urls[0], &nobody, &urls[1]]) {
        assert_eq!(line["url"], **url);
        assert_eq!(line["answer"]["scope"] == "node", *url != nobody, "{line}");
        assert_eq!(line["error"].is_string(), *url == nobody, "{line}");
        assert_eq!(line.get("problem"), None, "{line}");
    }
    // Of one that refused, all that it said is there as well.
    let refused = run(&[&both[..], &["--json", "peers", "--forget", "nobody"]].concat(), &[]).await;
    let lines: Vec<Value> = refused.out.lines().map(json).collect();
    assert_eq!((refused.code, lines.len()), (Some(1), 2), "{}", refused.out);
    for line in lines {
        assert!(line["error"].is_string() && line["problem"]["status"] == 404, "{line}");
    }
}

/// The same, with something to read.
async fn with_input(server: &Server, arguments: &[&str], input: &str) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hivemind"));
    command.args(["ctl", "--url", &format!("http://{}", server.admin)]).args(arguments).env_clear();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
    let output = within("ctl", child.wait_with_output()).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), error: text(output.stderr) }
}

// Seen failing on: `-` taken for a file.
#[tokio::test]
async fn a_credential_is_blocked_by_a_file_and_unblocked_by_standard_input_and_is_in_no_argument() {
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

// Guards against: exit status 0 of a reset that reached nothing, and of a grant that gave nothing.
#[tokio::test]
async fn what_was_not_done_fails_and_what_is_so_already_does_not() {
    let server = Server::with_rules(RULES).await;
    let no_rule = ["key", "reset", "shop", "nobody=x"];
    let said = ctl(&server, &no_rule).await;
    assert_eq!(
        (said.code, said.out.as_str()),
        (Some(1), "reset: 0 counters\nno rule limits this key; see `hivemind ctl explain`\n"),
        "{}",
        said.error
    );
    assert_eq!(undone(&server, &no_rule).await, json!({"reset": 0}));
    let unspent = ["key", "grant", "shop", "user=ada", "--extra", "1"];
    let said = ctl(&server, &unspent).await;
    assert!(said.code == Some(1) && said.out.contains("all of it is there"), "{}{}", said.out, said.error);
    assert_eq!(undone(&server, &unspent).await["limits"][0]["granted"], 0);
    assert_eq!(
        undone(&server, &["key", "grant", "shop", "nobody=x", "--extra", "1"]).await,
        json!({"limits": []})
    );
    // Of several, one that did nothing is enough.
    let other = Server::with_rules(RULES).await;
    other.ask("shop", "user=ada").await;
    let urls = [&server, &other].map(|server| format!("http://{}", server.admin));
    let both = ["--url", &urls[0], "--url", &urls[1]];
    assert_eq!(run(&[&both[..], &unspent].concat(), &[]).await.code, Some(1));
    let unblocked = ctl(&server, &["key", "unblock", "shop", "user=ada"]).await;
    assert_eq!((unblocked.code, unblocked.out.as_str()), (Some(0), "it was not blocked\n"));
}

// Guards against: hashes and the beginnings of values that were shown as if they were the key.
#[tokio::test]
async fn what_is_not_the_key_itself_is_marked_and_a_hash_that_is_given_for_it_is_told_of() {
    let rules = "domain: d\ndescriptors:\n- {key: authorization, rate_limit: {unit: day, requests_per_unit: 1}}\n- {key: path, rate_limit: {unit: day, requests_per_unit: 1}}\n";
    let server = Server::with_rules(rules).await;
    let long = format!("/{}", "x".repeat(2_000));
    for _ in 0..2 {
        server.ask("d", "authorization=secret-of-somebody").await;
        server.ask("d", &format!("path={long}")).await;
        server.ask("d", "path=/").await;
    }
    let block = ["key", "block", "d", "authorization=secret-of-somebody", "--for", "1h"];
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
    // Whoever takes the hash for the value is told that it is none.
    let top = ctl(&server, &["blocks"]).await.out;
    let shown = line(&top, "sha256:");
    let shown = shown.split_whitespace().find(|word| word.starts_with("authorization=")).unwrap();
    for what in ["get", "reset", "unblock"] {
        let said = ctl(&server, &["key", what, "d", shown]).await;
        assert!(said.error.contains("not the value"), "{what}: {}", said.error);
        assert!(!said.out.contains("not the value"), "{what}: {}", said.out);
    }
    let plain = ctl(&server, &["key", "get", "d", "path=/"]).await;
    assert_eq!(plain.error, "");
}

// Guards against: an explanation that says nothing of it.
#[tokio::test]
async fn an_explanation_says_that_a_key_is_blocked() {
    let server = Server::with_rules(RULES).await;
    let explain = ["explain", "shop", "user=ada"];
    assert!(!ctl(&server, &explain).await.out.contains("blocked"));
    ctl(&server, &["key", "block", "shop", "user=ada", "--for", "1h"]).await;
    let told = ctl(&server, &explain).await.out;
    let got = ctl(&server, &["key", "get", "shop", "user=ada"]).await.out;
    assert!(told.starts_with("blocked until 2") && told.contains("\nuser=ada\n"), "{told}");
    assert_eq!(told.lines().next(), got.lines().next());
}
