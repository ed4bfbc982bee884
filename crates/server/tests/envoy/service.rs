//! `hivemind serve` as a process.

use hivemind_testkit::envoy::deadline::until;
use hivemind_testkit::envoy::http::{Connection, read_line};
use hivemind_testkit::envoy::process::Process;
use serde_json::{Value, json};
use std::io::BufReader;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};

/// The service, killed when dropped.
pub(crate) struct Service {
    process: Process,
    pub(crate) grpc: SocketAddr,
    metrics: SocketAddr,
    /// Held open, because a service with a closed output is another test.
    _screen: BufReader<ChildStdout>,
}

impl Service {
    /// Starts the service in `folder` with these rules and these settings of `rate_limiting`.
    pub(crate) fn start(folder: &Path, rules: &str, rate_limiting: &Value) -> Self {
        std::fs::write(folder.join("rules.yaml"), rules).unwrap();
        let settings = json!({
            "server": {"grpc_port": 0, "admin_port": 0, "metrics_port": 0, "grpc_uds": Self::socket(folder)},
            "rate_limiting": rate_limiting,
        });
        std::fs::write(folder.join("hivemind.yaml"), settings.to_string()).unwrap();
        Self::start_again(folder)
    }

    /// Starts the same service again, on the same Unix socket.
    pub(crate) fn start_again(folder: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hivemind"));
        command
            .args(["serve", "--config"])
            .arg(folder.join("hivemind.yaml"))
            .arg("--rules")
            .arg(folder.join("rules.yaml"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut process = Process::start(&mut command);
        let mut screen = BufReader::new(process.0.stdout.take().unwrap());
        let (mut grpc, mut metrics) = (None, None);
        // The banner is printed after all sockets are bound, so a test that has read it can connect.
        loop {
            let line = read_line(&mut screen).unwrap_or_else(|_| panic!("no start; the reason is above"));
            if let Some((_, address)) = line.split_once("grpc://") {
                grpc = address.parse().ok();
            } else if let Some(("  metrics", address)) = line.split_once("             http://") {
                metrics = address.strip_suffix("/metrics").and_then(|address| address.parse().ok());
            } else if line.starts_with("Stop it") {
                break;
            }
        }
        Self { process, grpc: grpc.unwrap(), metrics: metrics.unwrap(), _screen: screen }
    }

    pub(crate) fn socket(folder: &Path) -> PathBuf {
        folder.join("hivemind.sock")
    }

    /// Sends SIGTERM and waits until the process ends.
    pub(crate) fn stop(mut self) {
        let kill = ["-c", "kill -TERM \"$0\"", &self.process.0.id().to_string()].map(str::to_owned);
        assert!(Command::new("sh").args(kill).status().unwrap().success());
        let status = until("the service ends", || self.process.exit_status());
        assert!(status.success(), "the service ended with {status}");
    }

    /// A counter, summed over the rules whose labels contain this text.
    pub(crate) fn counted(&self, counter: &str, labels: &str) -> u64 {
        let page = Connection::tcp(self.metrics).unwrap().get("/metrics", &[]).unwrap().body;
        let name = format!("ratelimit_service_rate_limit_{counter}{{");
        let lines = page.lines().filter(|line| line.starts_with(&name) && line.contains(labels));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Waits until this many hits are counted: Envoy does not wait for the calls that it makes after a
    /// response.
    pub(crate) fn until_counted(&self, counter: &str, labels: &str, count: u64) {
        let what = format!("{counter} of {labels} is {count}");
        until(&what, || (self.counted(counter, labels) == count).then_some(()));
    }
}
