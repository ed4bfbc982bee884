//! Keys that an operator blocks until a time.

use super::{RULES, key, post_key, post_ok, remaining, with};
use hivemind_core::{Clock, SystemClock};
use hivemind_testkit::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use hivemind_testkit::{Server, Setup, get, overall, post, request, status_summary, statuses};
use serde_json::{Value, json};

fn now_ms() -> u64 {
    SystemClock.now().as_nanos() / 1_000_000
}

async fn blocks(server: &Server, query: &str) -> Value {
    let page = get(server.admin, &format!("/api/v1/blocks{query}")).await;
    assert_eq!(page.code, 200, "{}", page.body);
    serde_json::from_str(&page.body).unwrap()
}

const HOUR_MS: u64 = 3_600_000;

// Seen failing on: blocks that decisions ignore; other limits of the request spent.
#[tokio::test]
async fn blocked_key_is_refused_and_spends_no_other_limit() {
    let server = Server::with_rules(RULES).await;
    let began = now_ms();
    let blocked = post_ok(&server, "block", &with("user=ada", "for_ms", HOUR_MS)).await;
    let until = blocked["blocked_until_ms"].as_u64().unwrap();
    assert!((began + HOUR_MS..=now_ms() + HOUR_MS).contains(&until), "{blocked}");
    assert_eq!(blocked["scope"], "node");
    let answer = server.ask("d", "user=ada").await;
    assert_eq!((overall(&answer), status_summary(&answer.statuses[0])), ("OVER", "OVER 5/DAY".to_owned()));
    let wait = answer.statuses[0].duration_until_reset.unwrap().seconds;
    assert!((3_500..=3_600).contains(&wait), "{wait}");
    // Other keys are unaffected, and so are the other limits of the request.
    assert_eq!(statuses(&server.ask("d", "user=bob").await), "OK 5/DAY, 4 left");
    for descriptors in ["second=x | user=ada", "user=ada | second=x"] {
        let answer = server.ask("d", descriptors).await;
        assert_eq!(overall(&answer), "OVER");
        assert!(statuses(&answer).contains("OK 7/DAY, 7 left"), "{}", statuses(&answer));
    }
    assert_eq!(remaining(&server, "second=x").await, [7]);
    let found = post_ok(&server, "lookup", &key("user=ada")).await;
    assert_eq!(
        (&found["blocked_until_ms"], &found["limits"][0]["remaining"]),
        (&json!(until), &json!(5)),
        "its counters are unchanged"
    );
    // The HTTP check applies it too.
    let body = r#"{"domain": "d", "descriptors": [{"entries": [{"key": "user", "value": "ada"}]}]}"#;
    assert_eq!(post(server.admin, "/json", body).await.code, 429);
    assert_eq!(
        blocks(&server, "").await,
        json!({
            "items": [{
                "domain": "d", "entries": [{"key": "user", "value": "ada"}], "is_cut": false,
                "key_id": found["key_id"], "until_ms": until, "by": null,
            }],
            "next": null,
        })
    );
    // It is among the most refused keys.
    assert!(get(server.admin, "/api/v1/top?by=denied").await.body.contains("ada"));
    assert_eq!(post_ok(&server, "unblock", &key("user=ada")).await, json!({"was_blocked": true}));
    assert_eq!(statuses(&server.ask("d", "user=ada").await), "OK 5/DAY, 4 left");
    assert_eq!(post_ok(&server, "unblock", &key("user=ada")).await, json!({"was_blocked": false}));
    assert_eq!(blocks(&server, "").await["items"], json!([]));
}

#[tokio::test]
async fn block_ends_at_its_own_time() {
    let server = Server::with_rules(RULES).await;
    let mut span = 400;
    let mut was_refused = false;
    while !was_refused {
        let until = now_ms() + span;
        let (code, answer) = post_key(&server, "block", &with("user=ada", "until_ms", until)).await;
        assert!(code == 200 || (code == 422 && now_ms() >= until), "{answer}");
        hivemind_testkit::within("the end of the block", async {
            loop {
                let is_over = overall(&server.ask("d", "user=ada").await) == "OVER";
                // Only a response from before its end can show the block.
                if now_ms() < until {
                    assert!(is_over, "blocked until {until}");
                    was_refused = true;
                } else if !is_over {
                    return;
                }
            }
        })
        .await;
        span *= 2; // The machine was too busy for a single request.
    }
    assert_eq!(blocks(&server, "").await["items"], json!([]));
    assert_eq!(post_ok(&server, "lookup", &key("user=ada")).await["blocked_until_ms"], Value::Null);
}

// Seen failing on: a block rejected because no rule limits the key, although requests carry their own limit.
#[tokio::test]
async fn key_limited_only_by_requests_can_be_blocked() {
    let server = Server::with_rules(RULES).await;
    let request_with_limit = || {
        let mut request = request("d", "nothing=x");
        request.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 9, unit: 4 });
        request
    };
    assert_eq!(overall(&server.send(request_with_limit()).await), "OK");
    let blocked = post_ok(&server, "block", &with("nothing=x", "for_ms", HOUR_MS)).await;
    assert_eq!(blocked["limits"], 0, "no rule limits it");
    assert_eq!(overall(&server.send(request_with_limit()).await), "OVER");
    assert_eq!(overall(&server.ask("d", "nothing=x").await), "OK", "requests without a limit pass");
    assert_eq!(post_ok(&server, "block", &with("both=x", "for_ms", HOUR_MS)).await["limits"], 2);
}

// Seen failing on: a blocked key of a shadow rule counted as passed.
#[tokio::test]
async fn blocked_requests_are_counted_separately() {
    let server = Server::with_rules(RULES).await;
    post_ok(&server, "block", &with("watched=x", "for_ms", HOUR_MS)).await;
    assert_eq!(overall(&server.ask("d", "watched=x | second=y").await), "OVER");
    let page = server.metrics().await.body;
    let line = |name: &str| page.lines().find(|line| line.starts_with(name)).map(str::to_owned);
    assert_eq!(line("hivemind_blocked_total").as_deref(), Some("hivemind_blocked_total 1"), "{page}");
    let watched = |line: &&str| line.contains("shadow_mode") && line.contains("watched");
    assert!(!page.lines().filter(watched).any(|line| !line.ends_with(" 0")), "{page}");
    let level = |line: &&str| line.starts_with("ratelimit_counter_value") && line.contains("watched");
    assert!(!page.lines().any(|line| level(&line) && !line.ends_with(" 0")), "{page}");
}

// Seen failing on: a shadow rule's blocked key reported as OK; a quota with room next to a blocked one.
#[tokio::test]
async fn block_applies_in_every_mode_but_global_shadow() {
    let server = Server::with_rules(RULES).await;
    for text in ["watched=x", "quota=x", "both=x"] {
        post_ok(&server, "block", &with(text, "for_ms", HOUR_MS)).await;
        let answer = server.ask("d", text).await;
        assert_eq!(overall(&answer), "OVER", "{text}");
        assert!(statuses(&answer).starts_with("OVER"), "{text}: {}", statuses(&answer));
    }
    let answer = server.ask("d", "quota=y | quota=x").await;
    assert_eq!((overall(&answer), statuses(&answer).as_str()), ("OVER", "OK 3/DAY, 3 left | OVER 3/DAY"));
    // Refunds are applied all the same.
    server.ask("d", "second=x").await;
    let mut back = request("d", "quota=x | second=x");
    back.descriptors[1].is_negative_hits = true;
    assert_eq!(overall(&server.send(back).await), "OVER");
    assert_eq!(remaining(&server, "second=x").await, [7]);

    let server = Setup::rules(RULES).with("rate_limiting.shadow_mode", "true").start().await;
    post_ok(&server, "block", &with("user=ada", "for_ms", HOUR_MS)).await;
    let answer = server.ask("d", "user=ada | second=x").await;
    assert_eq!((overall(&answer), statuses(&answer).as_str()), ("OK", "OVER 5/DAY | OK 7/DAY, 6 left"));
}

#[tokio::test]
async fn key_without_a_counter_cannot_be_blocked() {
    let server = Server::with_rules(RULES).await;
    let (code, problem) = post_key(&server, "block", &with("group=ab", "for_ms", HOUR_MS)).await;
    assert_eq!(code, 409, "{problem}");
    let reason = r#"block the entries [{"key":"group","value":"a*"}]"#;
    assert!(problem["detail"].as_str().unwrap().contains(reason), "{problem}");
    // A guard is not a counter of the clients of its address, and a name that the gateway does not know has no
    // counter.
    for (domain, reason) in [(":ip_guard", "block the `client`"), (":http", "no counter of that name")] {
        let mut body = with("address=203.0.113.9", "for_ms", HOUR_MS);
        body["domain"] = domain.into();
        let (code, problem) = post_key(&server, "block", &body).await;
        assert_eq!(code, 409, "{problem}");
        assert!(problem["detail"].as_str().unwrap().contains(reason), "{problem}");
    }
    // A whole pattern can be blocked, by its own name.
    post_ok(&server, "block", &with("group=a*", "for_ms", HOUR_MS)).await;
    assert_eq!(overall(&server.ask("d", "group=ab").await), "OVER");
    let server = Setup::rules(RULES).with("rate_limiting.enabled", "false").start().await;
    let (code, problem) = post_key(&server, "block", &with("user=ada", "for_ms", HOUR_MS)).await;
    assert_eq!(code, 409, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("rate_limiting.enabled"), "{problem}");
}

#[tokio::test]
async fn block_survives_reload_and_ends_without_its_rule() {
    let server = Server::with_rules(RULES).await;
    post_ok(&server, "block", &with("user=ada", "for_ms", HOUR_MS)).await;
    let reload = async |rules: &str| {
        std::fs::write(server.path().join("rules.yaml"), rules).unwrap();
        let page = post(server.admin, "/api/v1/reload", "").await;
        assert_eq!(page.code, 200, "{}", page.body);
    };
    reload(&RULES.replace("requests_per_unit: 5", "requests_per_unit: 50")).await;
    assert_eq!(statuses(&server.ask("d", "user=ada").await), "OVER 50/DAY");
    reload("{domain: d, descriptors: [{key: other, rate_limit: {unit: day, requests_per_unit: 1}}]}").await;
    assert_eq!(overall(&server.ask("d", "user=ada").await), "OK", "no rule matches it any more");
    assert_eq!(blocks(&server, "").await["items"].as_array().unwrap().len(), 1);
    reload(RULES).await;
    assert_eq!(overall(&server.ask("d", "user=ada").await), "OVER");
    reload("{domain: d, descriptors: [{key: other, rate_limit: {unit: day, requests_per_unit: 1}}]}").await;
    assert_eq!(post_ok(&server, "unblock", &key("user=ada")).await, json!({"was_blocked": true}));
}

// Seen failing on: a cursor that repeats a page.
#[tokio::test]
async fn blocks_are_bounded_and_paginated() {
    let server = Server::with_rules(RULES).await;
    for number in 0..1_000 {
        post_ok(&server, "block", &with(&format!("user={number:04}"), "for_ms", HOUR_MS)).await;
    }
    let (code, problem) = post_key(&server, "block", &with("user=x", "for_ms", HOUR_MS)).await;
    assert_eq!(code, 409, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("1000 keys are blocked"), "{problem}");
    let (mut names, mut query, mut pages) = (Vec::new(), "?limit=300".to_owned(), 0);
    loop {
        let page = blocks(&server, &query).await;
        pages += 1;
        names.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["entries"][0]["value"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["next"].as_str() else { break };
        query = format!("?limit=300&cursor={next}");
    }
    // Ordered by their ends; those within one millisecond have any order.
    names.sort_unstable();
    let expected: Vec<String> = (0..1_000).map(|number| format!("{number:04}")).collect();
    assert_eq!((names, pages), (expected, 4));
    for wrong in ["?limit=0", "?limit=1001", "?cursor=%21", "?page=2"] {
        assert_eq!(get(server.admin, &format!("/api/v1/blocks{wrong}")).await.code, 400, "{wrong}");
    }
    // Each of them is found among the others.
    assert_eq!(overall(&server.ask("d", "user=0777").await), "OVER");
    assert_eq!(overall(&server.ask("d", "user=x").await), "OK");
}
