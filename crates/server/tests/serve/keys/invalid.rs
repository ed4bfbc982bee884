//! Invalid and hostile request bodies of the key endpoints.

use super::{RULES, key, post_key, post_ok, with};
use hivemind_testkit::{Server, get, post};
use serde_json::{Value, json};

// Seen failing on: an unknown field ignored; an empty domain accepted.
#[tokio::test]
async fn invalid_bodies_are_rejected_with_a_remedy() {
    let server = Server::with_rules(RULES).await;
    let all = ["lookup", "reset", "unblock"];
    for body in [
        "",
        "{",
        "[]",
        r#"["d", [{"key": "user", "value": "a"}]]"#,
        "null",
        r#"{"domain": "d"}"#,
        r#"{"domain": 7, "entries": []}"#,
        r#"{"domain": "d", "entries": [["a", "b"]]}"#,
    ] {
        for what in ["lookup", "reset", "grant", "block", "unblock"] {
            let page = post(server.admin, &format!("/api/v1/keys/{what}"), body).await;
            assert_eq!(page.code, 400, "{what} {body}: {}", page.body);
            assert_eq!(page.header("content-type"), Some("application/problem+json"));
        }
    }
    let mut more = key("user=a");
    more["entries"][0]["more"] = 1.into();
    for what in all {
        assert_eq!(
            post_key(&server, what, &with("user=a", "for_ms", 1)).await.0,
            400,
            "{what}: an unknown field"
        );
        assert_eq!(post_key(&server, what, &more).await.0, 400, "{what}");
        let (code, problem) =
            post_key(&server, what, &json!({"domain": "", "entries": [{"key": "k", "value": "v"}]})).await;
        assert_eq!(code, 422, "{problem}");
        assert_eq!(post_key(&server, what, &json!({"domain": "d", "entries": []})).await.0, 422);
        let many: Vec<Value> =
            (0..257).map(|number| json!({"key": number.to_string(), "value": ""})).collect();
        assert_eq!(post_key(&server, what, &json!({"domain": "d", "entries": many})).await.0, 422);
        assert_eq!(post_key(&server, what, &json!({"domain": "d", "entries": many[..256]})).await.0, 200);
    }
    for wrong in [json!(0), json!(-1), json!(1.5), json!("2"), Value::Null] {
        assert!(
            [400, 422].contains(&post_key(&server, "grant", &with("user=a", "extra", wrong.clone())).await.0),
            "{wrong}"
        );
    }
    let both = {
        let mut body = with("user=a", "for_ms", 1);
        body["until_ms"] = 1.into();
        body
    };
    for (body, reason) in [
        (key("user=a"), "either"),
        (both, "either"),
        (with("user=a", "for_ms", 0), "at least 1"),
        (with("user=a", "for_ms", u64::MAX), "366 days"),
        (with("user=a", "for_ms", 367_u64 * 86_400_000), "366 days"),
        (with("user=a", "until_ms", u64::MAX), "366 days"),
        (with("user=a", "until_ms", 1), "past"),
    ] {
        let (code, problem) = post_key(&server, "block", &body).await;
        assert_eq!(code, 422, "{body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(reason), "{body}: {problem}");
    }
    assert_eq!(get(server.admin, "/api/v1/keys/lookup").await.code, 405);
    assert_eq!(get(server.admin, "/api/v1/blocks").await.body.trim(), r#"{"items":[],"next":null}"#);
}

#[tokio::test]
async fn keys_may_contain_any_text_up_to_the_maximum() {
    let server = Server::with_rules(RULES).await;
    for value in ["<script>alert(1)</script>", "\u{202e}\u{0}\n\"\\", ""] {
        let body = json!({"domain": "d", "entries": [{"key": "user", "value": value}]});
        let found = post_ok(&server, "lookup", &body).await;
        assert_eq!(found["entries"][0]["value"], value);
        let mut block = body.clone();
        block["for_ms"] = 60_000.into();
        post_ok(&server, "block", &block).await;
        let decision =
            json!({"domain": "d", "descriptors": [{"entries": [{"key": "user", "value": value}]}]});
        assert_eq!(post(server.admin, "/json", &decision.to_string()).await.code, 429, "{value:?}");
        assert_eq!(post_ok(&server, "unblock", &body).await["was_blocked"], true);
    }
    let of = |value: String| json!({"domain": "d", "entries": [{"key": "user", "value": value}]});
    assert_eq!(post_ok(&server, "lookup", &of("v".repeat(256 << 10))).await["limits"][0]["remaining"], 5);
    assert_eq!(post_key(&server, "lookup", &of("v".repeat((256 << 10) + 1))).await.0, 422);
    let mut long = of("v".repeat(2_000));
    long["for_ms"] = 60_000.into();
    let (code, problem) = post_key(&server, "block", &long).await;
    assert_eq!(code, 422, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("1024 bytes"), "{problem}");
    assert_eq!(post(server.admin, "/api/v1/keys/lookup", &" ".repeat(2 << 20)).await.code, 413);
}
