//! One direction of a connection. It reads only once what it read before is written, so a slow
//! reader slows its writer down; and it reads into the stack, so a silent connection holds no
//! buffer. All its state is its own: a poll that is not repeated loses nothing.

use super::frame::LONGEST_HEAD;
use super::gate::{Gate, Look, Stop};
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is read at once, and the most that is held for a reader that does not keep up.
const CHUNK: usize = 16 << 10;

/// Bytes on their way from one end to the other, through a gate.
pub(super) struct Lane<G> {
    pub(super) gate: G,
    /// What may go on and was not taken yet.
    pending: Vec<u8>,
    written: usize,
    /// The beginning of a head, which the gate wants to see again.
    held: [u8; LONGEST_HEAD],
    held_length: usize,
    needs_flush: bool,
    is_ended: bool,
    /// Bytes that were written.
    pub(super) passed: u64,
    /// Whether anything was read or written since this was last set to false.
    pub(super) has_moved: bool,
}

/// How a direction comes to an end.
#[derive(Debug)]
pub(super) enum End {
    /// One end has said all it had to say, and the other knows.
    Finished,
    /// The gate waited for this.
    Over,
    /// The gate lets nothing more through.
    Stopped(Stop),
    ReadFailed(io::Error),
    WriteFailed(io::Error),
}

impl<G: Gate> Lane<G> {
    pub(super) fn new(gate: G) -> Self {
        Self {
            gate,
            pending: Vec::new(),
            written: 0,
            held: [0; LONGEST_HEAD],
            held_length: 0,
            needs_flush: false,
            is_ended: false,
            passed: 0,
            has_moved: false,
        }
    }

    /// Moves bytes until one of the ends has to be waited for.
    pub(super) fn poll<R, W>(&mut self, cx: &mut Context<'_>, from: &mut R, to: &mut W) -> Poll<End>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        loop {
            if let Err(error) = ready!(self.poll_pending(cx, to)) {
                return Poll::Ready(End::WriteFailed(error));
            }
            if self.is_ended {
                return Pin::new(to).poll_shutdown(cx).map(|shut| match shut {
                    Ok(()) => End::Finished,
                    Err(error) => End::WriteFailed(error),
                });
            }
            if self.gate.is_over() {
                return self.poll_flush(cx, to).map(|flushed| match flushed {
                    Ok(()) => End::Over,
                    Err(error) => End::WriteFailed(error),
                });
            }
            match self.poll_look(cx, from, to) {
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(Ok(Some(stop))) => return Poll::Ready(End::Stopped(stop)),
                Poll::Ready(Err(end)) => return Poll::Ready(end),
                Poll::Pending => {
                    // Nothing more for now: what lies in the writer's own buffer must not wait for more.
                    return match ready!(self.poll_flush(cx, to)) {
                        Ok(()) => Poll::Pending,
                        Err(error) => Poll::Ready(End::WriteFailed(error)),
                    };
                }
            }
        }
    }

    /// Reads once, and passes on what the gate lets through.
    fn poll_look<R, W>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut R,
        to: &mut W,
    ) -> Poll<Result<Option<Stop>, End>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let mut space = [const { MaybeUninit::<u8>::uninit() }; CHUNK];
        let mut buffer = ReadBuf::uninit(&mut space);
        buffer.put_slice(self.held.get(..self.held_length).unwrap_or_default());
        if let Err(error) = ready!(Pin::new(from).poll_read(cx, &mut buffer)) {
            return Poll::Ready(Err(End::ReadFailed(error)));
        }
        let bytes = buffer.filled();
        if bytes.len() == self.held_length {
            self.is_ended = true;
            return Poll::Ready(Ok(None));
        }
        self.has_moved = true;
        let Look { pass, keep, stop } = self.gate.look(bytes);
        let kept = bytes.get(bytes.len().saturating_sub(keep)..).unwrap_or_default();
        self.held_length = kept.len();
        self.held.iter_mut().zip(kept).for_each(|(held, byte)| *held = *byte);
        let passing = bytes.get(..pass).unwrap_or_default();
        match self.write(cx, to, passing) {
            Ok(written) => {
                self.say(passing.get(written..).unwrap_or_default());
                Poll::Ready(Ok(stop))
            }
            Err(error) => Poll::Ready(Err(End::WriteFailed(error))),
        }
    }

    /// Puts bytes behind those that wait to be written.
    pub(super) fn say(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Whether all that may go on is written.
    pub(super) fn is_written(&self) -> bool {
        self.pending.is_empty() && !self.needs_flush
    }

    /// Writes what is taken at once, and says how much that was.
    fn write<W: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut W,
        bytes: &[u8],
    ) -> io::Result<usize> {
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            match Pin::new(&mut *to).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(more)) => {
                    written += more;
                    self.passed += u64::try_from(more).unwrap_or_default();
                    self.needs_flush = true;
                    self.has_moved = true;
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => break,
            }
        }
        Ok(written)
    }

    /// Writes what waits.
    fn poll_pending<W: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut W,
    ) -> Poll<io::Result<()>> {
        if self.pending.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let pending = std::mem::take(&mut self.pending);
        let written = self.write(cx, to, pending.get(self.written..).unwrap_or_default())?;
        self.written += written;
        if self.written < pending.len() {
            self.pending = pending;
            return Poll::Pending;
        }
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    fn poll_flush<W: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut W,
    ) -> Poll<io::Result<()>> {
        if self.needs_flush {
            ready!(Pin::new(to).poll_flush(cx))?;
            self.needs_flush = false;
        }
        Poll::Ready(Ok(()))
    }
}
