//! A redis-server of a test's own, in a folder of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

/// How long a server may take to be there, on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The programs that a test can be run on; another server by `HIVEMIND_REDIS_SERVER`.
fn program() -> String {
    std::env::var("HIVEMIND_REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

pub(crate) struct Server {
    child: Child,
    arguments: Vec<String>,
    folder: PathBuf,
    /// Removed when it is dropped.
    _owned: Option<TempDir>,
}

impl Server {
    /// A server on a Unix socket, which needs no port.
    pub(crate) fn on_socket(more: &[&str]) -> Self {
        let owned = tempfile::tempdir().unwrap();
        let folder = owned.path().to_owned();
        let socket = folder.join("redis.sock");
        let mut arguments = vec!["--port", "0", "--unixsocket", socket.to_str().unwrap()];
        arguments.extend(more);
        let arguments = arguments.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let child = started(&folder, &arguments).expect("a server on a socket has nothing to clash with");
        Self { child, arguments, folder, _owned: Some(owned) }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("redis.sock")
    }

    pub(crate) fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
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
        self.child = started(&self.folder, &self.arguments).expect("it starts where it has been");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a server and waits until it takes connections; none if it ends before, as on a clash of ports.
fn started(folder: &Path, arguments: &[String]) -> Option<Child> {
    let mut child = Command::new(program())
        .args(["--save", "", "--appendonly", "no", "--dir"])
        .arg(folder)
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("redis-server is installed, as ./test sees to");
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if line.contains("eady to accept connections") {
                let _ = tell.send(());
            }
        }
    });
    match told.recv_timeout(SOON) {
        Ok(()) => Some(child),
        Err(_) => {
            let _ = child.kill();
            let _ = child.wait();
            None
        }
    }
}
