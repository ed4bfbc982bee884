//! Changes of the configuration, in the log.

use crate::{RULES, line};
use hivemind_testkit::Setup;
use hivemind_testkit::authority::put;

// Seen failing on: a line that does not say what changed.
#[tokio::test]
async fn a_change_of_the_configuration_is_told_by_its_keys_and_without_values() {
    let before =
        "server: {shutdown_grace: 5s}\nstorage: {redis: {url: 'redis://:first-password@192.0.2.1:1'}}\n";
    let mut server = Setup::rules(RULES).config(before).start().await;
    let file = server.path().join("hivemind.yaml");
    put(&file, &before.replace("first", "second").replace("5s", "6s"));
    let restart = server.log.next("need a restart to take effect").await;
    let told = line(&server.log.next("configuration loaded").await);
    assert_eq!(told["fields"]["changed"], "server.shutdown_grace, storage.redis.url", "{told}");
    assert!(restart.contains("server.shutdown_grace"), "{restart}");
    // What changed since the last time, and not since the start.
    put(&file, &before.replace("first", "second").replace("5s", "7s"));
    let told = line(&server.log.next("configuration loaded").await);
    assert_eq!(told["fields"]["changed"], "server.shutdown_grace", "{told}");
    // A mistake is told with its place, and without a line that has a password in it.
    put(&file, "storage: {redis: {url: 'rdis://:third-password@192.0.2.1:1'}}\n");
    let told = server.log.next("invalid configuration; the previous").await;
    assert!(told.contains("hivemind.yaml: line 1: ") && told.contains("storage.redis.url"), "{told}");
    server.signal("TERM").await;
    server.ended().await;
    let log = server.log.rest().await;
    assert!(!log.contains("-password"), "{log}");
}

// Seen failing on: rules that are not counted.
#[tokio::test]
async fn rules_that_are_loaded_or_refused_are_told_with_their_number_and_their_mistake() {
    let mut server = Setup::rules(RULES).start().await;
    let file = server.path().join("rules.yaml");
    put(&file, "domain: d\ndescriptors:\n- {key: a, rate_limit: {unit: day, requests_per_unit: 2}}\n");
    let told = line(&server.log.next("rules loaded").await);
    assert_eq!(told["fields"]["rules"], 1, "{told}");
    put(&file, "domain: d\ndescriptors:\n- {key: a, rate_limit: {unit: eon, requests_per_unit: 2}}\n");
    let told = server.log.next("invalid rules; the previous").await;
    assert!(told.contains("ERROR") && told.contains("rules.yaml:3:"), "{told}");
}
