//! A running service hands its listening sockets to the process that comes after it, and ends when that one serves.
//!
//! Over a Unix socket that only its own user may open: the successor connects, is sent the names of all sockets and
//! their descriptors in one message, starts with them, and says `ready`; then it hears `ends`, and serves alone. Until then
//! both accept from the same queues, and if one of them does not hear the other, it is the successor that ends: nothing has
//! happened. So no connection is ever refused or taken back: with
//! `SO_REUSEPORT` each process would have queues of its own, and who waits in one is reset as it is closed.

use super::handed::{Handed, Opener, Place};
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

/// The first word, with the version of what follows it.
const GREETING: &str = "hivemind-handover-1";
const REFUSED: &str = "refused:";
const READY: &str = "ready\n";
const ENDS: &str = "ends\n";
/// After the name of a socket that systemd has opened.
const OF_SYSTEMD: &str = "=systemd";
/// More than all names and any reason.
const LONGEST: usize = 1_024;
/// For the first message, which lies ready.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// For a start, with a Redis that is away and whatever else it has to wait for.
const READY_WITHIN: Duration = Duration::from_secs(300);
/// Where nobody can be accepted, for want of descriptors.
const PAUSE: Duration = Duration::from_secs(1);

const IN_A_MESH: &str = "a node of a mesh is replaced by stopping it first: two of one name cannot be in it, and its \
                         peers hold the limits meanwhile";

/// Sockets for whoever comes after this process.
pub(super) struct Handover {
    listener: UnixListener,
    sockets: Vec<(Place, Opener, OwnedFd)>,
    is_in_mesh: bool,
}

/// A process that serves on the same sockets, and waits for the word that it is alone with them.
pub(super) struct Successor {
    pub(super) process: u32,
    stream: UnixStream,
}

impl Successor {
    /// This process ends. Where that cannot be told the other one does, and this one goes on.
    pub(super) async fn hears_of_the_end(mut self) -> io::Result<()> {
        self.stream.write_all(ENDS.as_bytes()).await
    }
}

impl Handover {
    pub(super) fn new(
        listener: UnixListener,
        sockets: Vec<(Place, Opener, OwnedFd)>,
        is_in_mesh: bool,
    ) -> Self {
        Self { listener, sockets, is_in_mesh }
    }

    /// Returns when another process serves on these sockets.
    pub(super) async fn successor(&self) -> Successor {
        loop {
            let followed = match self.listener.accept().await {
                Ok((stream, _)) => self.hand_to(stream).await,
                Err(error) => {
                    let _ = timeout(PAUSE, std::future::pending::<()>()).await;
                    Err(error.into())
                }
            };
            match followed {
                Ok(successor) => return successor,
                Err(error) => {
                    tracing::warn!("the sockets were not handed over, and this process goes on: {error:#}");
                }
            }
        }
    }

    async fn hand_to(&self, mut stream: UnixStream) -> anyhow::Result<Successor> {
        let peer = stream.peer_cred().context("who asks for them is not known")?;
        let process = peer.pid().and_then(|id| u32::try_from(id).ok()).unwrap_or_default();
        let own = rustix::process::geteuid().as_raw();
        ensure!(
            peer.uid() == own || peer.uid() == 0,
            "process {process} of user {} asks for them, and is not of user {own}",
            peer.uid()
        );
        if self.is_in_mesh {
            self.send(&stream, &format!("{REFUSED}{IN_A_MESH}\n"), &[]).await?;
            bail!("{IN_A_MESH}");
        }
        let names = self.sockets.iter().map(|(place, opener, _)| match opener {
            Opener::Service => place.name().to_owned(),
            Opener::Systemd => format!("{}{OF_SYSTEMD}", place.name()),
        });
        let names: Vec<String> = names.collect();
        let descriptors: Vec<_> = self.sockets.iter().map(|(.., socket)| socket.as_fd()).collect();
        self.send(&stream, &format!("{GREETING} {}\n", names.join(" ")), &descriptors).await?;
        tracing::info!("process {process} has all listening sockets; this one goes on until that one serves");
        let mut said = [0; READY.len()];
        let ready = timeout(READY_WITHIN, stream.read_exact(&mut said)).await;
        let ready =
            ready.with_context(|| format!("process {process} was not ready within {READY_WITHIN:?}"))?;
        ready.with_context(|| format!("process {process} ended before it served; its own log says why"))?;
        ensure!(said == READY.as_bytes(), "process {process} does not say what a successor says");
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
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(Place::ALL.len()))];
                let mut ancillary = SendAncillaryBuffer::new(&mut space);
                if !descriptors.is_empty() {
                    ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
                }
                let sent =
                    sendmsg(stream, &[IoSlice::new(words.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
                // So few bytes go into an empty buffer at once.
                if sent == words.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
            })
            .await
    }
}

/// The process that this one comes after, until it is told to end.
pub(crate) struct Predecessor(StdUnixStream);

impl Predecessor {
    /// This process serves: the other one ends, as by SIGTERM, and says so.
    ///
    /// # Errors
    /// It goes on, and two of them would give every client each limit twice: this one has to end.
    pub(super) fn ends(mut self) -> anyhow::Result<()> {
        let mut said = [0; ENDS.len()];
        let heard = self.0.write_all(READY.as_bytes()).and_then(|()| self.0.read_exact(&mut said));
        if heard.is_ok() && said == ENDS.as_bytes() {
            return Ok(());
        }
        let peer = rustix::net::sockopt::socket_peercred(&self.0)?;
        // One that has ended by itself meanwhile has left the sockets to this one.
        if rustix::process::test_kill_process(peer.pid).is_err() {
            return Ok(());
        }
        bail!(
            "process {} does not give way and goes on, so this one ends; its log says why",
            peer.pid.as_raw_nonzero()
        )
    }
}

/// Asks the process that runs for its sockets.
pub(crate) fn take_over(path: &Path) -> anyhow::Result<(Handed, Predecessor)> {
    let shown = path.display();
    let stream = StdUnixStream::connect(path).with_context(|| {
        format!("nobody hands over at {shown} (`server.handover_socket`); start without --take-over")
    })?;
    stream.set_read_timeout(Some(ANSWERED_WITHIN))?;
    // Whoever else has bound the path would hand over a port of his own.
    let [peer, own] = [rustix::net::sockopt::socket_peercred(&stream)?.uid, rustix::process::geteuid()];
    ensure!(
        peer == own || peer.is_root(),
        "a process of user {} listens at {shown}, and not one of user {}",
        peer.as_raw(),
        own.as_raw()
    );
    let silent = || format!("whoever listens at {shown} hands nothing over; see its log");
    let (words, descriptors) = receive(&stream).with_context(silent)?;
    if let Some(reason) = words.strip_prefix(REFUSED) {
        bail!("the process at {shown} refuses to be taken over: {}", reason.trim_end());
    }
    let names = words.strip_prefix(GREETING).and_then(|names| names.strip_suffix('\n'));
    let names: Vec<&str> = names.with_context(silent)?.split_whitespace().collect();
    ensure!(names.len() == descriptors.len(), "{}", silent());
    let mut handed = Handed::default();
    for (name, socket) in names.into_iter().zip(descriptors) {
        let (name, opener) = match name.strip_suffix(OF_SYSTEMD) {
            Some(name) => (name, Opener::Systemd),
            None => (name, Opener::Service),
        };
        // One that only a newer or an older version knows is let go of.
        if let Some(place) = Place::named(name) {
            handed.add_descriptor(place, socket, opener);
        }
    }
    Ok((handed, Predecessor(stream)))
}

fn receive(stream: &StdUnixStream) -> anyhow::Result<(String, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4 * Place::ALL.len()))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; LONGEST];
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
