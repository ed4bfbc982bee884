//! A real nginx, as an upstream or for comparison with the gateway.

use super::programs::{Process, command};
use hivemind_testkit::within;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use tokio::net::TcpStream;

pub(crate) struct Nginx {
    folder: tempfile::TempDir,
    process: Process,
    /// Its addresses: one per port placeholder in its configuration, in order.
    pub(crate) listen: Vec<SocketAddr>,
}

impl Nginx {
    /// Starts nginx with this `http` block, in which `PORT0`, `PORT1` and so on become free ports.
    pub(crate) async fn start(http: &str) -> Self {
        // nginx cannot report a port that the kernel chose, so it gets one that was free a moment ago.
        // If another process takes the port first, nginx exits and is started with other ports.
        for _ in 0..10 {
            if let Some(nginx) = Self::try_start(http).await {
                return nginx;
            }
        }
        panic!("nginx does not start with\n{http}");
    }

    async fn try_start(http: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut listen = Vec::new();
        let mut text = http.to_owned();
        let mut held = Vec::new();
        for number in (0..10).filter(|number| http.contains(&format!("PORT{number}"))) {
            let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = socket.local_addr().unwrap();
            text = text.replace(&format!("PORT{number}"), &address.port().to_string());
            listen.push(address);
            held.push(socket);
        }
        drop(held);
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {name};"))
            .join(" ");
        let text = format!(
            "worker_processes 1;\nerror_log error.log warn;\npid nginx.pid;\ndaemon off;\n\
             events {{ worker_connections 4096; }}\nhttp {{ access_log off; {temporary}\n{text}\n}}\n"
        );
        std::fs::write(folder.path().join("nginx.conf"), text).unwrap();
        let prefix = folder.path().to_str().unwrap();
        let mut command = command("nginx");
        command.args(["-p", prefix, "-c", "nginx.conf", "-e", "error.log"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap_or_else(|error| panic!("nginx: {error}; `./test` installs it"));
        let mut nginx = Self { folder, process: Process(child), listen };
        nginx.answers().await.then_some(nginx)
    }

    /// Waits until it listens; false if it has exited.
    async fn answers(&mut self) -> bool {
        let listens = async {
            for address in &self.listen {
                while TcpStream::connect(address).await.is_err() {
                    tokio::task::yield_now().await;
                }
            }
        };
        let process = &mut self.process.0;
        tokio::select! {
            () = within("nginx", listens) => true,
            _ = process.wait() => false,
        }
    }

    /// Its configuration file.
    pub(crate) fn configuration(&self) -> std::path::PathBuf {
        self.path().join("nginx.conf")
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The worker stops with a master that gets SIGTERM, and would outlive a killed one.
        if let Some(id) = self.process.0.id() {
            let _ = std::process::Command::new("kill").arg(id.to_string()).status();
            for _ in 0..1_000_000 {
                if !matches!(self.process.0.try_wait(), Ok(None)) {
                    return;
                }
                std::thread::yield_now();
            }
        }
    }
}
