//! Rules follow their files, whichever way those change, and a broken file changes nothing.

use hivemind_testkit::{Server, Setup, get, statuses};
use std::path::Path;

fn rules(requests: u32) -> String {
    format!(
        "domain: d\ndescriptors:\n- {{key: k, rate_limit: {{unit: day, requests_per_unit: {requests}}}}}\n"
    )
}

async fn limit(server: &Server) -> String {
    statuses(&server.send(hivemind_testkit::peek("d", "k=x")).await)
}

#[tokio::test]
async fn a_file_that_is_written_is_loaded() {
    let mut server = Server::with_rules(&rules(5)).await;
    assert_eq!(limit(&server).await, "OK 5/DAY, 5 left");
    std::fs::write(server.path().join("rules.yaml"), rules(6)).unwrap();
    server.log.next("rules loaded").await;
    assert_eq!(limit(&server).await, "OK 6/DAY, 6 left");
    assert_eq!(server.metrics().await.metric("ratelimit_service_config_load_success"), Some(2));
}

#[tokio::test]
async fn a_file_that_another_is_renamed_onto_is_loaded_again_and_again() {
    let mut server = Server::with_rules(&rules(5)).await;
    for requests in 6..9 {
        let next = server.path().join("next");
        std::fs::write(&next, rules(requests)).unwrap();
        std::fs::rename(&next, server.path().join("rules.yaml")).unwrap();
        server.log.next("rules loaded").await;
        assert_eq!(limit(&server).await, format!("OK {requests}/DAY, {requests} left"));
    }
}

#[tokio::test]
async fn a_file_given_by_its_name_alone_is_followed_too() {
    // Seen failing on: the folder of `rules.yaml` taken for none, as it was.
    let setup = Setup::rules(&rules(5)).rules_as_given("rules.yaml");
    let mut server = setup.start().await;
    // The first change may be found by the look at the start; those after it are not.
    for requests in 6..9 {
        std::fs::write(server.path().join("rules.yaml"), rules(requests)).unwrap();
        server.log.next("rules loaded").await;
        assert_eq!(limit(&server).await, format!("OK {requests}/DAY, {requests} left"));
    }
}

/// A version of a `ConfigMap`'s contents, put in force as the kubelet does it.
fn swap(volume: &Path, version: &str, text: &str) {
    use std::os::unix::fs::symlink;
    std::fs::create_dir_all(volume.join(version)).unwrap();
    std::fs::write(volume.join(version).join("rules.yaml"), text).unwrap();
    symlink(version, volume.join("..data_tmp")).unwrap();
    std::fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
}

#[tokio::test]
async fn a_config_map_is_followed_from_version_to_version() {
    // As a folder, and as one file in it.
    for given in ["volume", "volume/rules.yaml"] {
        let setup = Setup::new().rules_at(given);
        let volume = setup.path().join("volume");
        std::fs::create_dir(&volume).unwrap();
        swap(&volume, "..2026_11_15_1", &rules(5));
        std::os::unix::fs::symlink("..data/rules.yaml", volume.join("rules.yaml")).unwrap();
        let mut server = setup.start().await;
        for (version, before, requests) in
            [("..2026_11_15_2", "..2026_11_15_1", 6), ("..2026_11_15_3", "..2026_11_15_2", 7)]
        {
            swap(&volume, version, &rules(requests));
            std::fs::remove_dir_all(volume.join(before)).unwrap();
            server.log.next("rules loaded").await;
            assert_eq!(limit(&server).await, format!("OK {requests}/DAY, {requests} left"), "{given}");
        }
    }
}

#[tokio::test]
async fn files_that_come_and_go_in_a_folder_are_followed() {
    let setup = Setup::new().rules_at("rules");
    setup.write("rules/one.yaml", &rules(5));
    let mut server = setup.start().await;
    let second = server.path().join("rules/two.yaml");
    std::fs::write(&second, rules(3).replace("domain: d", "domain: e")).unwrap();
    server.log.next("rules loaded").await;
    assert_eq!(statuses(&server.ask("e", "k=x").await), "OK 3/DAY, 2 left");
    std::fs::remove_file(&second).unwrap();
    server.log.next("rules loaded").await;
    assert_eq!(statuses(&server.ask("e", "k=x").await), "none");
    assert_eq!(limit(&server).await, "OK 5/DAY, 5 left");
}

#[tokio::test]
async fn sighup_loads_the_rules_anew_even_unchanged() {
    let mut server = Server::with_rules(&rules(5)).await;
    server.signal("HUP").await;
    server.log.next("rules loaded").await;
    assert_eq!(server.metrics().await.metric("ratelimit_service_config_load_success"), Some(2));
    assert_eq!(limit(&server).await, "OK 5/DAY, 5 left");
}

#[tokio::test]
async fn the_interval_finds_what_no_event_tells_of() {
    // The folder on the way to the file is swapped, so nothing happens in the one that is watched.
    let setup =
        Setup::new().rules_at("current/rules.yaml").with("rate_limiting.config_reload_interval", "100ms");
    setup.write("first/rules.yaml", &rules(5));
    setup.write("second/rules.yaml", &rules(6));
    let current = setup.path().join("current");
    std::os::unix::fs::symlink("first", &current).unwrap();
    let mut server = setup.start().await;
    for (folder, requests) in [("second", 6), ("first", 5), ("second", 6)] {
        std::os::unix::fs::symlink(folder, server.path().join("next")).unwrap();
        std::fs::rename(server.path().join("next"), &current).unwrap();
        server.log.next("rules loaded").await;
        assert_eq!(limit(&server).await, format!("OK {requests}/DAY, {requests} left"));
    }
}

#[tokio::test]
async fn a_changed_limit_keeps_its_counter() {
    // Seen failing on: `InForce::new` with new statistics in place of `stats.of`.
    let mut server = Server::with_rules(&rules(5)).await;
    for _ in 0..3 {
        server.ask("d", "k=x").await;
    }
    for (requests, expected) in [(10, "OK 10/DAY, 7 left"), (2, "OVER 2/DAY"), (4, "OK 4/DAY, 1 left")] {
        std::fs::write(server.path().join("rules.yaml"), rules(requests)).unwrap();
        server.log.next("rules loaded").await;
        assert_eq!(limit(&server).await, expected);
    }
    assert_eq!(
        server.counted("total_hits", "domain=\"d\",key1=\"k\"").await,
        Some(3),
        "nor are statistics lost"
    );
}

#[tokio::test]
async fn a_broken_file_changes_nothing_is_told_everywhere_and_mended() {
    // Seen failing on: `Reloader::reload` putting an empty ruleset in force on an error.
    let mut server = Server::with_rules(&rules(5)).await;
    server.ask("d", "k=x").await;
    let file = server.path().join("rules.yaml");
    std::fs::write(&file, rules(5).replace("unit: day", "unit: fortnight")).unwrap();
    let line = server.log.next("fortnight").await;
    assert!(line.contains("rules.yaml:3:") && line.contains("ERROR"), "its place: {line}");
    assert_eq!(limit(&server).await, "OK 5/DAY, 4 left");
    let page = get(server.admin, "/readyz").await;
    assert_eq!(page.code, 200, "those from before serve");
    for part in ["ready\n", "invalid", "rules.yaml:3:", "unknown unit `fortnight`", "one of: second"] {
        assert!(page.body.contains(part), "`{part}` is missing in {}", page.body);
    }
    let page = server.metrics().await;
    assert_eq!(page.metric("ratelimit_service_config_load_error"), Some(1));
    assert_eq!(page.metric("ratelimit_service_config_load_success"), Some(1));

    std::fs::write(&file, rules(7)).unwrap();
    server.log.next("rules loaded").await;
    assert_eq!(limit(&server).await, "OK 7/DAY, 6 left");
    assert_eq!(get(server.admin, "/readyz").await.body, "ready\n");
}

#[tokio::test]
async fn a_file_that_is_removed_changes_nothing_until_it_is_back() {
    let mut server = Server::with_rules(&rules(5)).await;
    let file = server.path().join("rules.yaml");
    std::fs::remove_file(&file).unwrap();
    server.log.next("cannot be read").await;
    assert_eq!(limit(&server).await, "OK 5/DAY, 5 left");
    std::fs::write(&file, rules(6)).unwrap();
    server.log.next("rules loaded").await;
    assert_eq!(limit(&server).await, "OK 6/DAY, 6 left");
}

#[tokio::test]
async fn looking_at_the_rules_is_no_reason_to_look_again() {
    // Seen failing on: events of reading taken for changes, as they were: 20 looks a second.
    let mut server = Server::with_rules(&rules(5)).await;
    server.signal("HUP").await;
    server.log.next("rules loaded").await;
    let watch = notify_reads(&server.path().join("rules.yaml"));
    // Nothing happening is no event to wait for; so much quiet would hold several looks, each an event.
    let quiet = tokio::time::timeout(std::time::Duration::from_millis(400), std::future::pending::<()>());
    assert!(quiet.await.is_err());
    let reads = watch.1.try_iter().count();
    assert!(reads <= 2, "{reads} events of reading");
}

/// Events of reading on a file.
fn notify_reads(file: &Path) -> (notify::RecommendedWatcher, std::sync::mpsc::Receiver<notify::Event>) {
    use notify::Watcher;
    let (tell, told) = std::sync::mpsc::channel();
    let tell = move |event: notify::Result<notify::Event>| {
        if let Ok(event) = event {
            let _ = tell.send(event); // Nobody counts any more.
        }
    };
    let mut watcher = notify::recommended_watcher(tell).unwrap();
    watcher.watch(file, notify::RecursiveMode::NonRecursive).unwrap();
    (watcher, told)
}
