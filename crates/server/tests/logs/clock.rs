//! A wall clock that is set while the service runs, by libfaketime: this process sees another time than the machine has.

use crate::{RULES, json};
use hivemind_testkit::authority::put;
use hivemind_testkit::{Setup, get, within};
use std::path::Path;

/// Debian's package `faketime` has it here, whatever the machine.
fn faketime() -> String {
    let folders = std::fs::read_dir("/usr/lib").unwrap().flatten();
    let libraries = folders.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    let library = libraries.into_iter().find(|library| library.exists());
    library.expect("libfaketime is there, in Debian's package faketime").display().to_string()
}

async fn clock_is(admin: std::net::SocketAddr, state: &str) -> String {
    let looked = async {
        loop {
            let told = json(&get(admin, "/readyz?verbose").await.body);
            assert_eq!(told["status"], "ready", "{told}");
            let clock = &told["components"]["clock"];
            if clock["state"] == state {
                return clock["reason"].as_str().unwrap_or_default().to_owned();
            }
        }
    };
    within(state, looked).await
}

// Seen failing on: a step that nobody looks for.
#[tokio::test]
async fn a_wall_clock_that_is_set_is_told_in_the_log_and_by_readyz_and_requests_are_answered_on() {
    let library = faketime();
    for (step, word) in [("-30", "was set back by"), ("+3600", "jumped forward by")] {
        let setup = Setup::rules(RULES);
        let offset = setup.path().join("offset");
        put(&offset, "+0");
        let shown = |path: &Path| path.to_str().unwrap().to_owned();
        let mut server = setup
            .with("LD_PRELOAD", &library)
            .with("FAKETIME_TIMESTAMP_FILE", &shown(&offset))
            .with("FAKETIME_NO_CACHE", "1")
            .with("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .start()
            .await;
        clock_is(server.admin, "ok").await;
        server.ask("d", "many=x").await;
        put(&offset, step);
        let told = server.log.next("the wall clock").await;
        assert!(told.contains("WARN") && told.contains(word), "{told}");
        let reason = clock_is(server.admin, "degraded").await;
        assert!(reason.contains(word), "{reason}");
        assert!(get(server.admin, "/readyz").await.body.contains("\nclock: the wall clock"));
        server.ask("d", "many=x").await;
    }
}
