//! The sockets that the service listens on, all bound before anything is served.

use crate::config::Server;
use anyhow::{Context, bail};
use std::net::SocketAddr;
use std::path::Path;
use tokio::net::{TcpListener, UnixListener, UnixStream};

pub(super) struct Listeners {
    pub(super) grpc: TcpListener,
    pub(super) grpc_uds: Option<UnixListener>,
    pub(super) admin: TcpListener,
    pub(super) admin_uds: Option<UnixListener>,
    pub(super) metrics: TcpListener,
}

impl Listeners {
    pub(super) async fn bind(server: &Server) -> anyhow::Result<Self> {
        Ok(Self {
            grpc: tcp(server.grpc, "grpc_port").await?,
            admin: tcp(server.admin, "admin_port").await?,
            metrics: tcp(server.metrics, "metrics_port").await?,
            grpc_uds: unix(server.grpc_uds.as_deref()).await?,
            admin_uds: unix(server.admin_uds.as_deref()).await?,
        })
    }
}

async fn tcp(address: SocketAddr, key: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}; free it, or set server.{key} to another port, 0 for any")
    })
}

async fn unix(path: Option<&Path>) -> anyhow::Result<Option<UnixListener>> {
    let Some(path) = path else { return Ok(None) };
    if UnixStream::connect(path).await.is_ok() {
        bail!("cannot listen on {}; another process does", path.display());
    }
    // A socket that nobody answers on was left behind by a process that was killed.
    let is_socket = std::os::unix::fs::FileTypeExt::is_socket;
    if std::fs::symlink_metadata(path).is_ok_and(|file| is_socket(&file.file_type())) {
        std::fs::remove_file(path).with_context(|| format!("removing the old socket {}", path.display()))?;
    }
    let listener = UnixListener::bind(path);
    listener
        .map(Some)
        .with_context(|| format!("cannot listen on {}; check that its folder exists", path.display()))
}
