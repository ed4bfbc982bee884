//! One node as a process: in a folder of its own, on loopback or in a namespace, called over a Unix socket. A
//! path is the same in every namespace, so the test still reaches a node that is cut off.

use crate::network::Network;
use hivemind_testkit::{Client, Log, Page, exchange, get, within};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tonic::transport::Endpoint;

pub(crate) struct Node {
    pub(crate) name: String,
    /// The address for its peers.
    pub(crate) mesh: SocketAddr,
    folder: PathBuf,
    variables: Vec<(String, String)>,
    /// Its `/etc/hosts`, in a namespace.
    pub(crate) hosts: Option<PathBuf>,
    running: Option<Running>,
}

struct Running {
    child: Child,
    log: Log,
    grpc: SocketAddr,
    metrics: SocketAddr,
    _screen: Log,
}

impl Node {
    /// A node that does not run yet; its folder has `config.yaml` and the rules.
    pub(crate) fn new(name: &str, folder: PathBuf, mesh: SocketAddr) -> Self {
        Self { name: name.to_owned(), mesh, folder, variables: Vec::new(), hosts: None, running: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// Sets an environment variable for its next start.
    pub(crate) fn variable(&mut self, name: &str, value: &str) {
        self.variables.retain(|(key, _)| key != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Starts it and waits for the end of its startup banner.
    pub(crate) async fn start(&mut self, place: Option<(&Network, usize)>) {
        let program = env!("CARGO_BIN_EXE_hivemind");
        let mut command = match (place, &self.hosts) {
            (Some((network, index)), Some(hosts)) => {
                let mut command = network.member(index).command("unshare");
                let bind = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
                command.args(["--mount", "sh", "-c", bind]).arg(hosts).arg(program);
                command
            }
            (Some((network, index)), None) => network.member(index).command(program),
            (None, _) => Command::new(program),
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        command.args(["serve", "--config", "config.yaml"]).current_dir(&self.folder).env_clear();
        command.env("PATH", path).envs(self.variables.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut log = Log::of(child.stderr.take().unwrap());
        let mut screen = Log::of(child.stdout.take().unwrap());
        let addresses = async {
            let grpc = address(&screen.next("grpc://").await);
            let metrics = address(&screen.next("metrics ").await);
            screen.next("Stop it with").await;
            (grpc, metrics)
        };
        let ended = async {
            let status = child.wait().await.unwrap();
            panic!("{} ended with {status}:\n{}", self.name, log.rest().await)
        };
        let (grpc, metrics) =
            tokio::select! { addresses = addresses => addresses, () = ended => unreachable!() };
        self.running = Some(Running { child, log, grpc, metrics, _screen: screen });
    }

    fn running(&self) -> &Running {
        self.running.as_ref().unwrap_or_else(|| panic!("{} does not run", self.name))
    }

    pub(crate) fn runs(&self) -> bool {
        self.running.is_some()
    }

    /// Its gRPC address over TCP, if it is on loopback.
    pub(crate) fn grpc(&self) -> SocketAddr {
        self.running().grpc
    }

    pub(crate) fn process(&self) -> u32 {
        self.running().child.id().expect("it runs")
    }

    pub(crate) fn log(&mut self) -> &mut Log {
        &mut self.running.as_mut().expect("it runs").log
    }

    /// Kills it at once, like a power loss.
    pub(crate) async fn kill(&mut self) {
        let mut running = self.running.take().expect("it runs");
        running.child.kill().await.unwrap();
    }

    /// Stops it with SIGTERM.
    pub(crate) async fn stop(&mut self) -> ExitStatus {
        self.signal("TERM").await;
        let mut running = self.running.take().expect("it runs");
        within("its end", running.child.wait()).await.unwrap()
    }

    /// Sends a signal, by its name.
    pub(crate) async fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.process());
        assert!(Command::new("sh").args(["-c", &command]).status().await.unwrap().success());
    }

    /// A client that stays usable after a restart of the node.
    pub(crate) fn client(&self) -> Client {
        let socket = format!("unix://{}", self.folder.join("grpc.sock").display());
        Client::new(Endpoint::from_shared(socket).unwrap().connect_lazy())
    }

    /// A page of its admin port.
    pub(crate) async fn page(&self, path: &str) -> Page {
        let connection = within("a connection", UnixStream::connect(self.folder.join("admin.sock"))).await;
        within("a page", exchange(connection.unwrap(), "GET", path, "")).await
    }

    /// Its peers, as the admin API lists them.
    pub(crate) async fn peers(&self) -> Vec<Value> {
        let page = self.page("/api/v1/peers").await;
        assert_eq!(page.code, 200, "{}", page.body);
        let page: Value = serde_json::from_str(&page.body).unwrap();
        page["peers"].as_array().expect("a list of peers").clone()
    }

    /// The number of peers in a state.
    pub(crate) async fn count_peers(&self, state: &str) -> usize {
        self.peers().await.iter().filter(|peer| peer["state"] == state).count()
    }

    /// Its metrics page.
    pub(crate) async fn metrics(&self, place: Option<(&Network, usize)>) -> String {
        let address = self.running().metrics;
        let Some((network, index)) = place else { return get(address, "/metrics").await.body };
        network.member(index).output_of("curl", &["--silent", &format!("http://{address}/metrics")]).await
    }
}

/// The address in a banner line.
fn address(line: &str) -> SocketAddr {
    let (_, rest) = line.split_once("://").expect("an address");
    rest.split(['/', ' ']).next().unwrap().parse().unwrap()
}
