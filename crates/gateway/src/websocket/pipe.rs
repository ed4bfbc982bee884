//! One direction of a spliced connection. It reads only after the previous bytes are written, so a slow reader slows
//! down the writer; it reads into the stack, so an idle connection holds no buffer. Its state is complete: a poll that
//! is not repeated loses nothing.

use super::frame::MAX_FRAME_HEADER;
use super::gate::{FrameGate, GateDecision, GateStop};
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes per read, and the maximum held for a slow reader.
const READ_SIZE: usize = 16 << 10;

/// Bytes on their way through a gate.
pub(super) struct FramePipe<G> {
    pub(super) gate: G,
    /// Bytes that may pass but are not written yet.
    pending: Vec<u8>,
    written: usize,
    /// The start of a frame header, to be presented again.
    held: [u8; MAX_FRAME_HEADER],
    held_length: usize,
    needs_flush: bool,
    is_ended: bool,
    /// Bytes written so far.
    pub(super) passed: u64,
    /// Whether anything was read or written since the flag was last cleared.
    pub(super) has_moved: bool,
}

/// Why a direction ended.
#[derive(Debug)]
pub(super) enum DirectionEnd {
    /// The source closed, and the other side was shut down.
    Finished,
    /// The gate waited for this.
    GateFinished,
    /// The gate stopped it.
    Stopped(GateStop),
    ReadFailed(io::Error),
    WriteFailed(io::Error),
}

impl<G: FrameGate> FramePipe<G> {
    pub(super) fn new(gate: G) -> Self {
        Self {
            gate,
            pending: Vec::new(),
            written: 0,
            held: [0; MAX_FRAME_HEADER],
            held_length: 0,
            needs_flush: false,
            is_ended: false,
            passed: 0,
            has_moved: false,
        }
    }

    /// Copies bytes until one side must be awaited.
    pub(super) fn poll<R, W>(&mut self, cx: &mut Context<'_>, from: &mut R, to: &mut W) -> Poll<DirectionEnd>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        loop {
            if let Err(error) = ready!(self.poll_pending(cx, to)) {
                return Poll::Ready(DirectionEnd::WriteFailed(error));
            }
            if self.is_ended {
                return Pin::new(to).poll_shutdown(cx).map(|shut| match shut {
                    Ok(()) => DirectionEnd::Finished,
                    Err(error) => DirectionEnd::WriteFailed(error),
                });
            }
            if self.gate.is_finished() {
                return self.poll_flush(cx, to).map(|flushed| match flushed {
                    Ok(()) => DirectionEnd::GateFinished,
                    Err(error) => DirectionEnd::WriteFailed(error),
                });
            }
            match self.poll_forward(cx, from, to) {
                Poll::Ready(Ok(None)) => {}
                Poll::Ready(Ok(Some(stop))) => return Poll::Ready(DirectionEnd::Stopped(stop)),
                Poll::Ready(Err(end)) => return Poll::Ready(end),
                Poll::Pending => {
                    // Nothing more for now: flush what is in the writer's buffer.
                    return match ready!(self.poll_flush(cx, to)) {
                        Ok(()) => Poll::Pending,
                        Err(error) => Poll::Ready(DirectionEnd::WriteFailed(error)),
                    };
                }
            }
        }
    }

    /// Reads once, and writes what the gate lets pass.
    fn poll_forward<R, W>(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut R,
        to: &mut W,
    ) -> Poll<Result<Option<GateStop>, DirectionEnd>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let mut space = [const { MaybeUninit::<u8>::uninit() }; READ_SIZE];
        let mut buffer = ReadBuf::uninit(&mut space);
        buffer.put_slice(self.held.get(..self.held_length).unwrap_or_default());
        if let Err(error) = ready!(Pin::new(from).poll_read(cx, &mut buffer)) {
            return Poll::Ready(Err(DirectionEnd::ReadFailed(error)));
        }
        let bytes = buffer.filled();
        if bytes.len() == self.held_length {
            self.is_ended = true;
            return Poll::Ready(Ok(None));
        }
        self.has_moved = true;
        let GateDecision { pass, keep, stop } = self.gate.inspect(bytes);
        let kept = bytes.get(bytes.len().saturating_sub(keep)..).unwrap_or_default();
        self.held_length = kept.len();
        self.held.iter_mut().zip(kept).for_each(|(held, byte)| *held = *byte);
        let passing = bytes.get(..pass).unwrap_or_default();
        match self.write(cx, to, passing) {
            Ok(written) => {
                self.enqueue(passing.get(written..).unwrap_or_default());
                Poll::Ready(Ok(stop))
            }
            Err(error) => Poll::Ready(Err(DirectionEnd::WriteFailed(error))),
        }
    }

    /// Appends bytes to those that wait to be written.
    pub(super) fn enqueue(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Whether everything that may pass is written.
    pub(super) fn is_written(&self) -> bool {
        self.pending.is_empty() && !self.needs_flush
    }

    /// Writes what is accepted immediately, and returns how much that was.
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

    /// Writes pending bytes.
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
