//! The service as a process, in a folder that several processes may share.

use hivemind_testkit::{Log, Page, exchange, within};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// A folder with a configuration file.
#[derive(Clone)]
pub(crate) struct Folder(Arc<TempDir>);

impl Folder {
    /// With this configuration, in which `{}` becomes the folder.
    pub(crate) fn with(configuration: &str) -> Self {
        let folder = Self(Arc::new(tempfile::tempdir().unwrap()));
        folder.write("hivemind.yaml", &configuration.replace("{}", folder.path().to_str().unwrap()));
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).unwrap();
    }

    /// `hivemind serve` with the folder's configuration and an empty environment.
    pub(crate) fn serve(&self) -> Command {
        self.started_by(&[])
    }

    /// The same with a command prefix.
    pub(crate) fn started_by(&self, words: &[&str]) -> Command {
        let binary = env!("CARGO_BIN_EXE_hivemind");
        let mut words = words.iter().copied().chain([binary, "serve", "--config", "hivemind.yaml"]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).env_clear().current_dir(self.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }
}

/// Runs another command of the binary in a folder and returns its exit code and output.
pub(crate) async fn hivemind(folder: &Folder, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hivemind"));
    command.args(words).env_clear().current_dir(folder.path()).kill_on_drop(true);
    let output = within("its end", command.output()).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout) + &text(output.stderr))
}

/// A running process.
pub(crate) struct Running {
    child: Child,
    pub(crate) log: Log,
    lines: Vec<String>,
    /// Read to its end, because a full pipe would block the process.
    _screen: Log,
}

impl Running {
    /// Starts it and waits for the end of its startup banner.
    pub(crate) async fn start(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut log = Log::of(child.stderr.take().unwrap());
        let mut screen = Log::of(child.stdout.take().unwrap());
        let mut lines: Vec<String> = Vec::new();
        let banner = async {
            while lines.last().is_none_or(|line| !line.contains("Stop it with")) {
                lines.push(screen.next("").await);
            }
        };
        let ended = async {
            let status = child.wait().await.unwrap();
            panic!("it ended with {status}:\n{}", log.rest().await)
        };
        tokio::select! { () = banner => {}, () = ended => unreachable!() };
        Self { child, log, lines, _screen: screen }
    }

    /// An address in the banner, by the text before it.
    pub(crate) fn at(&self, name: &str) -> SocketAddr {
        let line = self.lines.iter().find(|line| line.trim_start().starts_with(name) && line.contains("://"));
        let line = line.unwrap_or_else(|| panic!("no {name} in:\n{}", self.lines.join("\n")));
        line.split_once("://").unwrap().1.split(['/', ' ']).next().unwrap().parse().unwrap()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    pub(crate) async fn signal(&self, name: &str) {
        let command = format!("kill -{name} {}", self.id());
        assert!(Command::new("sh").args(["-c", &command]).status().await.unwrap().success());
    }

    pub(crate) async fn ended(&mut self) -> ExitStatus {
        within("its end", self.child.wait()).await.unwrap()
    }
}

/// Starts a process that must fail, and returns its exit code and output.
pub(crate) async fn refused(command: &mut Command) -> (Option<i32>, String) {
    let output = within("its end", command.output()).await.unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// Sends a GET request.
pub(crate) async fn get(at: SocketAddr, path: &str) -> Page {
    let connection = TcpStream::connect(at).await.unwrap();
    within("a page", exchange(connection, "GET", path, "")).await
}

/// A free port. If another process takes it first, the test fails and is retried.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}
