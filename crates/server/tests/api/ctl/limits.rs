//! The gateway's limits, from the shell.

use super::ctl;
use crate::RULES;
use crate::asked::json;
use crate::limits::GATEWAY;
use hivemind_testkit::{Server, Setup};

// Seen failing on: what is in force, told as what was written.
#[tokio::test]
async fn the_gateways_limits_are_a_table_with_who_says_each_field_and_what_holds_them_down() {
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
    // What is capped has what was written for it beside it.
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
    let none = ctl(&server, &["limits", "--search", "nobody"]).await;
    assert!(none.code == Some(0) && none.out.contains("no limit matches"), "{}", none.out);
}
