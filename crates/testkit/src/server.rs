//! The service as a process: started in a folder of its own, with addresses read from its startup banner, and
//! killed
//! when its handle is dropped.

use crate::proto::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use crate::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use crate::{Log, Page, binary, get, request, within};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use tokio::process::{Child, Command};
use tonic::transport::{Channel, Endpoint};

pub type Client = RateLimitServiceClient<Channel>;

/// A service to start.
pub struct Setup {
    folder: tempfile::TempDir,
    rules: Option<PathBuf>,
    config: Option<PathBuf>,
    program: Vec<String>,
    settings: Vec<(String, String)>,
}

impl Setup {
    /// Nothing is set, not even the ports: for a network namespace of its own.
    pub fn by_default() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            rules: None,
            config: None,
            program: vec![binary().into_os_string().into_string().unwrap()],
            settings: Vec::new(),
        }
    }

    /// Without rules, and with any free port.
    pub fn new() -> Self {
        let setup = Self::by_default();
        ["grpc_port", "admin_port", "metrics_port"]
            .into_iter()
            .fold(setup, |setup, port| setup.with(&format!("server.{port}"), "0"))
    }

    /// With these rules, in a file.
    pub fn rules(text: &str) -> Self {
        let setup = Self::new();
        setup.write("rules.yaml", text);
        setup.rules_at("rules.yaml")
    }

    /// With the rule file at a path below its folder.
    pub fn rules_at(self, path: &str) -> Self {
        let rules = Some(self.path().join(path));
        Self { rules, ..self }
    }

    /// With the rule path exactly as given on the command line.
    pub fn rules_as_given(self, path: &str) -> Self {
        Self { rules: Some(path.into()), ..self }
    }

    /// With the configuration file `hivemind.yaml`. Settings from `with` take precedence over it.
    pub fn config(self, text: &str) -> Self {
        self.write("hivemind.yaml", text);
        let config = Some(self.path().join("hivemind.yaml"));
        Self { config, ..self }
    }

    /// With a command prefix.
    pub fn started_by(self, words: &[&str]) -> Self {
        let words = words.iter().map(|word| (*word).to_owned());
        Self { program: words.chain(self.program).collect(), ..self }
    }

    /// With a setting, by its key in the configuration file; a name in capitals is a plain environment
    /// variable.
    pub fn with(mut self, key: &str, value: &str) -> Self {
        let is_variable = key == key.to_uppercase();
        let setting = || format!("HIVEMIND_{}", key.to_uppercase().replace('.', "__"));
        let variable = if is_variable { key.to_owned() } else { setting() };
        self.settings.push((variable, value.to_owned()));
        self
    }

    /// The service's own folder, which is also its working directory.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file into the folder.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]).arg("serve");
        command.env_clear().envs(self.settings.iter().cloned()).current_dir(self.path());
        if let Some(config) = &self.config {
            command.arg("--config").arg(config);
        }
        if let Some(rules) = &self.rules {
            command.arg("--rules").arg(rules);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// Starts the service and waits for the end of its startup banner.
    pub async fn start(self) -> Server {
        let mut child = self.command().spawn().unwrap();
        let mut log = Log::of(child.stderr.take().unwrap());
        let mut out = Log::of(child.stdout.take().unwrap());
        // A port that is disabled is not printed.
        let address = |line: &str| {
            let (_, rest) = line.split_once("://").unwrap_or(("", "0.0.0.0:0"));
            rest.split(['/', ' ']).next().unwrap().parse().unwrap()
        };
        let addresses = async {
            let grpc = address(&out.next("rate limit service ").await);
            let admin = address(&out.next("admin ").await);
            let metrics = address(&out.next("metrics ").await);
            out.next("Stop it with").await;
            (grpc, admin, metrics)
        };
        let ended = async {
            let status = child.wait().await.unwrap();
            panic!("it ended with {status}:\n{}", log.rest().await)
        };
        let (grpc, admin, metrics) =
            tokio::select! { addresses = addresses => addresses, () = ended => unreachable!() };
        Server { folder: self.folder, child, grpc, admin, metrics, log, screen: out }
    }

    /// Starts a service that must fail: its exit status, standard output and standard error.
    pub async fn fail(&self) -> (ExitStatus, String, String) {
        let output = within("its end", self.command().output()).await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status, text(output.stdout), text(output.stderr))
    }
}

/// A running service.
pub struct Server {
    folder: tempfile::TempDir,
    child: Child,
    pub grpc: SocketAddr,
    pub admin: SocketAddr,
    pub metrics: SocketAddr,
    pub log: Log,
    pub screen: Log,
}

impl Server {
    /// A service with these rules and defaults for everything else.
    pub async fn with_rules(text: &str) -> Self {
        Setup::rules(text).start().await
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Opens another connection.
    pub async fn client(&self) -> Client {
        Client::new(self.channel().await)
    }

    pub async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.grpc)).unwrap();
        within("a connection", endpoint.connect()).await.unwrap()
    }

    /// Sends one request, with descriptors in the short form.
    pub async fn ask(&self, domain: &str, text: &str) -> RateLimitResponse {
        self.send(request(domain, text)).await
    }

    pub async fn send(&self, request: RateLimitRequest) -> RateLimitResponse {
        self.try_send(request).await.unwrap()
    }

    pub async fn try_send(&self, request: RateLimitRequest) -> Result<RateLimitResponse, tonic::Status> {
        let mut client = self.client().await;
        let answer = within("an answer", client.should_rate_limit(request)).await;
        answer.map(tonic::Response::into_inner)
    }

    /// Fetches the metrics page.
    pub async fn metrics(&self) -> Page {
        get(self.metrics, "/metrics").await
    }

    /// A counter of a rule, by its labels.
    pub async fn counted(&self, field: &str, labels: &str) -> Option<u64> {
        self.metrics().await.metric(&format!("ratelimit_service_rate_limit_{field}{{{labels}}}"))
    }

    /// The process id.
    pub fn process(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Sends a signal, by its name.
    pub async fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.process());
        assert!(Command::new("sh").args(["-c", &command]).status().await.unwrap().success());
    }

    /// Waits until the process ends.
    pub async fn ended(&mut self) -> ExitStatus {
        within("its end", self.child.wait()).await.unwrap()
    }
}

/// Runs another command of the binary and returns its exit code and output.
pub fn hivemind(arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = std::process::Command::new(binary());
    let output = command.args(arguments).env_clear().output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout) + &text(output.stderr))
}
