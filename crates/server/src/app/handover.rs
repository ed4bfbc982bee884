//! Socket handover: a running service passes its listening sockets to its successor, and stops when that one serves.
//!
//! The channel is a Unix socket that only the service's own user may open. The successor connects and receives the
//! names and descriptors of all sockets in one message. It starts with them, sends `ready`, waits for `ends`, and
//! then serves alone. Until then both accept from the same queues. If one of them loses the other, the successor
//! stops, and nothing has changed. So no connection is ever refused or reset. With `SO_REUSEPORT` each process would
//! have its own queue, and closing it would reset the clients in it.

use crate::inherited_sockets::{InheritedSockets, Opener, SocketPurpose};
use anyhow::{Context, bail, ensure};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

/// The first word of the message, with the version of its format.
const HEADER: &str = "hivemind-handover-1";
const REFUSED: &str = "refused:";
const READY: &str = "ready\n";
const ENDS: &str = "ends\n";
/// Follows the name of a socket that systemd opened.
const OF_SYSTEMD: &str = "=systemd";
/// Longer than all names and any reason.
const MAX_MESSAGE: usize = 1_024;
/// For the first message, which is sent immediately.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// For a complete startup, including waits for an unreachable Redis.
const READY_WITHIN: Duration = Duration::from_secs(300);
/// Pause after a failed accept, when no descriptors are free.
const PAUSE: Duration = Duration::from_secs(1);

const IN_A_MESH: &str = "a mesh node cannot be taken over, because two nodes cannot share one name; stop it first, \
                         its peers keep the limits meanwhile";

/// The listening sockets, ready for a successor.
pub(super) struct Handover {
    listener: UnixListener,
    sockets: Vec<(SocketPurpose, Opener, OwnedFd)>,
    is_in_mesh: bool,
}

/// A process that serves on the same sockets, and waits for `ends`.
pub(super) struct Successor {
    pub(super) process: u32,
    stream: UnixStream,
}

impl Successor {
    /// Notifies the successor that this process stops. If this fails, the successor stops and this process continues.
    pub(super) async fn confirm_stop(mut self) -> io::Result<()> {
        self.stream.write_all(ENDS.as_bytes()).await
    }
}

impl Handover {
    pub(super) fn new(
        listener: UnixListener,
        sockets: Vec<(SocketPurpose, Opener, OwnedFd)>,
        is_in_mesh: bool,
    ) -> Self {
        Self { listener, sockets, is_in_mesh }
    }

    /// Returns when another process serves on these sockets.
    pub(super) async fn successor(&self) -> Successor {
        loop {
            let followed = match self.listener.accept().await {
                Ok((stream, _)) => self.send_sockets(stream).await,
                Err(error) => {
                    let _ = timeout(PAUSE, std::future::pending::<()>()).await;
                    Err(error.into())
                }
            };
            match followed {
                Ok(successor) => return successor,
                Err(error) => {
                    tracing::warn!("socket handover failed, this process continues: {error:#}");
                }
            }
        }
    }

    async fn send_sockets(&self, mut stream: UnixStream) -> anyhow::Result<Successor> {
        let peer = stream.peer_cred().context("the peer's credentials are unknown")?;
        let process = peer.pid().and_then(|id| u32::try_from(id).ok()).unwrap_or_default();
        let own = rustix::process::geteuid().as_raw();
        ensure!(
            peer.uid() == own || peer.uid() == 0,
            "process {process} of user {} asked for the sockets, but only user {own} may",
            peer.uid()
        );
        if self.is_in_mesh {
            self.send(&stream, &format!("{REFUSED}{IN_A_MESH}\n"), &[]).await?;
            bail!("{IN_A_MESH}");
        }
        let names = self.sockets.iter().map(|(purpose, opener, _)| match opener {
            Opener::Service => purpose.name().to_owned(),
            Opener::Systemd => format!("{}{OF_SYSTEMD}", purpose.name()),
        });
        let names: Vec<String> = names.collect();
        let descriptors: Vec<_> = self.sockets.iter().map(|(.., socket)| socket.as_fd()).collect();
        self.send(&stream, &format!("{HEADER} {}\n", names.join(" ")), &descriptors).await?;
        tracing::info!(
            "process {process} received all listening sockets; this process continues until that one serves"
        );
        let mut reply = [0; READY.len()];
        let ready = timeout(READY_WITHIN, stream.read_exact(&mut reply)).await;
        let ready =
            ready.with_context(|| format!("process {process} was not ready within {READY_WITHIN:?}"))?;
        ready.with_context(|| format!("process {process} ended before it served; see its log"))?;
        ensure!(reply == READY.as_bytes(), "process {process} sent an unexpected message");
        Ok(Successor { process, stream })
    }

    async fn send(
        &self,
        stream: &UnixStream,
        words: &str,
        descriptors: &[std::os::fd::BorrowedFd<'_>],
    ) -> io::Result<()> {
        stream
            .async_io(Interest::WRITABLE, || {
                let mut space =
                    [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SocketPurpose::ALL.len()))];
                let mut ancillary = SendAncillaryBuffer::new(&mut space);
                if !descriptors.is_empty() {
                    ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
                }
                let sent =
                    sendmsg(stream, &[IoSlice::new(words.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
                // A message this short fits into an empty socket buffer.
                if sent == words.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
            })
            .await
    }
}

/// The process that this one takes over from, until it stops.
pub(crate) struct Predecessor(StdUnixStream);

impl Predecessor {
    /// Announces that this process serves: the predecessor confirms, and then stops as on SIGTERM.
    ///
    /// # Errors
    /// The predecessor continues. Two processes would grant every client each limit twice, so this one must stop.
    pub(super) fn stop(mut self) -> anyhow::Result<()> {
        let mut reply = [0; ENDS.len()];
        let result = self.0.write_all(READY.as_bytes()).and_then(|()| self.0.read_exact(&mut reply));
        if result.is_ok() && reply == ENDS.as_bytes() {
            return Ok(());
        }
        let peer = rustix::net::sockopt::socket_peercred(&self.0)?;
        // A predecessor that ended by itself in the meantime has left the sockets to this process.
        if rustix::process::test_kill_process(peer.pid).is_err() {
            return Ok(());
        }
        bail!("process {} continues to serve, so this one stops; see its log", peer.pid.as_raw_nonzero())
    }
}

/// Requests the sockets from the running process.
pub(crate) fn take_over(path: &Path) -> anyhow::Result<(InheritedSockets, Predecessor)> {
    let shown = path.display();
    let stream = StdUnixStream::connect(path).with_context(|| {
        format!(
            "no process hands over sockets at {shown} (`server.handover_socket`); start without --take-over"
        )
    })?;
    stream.set_read_timeout(Some(ANSWERED_WITHIN))?;
    // Another user could bind the path and pass its own sockets.
    let [peer, own] = [rustix::net::sockopt::socket_peercred(&stream)?.uid, rustix::process::geteuid()];
    ensure!(
        peer == own || peer.is_root(),
        "the process at {shown} belongs to user {}, not to user {}",
        peer.as_raw(),
        own.as_raw()
    );
    let silent = || format!("the process at {shown} did not hand over its sockets; see its log");
    let (words, descriptors) = receive(&stream).with_context(silent)?;
    if let Some(reason) = words.strip_prefix(REFUSED) {
        bail!("the process at {shown} rejected the takeover: {}", reason.trim_end());
    }
    let names = words.strip_prefix(HEADER).and_then(|names| names.strip_suffix('\n'));
    let names: Vec<&str> = names.with_context(silent)?.split_whitespace().collect();
    ensure!(names.len() == descriptors.len(), "{}", silent());
    let mut sockets = InheritedSockets::default();
    for (name, socket) in names.into_iter().zip(descriptors) {
        let (name, opener) = match name.strip_suffix(OF_SYSTEMD) {
            Some(name) => (name, Opener::Systemd),
            None => (name, Opener::Service),
        };
        // A socket that only another version knows is dropped.
        if let Some(purpose) = SocketPurpose::from_name(name) {
            sockets.add_descriptor(purpose, socket, opener);
        }
    }
    Ok((sockets, Predecessor(stream)))
}

fn receive(stream: &StdUnixStream) -> anyhow::Result<(String, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4 * SocketPurpose::ALL.len()))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; MAX_MESSAGE];
    let received =
        recvmsg(stream, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let words = String::from_utf8_lossy(bytes.get(..received).unwrap_or_default()).into_owned();
    ensure!(!words.is_empty(), "it closed the connection");
    Ok((words, descriptors))
}
