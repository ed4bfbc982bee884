//! Many connections that ask for nothing.

use crate::harness::{Echo, Setup, Wire, is_long, url};
use serde_json::json;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_idle_connections_need_little_memory() {
    // A thousand where there is less time.
    let count: u64 = if is_long() { 10_000 } else { 1_000 };
    let upstream = Echo::start().await;
    let setup = Setup::new(&json!({
        "max_connections": 12_000, "idle_timeout": "10m", "header_timeout": "10m",
        "services": [{"id": "app", "upstream": url(upstream.address)}],
    }));
    let gateway = setup.start().await;
    assert_eq!(gateway.get("/").await.code(), 200);
    let before = gateway.resident_kib();
    let mut held = Vec::new();
    for number in 0..count {
        // So many that one client would run out of ports.
        let client = format!("127.0.0.{}", 1 + number % 4);
        let mut wire = Wire::from(&client, gateway.listen).await;
        wire.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert_eq!(wire.answer().await.code(), 200);
        held.push(wire);
    }
    let after = gateway.resident_kib();
    let each = (after - before) * 1024 / count;
    // What is promised is for a build for release, and measured by benches/gateway; without optimisation
    // what a task keeps is several times as large.
    let most = if cfg!(debug_assertions) { 48 << 10 } else { 12 << 10 };
    assert!(each < most, "{each} bytes for each connection, {after} KiB for {count}");
    // All of them are still served.
    for wire in held.iter_mut().step_by(97) {
        wire.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
        assert_eq!(wire.answer().await.code(), 200);
    }
    upstream.take();
}
