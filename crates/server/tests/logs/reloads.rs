//! Log lines of configuration and rule reloads.

use crate::{RULES, line};
use hivemind_testkit::Setup;
use hivemind_testkit::authority::put;

// Seen failing on: a line without the changed keys.
#[tokio::test]
async fn configuration_change_is_logged_by_keys_without_values() {
    let before =
        "server: {shutdown_grace: 5s}\nstorage: {redis: {url: 'redis://:first-password@192.0.2.1:1'}}\n";
    let mut server = Setup::rules(RULES).config(before).start().await;
    let file = server.path().join("hivemind.yaml");
    put(&file, &before.replace("first", "second").replace("5s", "6s"));
    let restart = server.log.next("need a restart to take effect").await;
    let line_text = line(&server.log.next("configuration loaded").await);
    assert_eq!(line_text["fields"]["changed"], "server.shutdown_grace, storage.redis.url", "{line_text}");
    assert!(restart.contains("server.shutdown_grace"), "{restart}");
    // The keys that changed since the last reload, not since the start.
    put(&file, &before.replace("first", "second").replace("5s", "7s"));
    let line_text = line(&server.log.next("configuration loaded").await);
    assert_eq!(line_text["fields"]["changed"], "server.shutdown_grace", "{line_text}");
    // An error is logged with its place, but without a line that contains a password.
    put(&file, "storage: {redis: {url: 'rdis://:third-password@192.0.2.1:1'}}\n");
    let line_text = server.log.next("invalid configuration; the previous").await;
    assert!(
        line_text.contains("hivemind.yaml: line 1: ") && line_text.contains("storage.redis.url"),
        "{line_text}"
    );
    server.signal("TERM").await;
    server.ended().await;
    let log = server.log.rest().await;
    assert!(!log.contains("-password"), "{log}");
}

// Seen failing on: a line without the number of rules.
#[tokio::test]
async fn rule_reload_is_logged_with_count_or_error() {
    let mut server = Setup::rules(RULES).start().await;
    let file = server.path().join("rules.yaml");
    put(&file, "domain: d\ndescriptors:\n- {key: a, rate_limit: {unit: day, requests_per_unit: 2}}\n");
    let line_text = line(&server.log.next("rules loaded").await);
    assert_eq!(line_text["fields"]["rules"], 1, "{line_text}");
    put(&file, "domain: d\ndescriptors:\n- {key: a, rate_limit: {unit: eon, requests_per_unit: 2}}\n");
    let line_text = server.log.next("invalid rules; the previous").await;
    assert!(line_text.contains("ERROR") && line_text.contains("rules.yaml:3:"), "{line_text}");
}
