//! Socket activation: listening sockets of a systemd `.socket` unit, by their names.

use crate::inherited_sockets::{InheritedSocket, InheritedSockets, SocketPurpose};
use anyhow::{Context, bail};
use listenfd::ListenFd;
use std::env;

/// The sockets that systemd passed to this process. Must run before other threads start: it removes the variables
/// from the environment, so that child processes do not claim the sockets.
pub(crate) fn sockets() -> anyhow::Result<InheritedSockets> {
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut given = ListenFd::from_env();
    let mut names = names.split(':').filter(|name| !name.is_empty());
    let mut sockets = InheritedSockets::from_systemd();
    for index in 0..given.len() {
        let known = || SocketPurpose::ALL.map(SocketPurpose::name).join(", ");
        let Some(name) = names.next() else {
            bail!(
                "systemd passed a socket without a name; set FileDescriptorName= in its unit to one of: {}",
                known()
            );
        };
        let Some(purpose) = SocketPurpose::from_name(name) else {
            bail!("systemd passed a socket with the unknown name `{name}`; use one of: {}", known());
        };
        let kind = if purpose.is_unix() { "a Unix socket" } else { "a TCP socket" };
        let wrong = || format!("the systemd socket `{name}` must be {kind} in listening state");
        let socket = if purpose.is_unix() {
            given.take_unix_listener(index).with_context(wrong)?.map(InheritedSocket::Unix)
        } else {
            given.take_tcp_listener(index).with_context(wrong)?.map(InheritedSocket::Tcp)
        };
        if let Some(socket) = socket
            && sockets.add(purpose, socket).is_some()
        {
            bail!("systemd passed two sockets named `{name}`; only one is possible");
        }
    }
    Ok(sockets)
}
