//! A headless Chromium, driven over the `DevTools` protocol. One process serves all tests of a binary that need a
//! browser.

use crate::within;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

const FLAGS: [&str; 6] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
];

/// One page in a browser context of its own; the browser is killed when the handle is dropped.
pub struct Browser {
    _profile: tempfile::TempDir,
    _process: Child,
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    session: String,
    calls: u64,
    events: Vec<Value>,
}

impl Browser {
    /// Opens a page.
    pub async fn open(url: &str) -> Self {
        let mut browser = Self::start().await;
        browser.go(url).await;
        browser
    }

    /// An empty page on which every event is recorded.
    pub async fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new("chromium");
        command.args(FLAGS).arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        command.env("HOME", profile.path()).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::piped()).kill_on_drop(true);
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("chromium: {error}; `./test` installs it"));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = async {
            loop {
                let line = lines.next_line().await.unwrap().expect("the address that chromium listens on");
                if let Some((_, address)) = line.split_once("DevTools listening on ") {
                    break address.trim().to_owned();
                }
            }
        };
        let address = within("chromium", address).await;
        // A full pipe would block it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let (socket, _) = within("chromium", connect_async(address)).await.unwrap();
        let mut browser = Self {
            _profile: profile,
            _process: child,
            socket,
            session: String::new(),
            calls: 0,
            events: Vec::new(),
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"})).await;
        let target_parameters = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", target_parameters).await;
        attached["sessionId"].as_str().expect("a session").clone_into(&mut browser.session);
        for domain in ["Runtime", "Page", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({})).await;
        }
        browser
    }

    /// Navigates to an address.
    pub async fn go(&mut self, url: &str) {
        let gone = self.call("Page.navigate", json!({"url": url})).await;
        assert!(gone["errorText"].is_null(), "{url}: {gone}");
    }

    /// Calls a method of the protocol. Events that arrive meanwhile are recorded.
    pub async fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut call = json!({"id": self.calls, "method": method});
        call["params"] = parameters;
        if !self.session.is_empty() {
            call["sessionId"] = json!(self.session);
        }
        self.socket.send(Message::text(call.to_string())).await.unwrap();
        let answer = async {
            loop {
                let message = self.socket.next().await.expect("an answer").unwrap();
                let Ok(text) = message.to_text() else { continue };
                let mut message: Value = serde_json::from_str(text).unwrap_or_default();
                if message["id"] == self.calls {
                    // A page that navigates away drops its pending calls.
                    let is_gone = message["error"]["message"] == "Inspected target navigated or closed";
                    assert!(message["error"].is_null() || is_gone, "{method}: {message}");
                    break message["result"].take();
                }
                if message["method"].is_string() {
                    self.events.push(message);
                }
            }
        };
        within(method, answer).await
    }

    /// The recorded events of one kind.
    pub fn happened<'a>(&'a self, event: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |message| message["method"] == event).map(|message| &message["params"])
    }

    /// The text of the page once a promise in it has resolved.
    pub async fn text_after(&mut self, promise: &str) -> String {
        // The script may not have run yet, or it ran in a page that is about to be replaced.
        let expression = format!("{promise}?.then(() => document.body.innerText)");
        let text = async {
            loop {
                if let Some(text) = self.value(&expression).await.as_str() {
                    break text.to_owned();
                }
            }
        };
        within(promise, text).await
    }

    /// The value of an expression once its promise has resolved; null if it has none.
    pub async fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        self.call("Runtime.evaluate", parameters).await["result"]["value"].take()
    }

    /// Waits until an expression in the page is true.
    pub async fn until(&mut self, expression: &str) {
        let tried = async {
            loop {
                // A page that is replaced meanwhile drops its promise.
                let waiting = format!(
                    "new Promise(resolve => {{ const look = () => {{ try {{ if ({expression}) return resolve(true); }} catch {{}} \
                     setTimeout(look, 25); }}; look(); setTimeout(() => resolve(false), 2000); }})"
                );
                if self.value(&waiting).await == true {
                    break;
                }
            }
        };
        let happened = tokio::time::timeout(crate::DEADLINE, tried).await;
        if happened.is_err() {
            let text = self.value("document.body.innerText").await;
            panic!("waited for {expression}; the page says:\n{}", text.as_str().unwrap_or_default());
        }
    }
}
