//! `hivemind ctl limits`: the gateway's limits.

use super::ctl;
use crate::RULES;
use crate::http::json;
use crate::limits::GATEWAY;
use hivemind_testkit::{Server, Setup};

// Seen failing on: the effective limit printed as the configured one.
#[tokio::test]
async fn gateway_limits_table_shows_sources_and_caps() {
    let server = Server::with_rules(RULES).await;
    assert!(ctl(&server, &["limits"]).await.out.starts_with("no gateway runs there"));
    let server = Setup::rules(RULES).config(GATEWAY).start().await;
    let all = ctl(&server, &["limits"]).await;
    let rows: Vec<Vec<&str>> = all
        .out
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(all.code, Some(0), "{}", all.error);
    assert_eq!(rows[0][..5], ["service", "endpoint", "kind", "limit", "instead of"], "{}", all.out);
    // A capped limit is followed by the configured one.
    let whole = rows.iter().find(|row| row[0] == "shop" && row[1] == "http").expect("a row");
    assert_eq!(whole[2..4], ["200 per 1m burst 50", "500 per 1m burst 50"], "{}", all.out);
    assert_eq!(whole[4..8], ["service", "platform", "service", "built_in"], "{}", all.out);
    let login = ctl(&server, &["limits", "--search", "LOGIN"]).await;
    assert_eq!(login.out.lines().count(), 2, "{}", login.out);
    assert!(
        login.out.contains("POST,PUT /login") && login.out.contains("5 per 1m burst 50"),
        "{}",
        login.out
    );
    let page = json(&ctl(&server, &["limits", "--limit", "1", "--json"]).await.out);
    let next = page["next"].as_str().expect("more");
    let next = ctl(&server, &["limits", "--limit", "1", "--cursor", next, "--json"]).await;
    assert_ne!(json(&next.out)["items"], page["items"]);
    let none = ctl(&server, &["limits", "--search", "absent"]).await;
    assert!(none.code == Some(0) && none.out.contains("no limit matches"), "{}", none.out);
}
