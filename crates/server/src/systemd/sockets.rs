//! Sockets that systemd has opened before this process was there: a `.socket` unit, by the names that it gives them.

use crate::app::{Handed, HandedSocket, Place};
use anyhow::{Context, bail};
use listenfd::ListenFd;
use std::env;

/// The sockets that this process was started with. Before any other thread runs: the variables that tell of them are
/// taken out of the environment, so that no process that is started by this one takes them for its own.
pub(crate) fn sockets() -> anyhow::Result<Handed> {
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut given = ListenFd::from_env();
    let mut names = names.split(':').filter(|name| !name.is_empty());
    let mut handed = Handed::by_systemd();
    for index in 0..given.len() {
        let known = || Place::ALL.map(Place::name).join(", ");
        let Some(name) = names.next() else {
            bail!(
                "systemd hands over a socket without a name; give its unit FileDescriptorName=, one of: {}",
                known()
            );
        };
        let Some(place) = Place::named(name) else {
            bail!("systemd hands over a socket that it calls `{name}`; call it one of: {}", known());
        };
        let kind = if place.is_unix() { "a Unix socket" } else { "a TCP port" };
        let wrong = || format!("the socket `{name}` of systemd has to be {kind} that somebody listens at");
        let socket = if place.is_unix() {
            given.take_unix_listener(index).with_context(wrong)?.map(HandedSocket::Unix)
        } else {
            given.take_tcp_listener(index).with_context(wrong)?.map(HandedSocket::Tcp)
        };
        if let Some(socket) = socket
            && handed.add(place, socket).is_some()
        {
            bail!("systemd hands over two sockets that it calls `{name}`; each can be one");
        }
    }
    Ok(handed)
}
