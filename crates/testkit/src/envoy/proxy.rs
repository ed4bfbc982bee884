//! The Envoy process: its binary, its start and its admin port.

use super::deadline::until;
use super::http::Connection;
use super::process::Process;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An Envoy for one test, killed when dropped.
pub struct Envoy {
    _process: Process,
    admin: PathBuf,
    pub address: SocketAddr,
}

impl Envoy {
    /// Starts Envoy in `folder`. It validates the bootstrap as `--mode validate` does and exits if it is
    /// invalid.
    pub fn start(program: &Path, folder: &Path, bootstrap: &Value) -> Self {
        let config = folder.join("envoy.json");
        std::fs::write(&config, bootstrap.to_string()).unwrap();
        let mut command = Command::new(program);
        command.args(["--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning", "-c"]);
        let mut process = Process::start(command.arg(config).stdin(Stdio::null()));
        let admin = Self::admin_socket(folder);
        let address = until("Envoy listens", || {
            if let Some(status) = process.exit_status() {
                panic!("Envoy ended with {status}; its reason is above");
            }
            listening(&admin)
        });
        Self { _process: process, admin, address }
    }

    pub fn admin_socket(folder: &Path) -> PathBuf {
        folder.join("admin.sock")
    }

    /// The value of an Envoy counter; 0 until something is counted.
    pub fn counted(&self, name: &str) -> u64 {
        let path = format!("/stats?filter={}$", name.replace('.', "%5C."));
        let page = Connection::unix(&self.admin).unwrap().get(&path, &[]).unwrap().body;
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.map_or(0, |count| count.parse().unwrap())
    }
}

/// The listener's address, once the listener is ready.
fn listening(admin: &Path) -> Option<SocketAddr> {
    let mut admin = Connection::unix(admin).ok()?;
    if admin.get("/ready", &[]).ok()?.status != 200 {
        return None;
    }
    let listeners = admin.get("/listeners?format=json", &[]).ok()?.body;
    let listeners: Value = serde_json::from_str(&listeners).ok()?;
    let socket = listeners.pointer("/listener_statuses/0/local_address/socket_address")?;
    let (ip, port) = (socket.get("address")?.as_str()?, socket.get("port_value")?.as_u64()?);
    Some(SocketAddr::new(ip.parse().ok()?, u16::try_from(port).ok()?))
}

/// Envoy's binary, or none if it is missing and may be.
pub fn program() -> Option<PathBuf> {
    let named = std::env::var_os("HIVEMIND_ENVOY").map(PathBuf::from);
    let installed = crate::repository("target/tools/bin/envoy");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("envoy"));
    let found = named.into_iter().chain([installed]).chain(on_path).find(|program| program.is_file());
    if found.is_none() {
        assert!(crate::may_be_missing(), "Envoy is missing; `./test` installs it");
        println!("skipped: Envoy is missing; `./test` installs it");
    }
    found
}
