//! A real browser behind the gateway: a page, a script, a WebSocket, and the close code that the script reads.

use crate::harness::{Browser, Gateway, Nginx, url};
use crate::websocket::echo;
use serde_json::json;

const PAGE: &str = r"<!doctype html><title>echo</title><p id=log></p><script>
window.done = new Promise(resolve => {
  const log = text => document.getElementById('log').append(text + ' ');
  const socket = new WebSocket('ws://' + location.host + '/ws');
  let sent = 0;
  socket.onopen = () => { log('open'); socket.send('message ' + sent++); };
  socket.onmessage = event => { log(event.data); socket.send('message ' + sent++); };
  socket.onclose = event => { log('closed ' + event.code + ' ' + event.reason); resolve(); };
});
</script>";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chromium_reads_close_code_of_limited_websocket() {
    let nginx = Nginx::start("server { listen 127.0.0.1:PORT0; root html; default_type text/html; }").await;
    std::fs::create_dir(nginx.path().join("html")).unwrap();
    std::fs::write(nginx.path().join("html/index.html"), PAGE).unwrap();
    let many = json!({"requests": 1_000, "window": "1s", "burst": 1_000});
    let messages = json!({"requests": 3, "window": "24h", "burst": 3});
    let gateway = Gateway::with(&json!({"services": [
        {"id": "page", "upstream": url(nginx.listen[0])},
        {"id": "chat", "path_prefix": "/ws", "upstream": url(echo().await), "websocket": {"connections": many, "messages": messages}},
    ]}))
    .await;
    let mut browser = Browser::open(&format!("http://{}/", gateway.listen)).await;
    let text = browser.text_after("window.done").await;
    assert!(text.starts_with("open message 0 message 1 message 2 closed 4429"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chromium_reads_close_code_of_refused_connection() {
    let nginx = Nginx::start("server { listen 127.0.0.1:PORT0; root html; default_type text/html; }").await;
    std::fs::create_dir(nginx.path().join("html")).unwrap();
    std::fs::write(nginx.path().join("html/index.html"), PAGE).unwrap();
    let never = json!({"requests": 1, "window": "24h", "burst": 1});
    let gateway = Gateway::with(&json!({"services": [
        {"id": "page", "upstream": url(nginx.listen[0])},
        {"id": "chat", "path_prefix": "/ws", "upstream": url(echo().await), "websocket": {"connections": never, "on_limit": "close_4429"}},
    ]}))
    .await;
    let address = format!("ws://{}/ws", gateway.listen);
    let first = hivemind_testkit::within("the first", tokio_tungstenite::connect_async(address)).await;
    assert!(first.is_ok(), "{first:?}");
    let mut browser = Browser::open(&format!("http://{}/", gateway.listen)).await;
    let text = browser.text_after("window.done").await;
    assert!(text.starts_with("open closed 4429") || text.starts_with("closed 4429"), "{text}");
}
