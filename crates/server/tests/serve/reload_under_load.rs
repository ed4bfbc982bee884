//! Reloads under load from several connections: no call fails, and no hit is lost.

use hivemind_testkit::{Setup, peek, request, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const CONNECTIONS: u64 = 4;
const RELOADS: u32 = 25;

fn rules(version: u32) -> String {
    // Every version has other rules around this one, so that tree positions change; some versions are invalid.
    let others = (0..version % 7).map(|number| format!("- key: n{version}-{number}\n"));
    let others = others.collect::<Vec<_>>().concat();
    let limit = 1_000_000 + version;
    format!(
        "domain: d\ndescriptors:\n{others}- {{key: k, rate_limit: {{unit: day, requests_per_unit: {limit}}}}}\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloads_under_load_fail_no_call_and_lose_no_hit() {
    // Seen failing on: a rejected file that leaves no active rules.
    let mut server = Setup::rules(&rules(0)).start().await;
    let stop = Arc::new(AtomicBool::new(false));
    let calls = Arc::new(AtomicU64::new(0));
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let mut client = server.client().await;
        let (stop, calls) = (Arc::clone(&stop), Arc::clone(&calls));
        callers.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let answer = client.should_rate_limit(request("d", "k=x")).await.expect("an answer");
                let limit = answer.get_ref().statuses[0].current_limit.as_ref().expect("a limit");
                assert!(limit.requests_per_unit >= 1_000_000);
                calls.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let file = server.path().join("rules.yaml");
    for version in 1..=RELOADS {
        if version % 5 == 0 {
            std::fs::write(&file, "domain: [broken").unwrap();
            server.log.next("the previous rules stay active").await;
        }
        let next = server.path().join("next");
        std::fs::write(&next, rules(version)).unwrap();
        std::fs::rename(&next, &file).unwrap();
        server.log.next("rules loaded").await;
    }
    // Thousands of calls, however fast the reloads were.
    let enough = async {
        while calls.load(Ordering::Relaxed) < 5_000 {
            tokio::task::yield_now().await;
        }
    };
    within("enough calls", enough).await;
    stop.store(true, Ordering::Relaxed);
    within("the callers", callers.join_all()).await;

    let sent = calls.load(Ordering::Relaxed);
    let answer = server.send(peek("d", "k=x")).await;
    let left = u64::from(answer.statuses[0].limit_remaining);
    assert_eq!(left, u64::from(1_000_000 + RELOADS) - sent, "every call is counted once");
    assert_eq!(server.counted("total_hits", "domain=\"d\",key1=\"k\"").await, Some(sent));
    let page = server.metrics().await;
    assert_eq!(page.metric("ratelimit_service_config_load_error"), Some(u64::from(RELOADS / 5)));
    assert_eq!(page.metric("ratelimit_service_config_load_success"), Some(u64::from(1 + RELOADS)));
}

#[tokio::test]
async fn continuously_changing_folder_is_still_reloaded() {
    // Seen failing on: waiting endlessly for a quiet period.
    let mut server = Setup::rules(&rules(0)).start().await;
    let (file, noise) = (server.path().join("rules.yaml"), server.path().join("noise.log"));
    // The initial scan is over when this change and the next one have been found.
    for version in 1..=2 {
        std::fs::write(&file, rules(version)).unwrap();
        server.log.next("rules loaded").await;
    }
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                std::fs::write(&noise, "something").unwrap();
                std::thread::yield_now();
            }
        })
    };
    std::fs::write(&file, rules(3)).unwrap();
    server.log.next("rules loaded").await;
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
}
