//! A headless Chromium, asked over the protocol of its developer tools.

use super::gateway::request;
use super::programs::{Process, command};
use super::wire::Wire;
use crate::support::within;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

pub(crate) struct Browser {
    _profile: tempfile::TempDir,
    _process: Process,
    page: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Browser {
    /// Opens a page.
    pub(crate) async fn open(url: &str) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut command = command("chromium");
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--remote-debugging-port=0",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg(url);
        command.env("HOME", profile.path()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("chromium: {error}; `./test` installs it"));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = async {
            loop {
                let line = lines.next_line().await.unwrap().expect("chromium to say where it listens");
                if let Some((_, rest)) = line.split_once("DevTools listening on ws://") {
                    break rest.split('/').next().unwrap().parse::<SocketAddr>().unwrap();
                }
            }
        };
        let address = within("chromium", address).await;
        // A full pipe would stop it.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let target = async {
            loop {
                // It answers only to an address.
                let mut wire = Wire::to(address).await;
                wire.send(request("GET", "/json/list", &[("host", &address.to_string())], "")).await;
                let list: Value = serde_json::from_slice(&wire.answer().await.body).unwrap();
                let pages = list.as_array().unwrap().iter();
                let mut sockets = pages.filter(|page| page["type"] == "page" && page["url"] == url);
                if let Some(page) = sockets.next() {
                    break page["webSocketDebuggerUrl"].as_str().unwrap().to_owned();
                }
            }
        };
        let target = within("the page", target).await;
        let (page, _) = within("the page", connect_async(target)).await.unwrap();
        Self { _profile: profile, _process: Process(child), page }
    }

    /// The text of a page, once a promise of its script is kept.
    pub(crate) async fn shown(&mut self, promise: &str) -> String {
        // The script may not have run yet, or run in a page that is about to be replaced.
        let expression = format!("{promise}?.then(() => document.body.innerText)");
        let shown = async {
            loop {
                if let Some(text) = self.value(&expression).await.as_str() {
                    break text.to_owned();
                }
            }
        };
        within(promise, shown).await
    }

    /// The value of an expression, once its promise is kept; nothing where it has none.
    async fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let call = json!({"id": 1, "method": "Runtime.evaluate", "params": parameters}).to_string();
        self.page.send(Message::text(call)).await.unwrap();
        loop {
            let message = self.page.next().await.expect("an answer").unwrap();
            let Ok(text) = message.to_text() else { continue };
            let mut answer: Value = serde_json::from_str(text).unwrap_or_default();
            if answer["id"] == 1 {
                return answer["result"]["result"]["value"].take();
            }
        }
    }
}
