//! Wall clock steps, made with libfaketime: the service sees another time than the machine.

use crate::{RULES, json};
use hivemind_testkit::authority::put;
use hivemind_testkit::{Setup, get, within};
use std::path::Path;

/// The path in Debian's package `faketime`, for any architecture.
fn faketime() -> String {
    let folders = std::fs::read_dir("/usr/lib").unwrap().flatten();
    let libraries = folders.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    let library = libraries.into_iter().find(|library| library.exists());
    library.expect("libfaketime of Debian's package faketime").display().to_string()
}

async fn set_clock_step(admin: std::net::SocketAddr, state: &str) -> String {
    let looked = async {
        loop {
            let message = json(&get(admin, "/readyz?verbose").await.body);
            assert_eq!(message["status"], "ready", "{message}");
            let clock = &message["components"]["clock"];
            if clock["state"] == state {
                return clock["reason"].as_str().unwrap_or_default().to_owned();
            }
        }
    };
    within(state, looked).await
}

// Seen failing on: a step that is not detected.
#[tokio::test]
async fn wall_clock_step_is_in_log_and_readyz_while_serving() {
    let library = faketime();
    for (step, word) in [("-30", "was set back by"), ("+3600", "jumped forward by")] {
        let setup = Setup::rules(RULES);
        let offset = setup.path().join("offset");
        put(&offset, "+0");
        let path_text = |path: &Path| path.to_str().unwrap().to_owned();
        let mut server = setup
            .with("LD_PRELOAD", &library)
            .with("FAKETIME_TIMESTAMP_FILE", &path_text(&offset))
            .with("FAKETIME_NO_CACHE", "1")
            .with("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .start()
            .await;
        set_clock_step(server.admin, "ok").await;
        server.ask("d", "many=x").await;
        put(&offset, step);
        let message = server.log.next("the wall clock").await;
        assert!(message.contains("WARN") && message.contains(word), "{message}");
        let reason = set_clock_step(server.admin, "degraded").await;
        assert!(reason.contains(word), "{reason}");
        assert!(get(server.admin, "/readyz").await.body.contains("\nclock: the wall clock"));
        server.ask("d", "many=x").await;
    }
}
