//! A redis-server of a test's own, in a folder of its own.

use hivemind_core::{Clock, SystemClock};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

/// How long a server may take to be there, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The program that the tests are run on; another by `HIVEMIND_REDIS_SERVER`.
fn program() -> String {
    std::env::var("HIVEMIND_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

/// The Valkey that `./test` installs. Where there is none a test has nothing to run on, which CI does not accept.
pub(crate) fn valkey() -> Option<String> {
    let program = std::env::var("HIVEMIND_VALKEY").ok();
    // As all tests here have it.
    let may_be_missing = std::env::var_os("CI").is_none_or(|ci| ci != "true");
    assert!(program.is_some() || may_be_missing, "HIVEMIND_VALKEY is not set; run ./test");
    program
}

pub(crate) struct Server {
    child: Child,
    arguments: Vec<String>,
    folder: PathBuf,
    port: Option<u16>,
    /// Removed when it is dropped.
    _owned: TempDir,
}

impl Server {
    /// A server on a Unix socket, which needs no port.
    pub(crate) fn on_socket(more: &[&str]) -> Self {
        Self::of(&program(), more)
    }

    /// The same of another program.
    pub(crate) fn of(program: &str, more: &[&str]) -> Self {
        let owned = tempfile::tempdir().unwrap();
        let folder = owned.path().to_owned();
        let socket = folder.join("redis.sock");
        let mut arguments = vec!["--port", "0", "--unixsocket", socket.to_str().unwrap()];
        arguments.extend(more);
        let arguments = arguments.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let child =
            started(program, &folder, &arguments).expect("a server on a socket has nothing to clash with");
        Self { child, arguments, folder, port: None, _owned: owned }
    }

    /// A server on a port that was free a moment ago; where another took it, on the next.
    /// `arguments` are made for the port, and `cluster_port` for what a cluster needs besides.
    pub(crate) fn on_port(arguments: impl Fn(u16, &Path) -> Vec<String>) -> Self {
        for _ in 0..20 {
            let owned = tempfile::tempdir().unwrap();
            let (folder, port) = (owned.path().to_owned(), free_port());
            let mut arguments = arguments(port, &folder);
            let socket = folder.join("redis.sock");
            arguments.extend(["--unixsocket".to_owned(), socket.to_str().unwrap().to_owned()]);
            if let Some(child) = started(&program(), &folder, &arguments) {
                return Self { child, arguments, folder, port: Some(port), _owned: owned };
            }
        }
        panic!("no port is free");
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.expect("it has a port")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("redis.sock")
    }

    pub(crate) fn url(&self) -> String {
        match self.port {
            Some(port) => format!("redis://127.0.0.1:{port}"),
            None => format!("redis+unix://{}", self.socket().display()),
        }
    }

    /// Asks with redis-cli until it answers so.
    pub(crate) fn says(&self, arguments: &[&str], expected: impl Fn(&str) -> bool) {
        let begun = SystemClock.now();
        loop {
            let said = self.cli(arguments);
            if expected(&said) {
                return;
            }
            assert!(SystemClock.now().since(begun) < SOON, "{arguments:?} still says {said}");
        }
    }

    /// Runs redis-cli on it and returns what it prints.
    pub(crate) fn cli(&self, arguments: &[&str]) -> String {
        let output = Command::new("redis-cli").arg("-s").arg(self.socket()).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Sends it a signal, by its id.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(status.unwrap().success());
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn start_again(&mut self) {
        self.child = started(&program(), &self.folder, &self.arguments).expect("it starts where it has been");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that is free at present.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

/// Starts a server and waits until it accepts connections; `None` if it ends before, for example because its port is
/// in use.
fn started(program: &str, folder: &Path, arguments: &[String]) -> Option<Child> {
    // A sentinel has its configuration file first and knows no snapshot options.
    let is_sentinel = arguments.iter().any(|argument| argument == "--sentinel");
    let no_files: &[&str] = if is_sentinel { &[] } else { &["--save", "", "--appendonly", "no"] };
    let mut child = Command::new(program)
        .args(arguments)
        .args(no_files)
        .arg("--dir")
        .arg(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("redis-server is installed by ./test");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if line.contains("eady to accept connections") || line.contains("+monitor master") {
                let _ = ready.send(());
            }
        }
    });
    if is_ready.recv_timeout(SOON).is_ok() {
        return Some(child);
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}
