//! The gateway as a process: started with its own configuration, with addresses read from its startup banner,
//! and killed when its handle is dropped.

use super::wire::Wire;
use super::{Message, Process};
use hivemind_testkit::Log;
use hivemind_testkit::{DEADLINE, Page, post, within};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use tokio::process::Command;

/// A gateway to start.
pub(crate) struct Setup {
    folder: tempfile::TempDir,
    config: Value,
    text: Option<String>,
    program: Vec<String>,
    /// The soft and hard limit of open files.
    files: Option<(u32, u32)>,
}

impl Setup {
    /// With this `gateway` section; `listen` and a generous `platform` are set by default.
    pub(crate) fn new(gateway: &Value) -> Self {
        let mut config = json!({
            "server": {"grpc_port": 0, "admin_port": 0, "metrics_port": 0},
            "gateway": {
                "listen": "127.0.0.1:0",
                "platform": {"requests": 1_000_000, "window": "1s", "burst": 1_000_000},
            },
        });
        merge(&mut config["gateway"], gateway);
        let program = ["serve", "--config", "hivemind.yaml"].map(str::to_owned).to_vec();
        Self { folder: tempfile::tempdir().unwrap(), config, text: None, program, files: None }
    }

    /// With a complete configuration; every listening port is replaced by a free one.
    pub(crate) fn of_text(text: String) -> Self {
        Self { text: Some(text), ..Self::new(&json!({})) }
    }

    /// Started by another command line.
    pub(crate) fn command(arguments: &[&str]) -> Self {
        let program = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Self { program, ..Self::new(&json!({})) }
    }

    /// With settings of any section merged in.
    pub(crate) fn with(mut self, more: &Value) -> Self {
        merge(&mut self.config, more);
        self
    }

    /// With these soft and hard limits of open files.
    pub(crate) fn with_files(mut self, soft: u32, hard: u32) -> Self {
        self.files = Some((soft, hard));
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn start_command(&self) -> Command {
        // JSON is valid YAML.
        let text = self.text.clone().unwrap_or_else(|| self.config.to_string());
        std::fs::write(self.path().join("hivemind.yaml"), text).unwrap();
        let binary = env!("CARGO_BIN_EXE_hivemind");
        let mut command = match self.files {
            None => Command::new(binary),
            Some((soft, hard)) => {
                let mut command = Command::new("prlimit");
                command.args([&format!("--nofile={soft}:{hard}"), binary]);
                command
            }
        };
        command.args(&self.program).env_clear().current_dir(self.path());
        if self.text.is_some() {
            let ports =
                ["GATEWAY__LISTEN", "SERVER__GRPC_PORT", "SERVER__ADMIN_PORT", "SERVER__METRICS_PORT"];
            let any = ["127.0.0.1:0", "0", "0", "0"];
            command.envs(ports.map(|name| format!("HIVEMIND_{name}")).into_iter().zip(any));
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    pub(crate) async fn start(self) -> Gateway {
        let mut child = self.start_command().spawn().unwrap();
        let mut log = Log::of(child.stderr.take().unwrap());
        let mut screen = Log::of(child.stdout.take().unwrap());
        let addresses = async {
            let mut lines = Vec::new();
            while lines.last().is_none_or(|line: &String| !line.contains("Stop it with")) {
                lines.push(screen.next("").await);
            }
            lines
        };
        let ended = async {
            let status = child.wait().await.unwrap();
            panic!("it ended with {status}:\n{}", log.rest().await)
        };
        let lines = tokio::select! { lines = addresses => lines, () = ended => unreachable!() };
        let address = |name: &str| {
            let line = lines.iter().find(|line| line.trim_start().starts_with(name));
            let (_, rest) = line?.split_once("://")?;
            rest.split(['/', ' ']).next()?.parse().ok()
        };
        let listen = address("gateway").unwrap_or_else(|| panic!("no gateway in:\n{}", lines.join("\n")));
        let (admin, metrics) = (address("admin"), address("metrics"));
        let redirect = address("redirect to https");
        Gateway {
            folder: self.folder,
            config: self.config,
            process: Process(child),
            listen,
            admin,
            metrics,
            redirect,
            log,
            screen,
        }
    }
}

/// Merges `more` into `into`, key by key.
fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}

/// A running gateway.
pub(crate) struct Gateway {
    folder: tempfile::TempDir,
    config: Value,
    process: Process,
    pub(crate) listen: SocketAddr,
    admin: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
    /// The listener that redirects plain HTTP to HTTPS.
    pub(crate) redirect: Option<SocketAddr>,
    pub(crate) log: Log,
    /// Read to its end, because a full pipe would block the gateway.
    pub(crate) screen: Log,
}

impl Gateway {
    /// A gateway with this `gateway` section.
    pub(crate) async fn with(gateway: &Value) -> Self {
        Setup::new(gateway).start().await
    }

    /// A gateway for this upstream, with no limit that a test would reach.
    pub(crate) async fn before(upstream: SocketAddr) -> Self {
        Self::with(&json!({"services": [{"id": "app", "upstream": url(upstream)}]})).await
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn admin(&self) -> SocketAddr {
        self.admin.expect("an admin port in the banner")
    }

    /// The body of `/readyz`.
    pub(crate) async fn readiness(&self) -> String {
        hivemind_testkit::get(self.admin(), "/readyz").await.body
    }

    /// The value of a metric.
    pub(crate) async fn metric(&self, series: &str) -> Option<u64> {
        let metrics = self.metrics.expect("a metrics port in the banner");
        hivemind_testkit::get(metrics, "/metrics").await.metric(series)
    }

    /// A connection to the gateway.
    pub(crate) async fn connect(&self) -> Wire {
        Wire::to(self.listen).await
    }

    /// One request on a connection of its own.
    pub(crate) async fn ask(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Message {
        let mut wire = self.connect().await;
        wire.send(request(method, target, headers, body)).await;
        wire.answer().await
    }

    pub(crate) async fn get(&self, target: &str) -> Message {
        self.ask("GET", target, &[], "").await
    }

    /// A request from another loopback address, with headers.
    pub(crate) async fn get_from(&self, client: &str, target: &str, headers: &[(&str, &str)]) -> Message {
        let mut wire = Wire::from(client, self.listen).await;
        wire.send(request("GET", target, headers, "")).await;
        wire.answer().await
    }

    /// Changes the configuration file atomically and does not wait.
    pub(crate) fn rewrite(&mut self, change: &Value) {
        merge(&mut self.config, change);
        self.write(&self.config.to_string());
    }

    /// Replaces the configuration file by another text.
    pub(crate) fn write(&self, text: &str) {
        let next = self.path().join("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(&next, self.path().join("hivemind.yaml")).unwrap();
    }

    /// Requests a reload at the admin port.
    pub(crate) async fn reload(&self) -> Page {
        post(self.admin(), "/api/v1/reload", "").await
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.0.id().expect("it runs")
    }

    /// Sends a signal, by its name.
    pub(crate) async fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.id());
        assert!(Command::new("sh").args(["-c", &command]).status().await.unwrap().success());
    }

    /// Waits until the process ends.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        within("its end", self.process.0.wait()).await.unwrap()
    }

    /// Its resident memory.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its size");
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Repeats a request until the response satisfies the condition, for changes that take effect
    /// asynchronously.
    pub(crate) async fn until(
        &self,
        target: &str,
        what: &str,
        condition: impl Fn(&Message) -> bool,
    ) -> Message {
        let attempts = async {
            loop {
                let answer = self.get(target).await;
                if condition(&answer) {
                    return answer;
                }
            }
        };
        let answer = tokio::time::timeout(DEADLINE, attempts).await;
        answer.unwrap_or_else(|_| panic!("waited {DEADLINE:?} until {what}"))
    }
}

/// The URL of an upstream, as configured.
pub(crate) fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

/// An HTTP/1.1 request that closes its connection.
pub(crate) fn request(method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut text = format!("{method} {target} HTTP/1.1\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        text += "host: app.example\r\n";
    }
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("connection")) {
        text += "connection: close\r\n";
    }
    for (name, value) in headers {
        text.extend([name, ": ", value, "\r\n"]);
    }
    if !body.is_empty() {
        text.extend(["content-length: ", &body.len().to_string(), "\r\n"]);
    }
    text + "\r\n" + body
}
