//! Socket activation: listening sockets of a systemd `.socket` unit, by their names.

use crate::app::{Handed, HandedSocket, Place};
use anyhow::{Context, bail};
use listenfd::ListenFd;
use std::env;

/// The sockets that systemd passed to this process. Must run before other threads start: it removes the variables
/// from the environment, so that child processes do not claim the sockets.
pub(crate) fn sockets() -> anyhow::Result<Handed> {
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut given = ListenFd::from_env();
    let mut names = names.split(':').filter(|name| !name.is_empty());
    let mut handed = Handed::by_systemd();
    for index in 0..given.len() {
        let known = || Place::ALL.map(Place::name).join(", ");
        let Some(name) = names.next() else {
            bail!(
                "systemd passed a socket without a name; set FileDescriptorName= in its unit to one of: {}",
                known()
            );
        };
        let Some(place) = Place::named(name) else {
            bail!("systemd passed a socket with the unknown name `{name}`; use one of: {}", known());
        };
        let kind = if place.is_unix() { "a Unix socket" } else { "a TCP socket" };
        let wrong = || format!("the systemd socket `{name}` must be {kind} in listening state");
        let socket = if place.is_unix() {
            given.take_unix_listener(index).with_context(wrong)?.map(HandedSocket::Unix)
        } else {
            given.take_tcp_listener(index).with_context(wrong)?.map(HandedSocket::Tcp)
        };
        if let Some(socket) = socket
            && handed.add(place, socket).is_some()
        {
            bail!("systemd passed two sockets named `{name}`; only one is possible");
        }
    }
    Ok(handed)
}
