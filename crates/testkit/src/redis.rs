//! A Redis server for one test, in a folder of its own, killed when its handle is dropped.

use crate::within;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU16, Ordering};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

/// Ports below the ephemeral range: a client that connects to an ephemeral port without a listener may connect
/// to itself.
const FIRST_PORT: u16 = 20_000;
const PORTS: u16 = 12_000;

/// A port without a listener. Redis cannot choose a free port itself.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() * 37 % u32::from(PORTS)).unwrap();
    for _ in 0..PORTS {
        let port = FIRST_PORT + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % PORTS;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

/// A server that runs, or ran.
pub struct Redis {
    folder: tempfile::TempDir,
    child: Option<Child>,
    pub port: u16,
    arguments: Vec<String>,
}

impl Redis {
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// A server with additional arguments.
    pub async fn start_with(arguments: &[&str]) -> Self {
        let mut redis = Self::new(arguments);
        while !redis.run().await {
            redis.port = free_port(); // Another process took the port first.
        }
        redis
    }

    /// A server that does not run yet.
    pub fn new(arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Self { folder: tempfile::tempdir().unwrap(), child: None, port: free_port(), arguments }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Starts the server on its port; false if the port is taken.
    pub async fn run(&mut self) -> bool {
        let port = self.port.to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        command.args(&self.arguments).current_dir(self.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().expect("redis-server is installed");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_ready = within("Redis", async {
            while let Ok(Some(line)) = lines.next_line().await {
                if line.contains("Ready to accept connections") {
                    return true;
                }
            }
            false
        })
        .await;
        // The output is read to its end, because a full pipe would block the server.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        self.child = is_ready.then_some(child);
        is_ready
    }

    pub async fn restart(&mut self) {
        assert!(self.run().await, "its port was taken meanwhile");
    }

    /// Kills the server at once, like a power loss.
    pub async fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().await.unwrap();
    }

    /// Sends a signal, by its name.
    pub async fn signal(&self, name: &str) {
        let process = self.child.as_ref().and_then(Child::id).expect("it runs");
        let command = format!("kill -{name} {process}");
        assert!(Command::new("sh").args(["-c", &command]).status().await.unwrap().success());
    }

    /// The reply to a command.
    pub async fn command(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port.to_string()]).args(arguments);
        let output = within("redis-cli", command.output()).await.unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}
