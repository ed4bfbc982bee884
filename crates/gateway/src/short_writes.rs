//! Write coalescing: sends short responses as one buffer. hyper passes heads and bodies as a list, which avoids
//! copying long bodies; but a single buffer saves a third of a microsecond in the kernel, many times the cost of
//! copying a short response.

use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Most heads, and most API responses, are shorter.
const SHORT: usize = 2_048;

pub(super) struct ShortWrites<T>(pub(super) T);

/// Writes a list, as a single buffer if it is short.
pub(super) fn poll_write_list<T: AsyncWrite + Unpin>(
    io: &mut T,
    cx: &mut Context<'_>,
    list: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    let io = Pin::new(io);
    if let [only] = list {
        return io.poll_write(cx, only);
    }
    let size: usize = list.iter().map(|part| part.len()).sum();
    let mut piece = [0; SHORT];
    let Some(mut room) = piece.get_mut(..size) else { return io.poll_write_vectored(cx, list) };
    for part in list {
        room.write_all(part)?;
    }
    io.poll_write(cx, piece.get(..size).unwrap_or_default())
}

impl<T: AsyncRead + Unpin> AsyncRead for ShortWrites<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ShortWrites<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        list: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        poll_write_list(&mut self.0, cx, list)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn short_and_long_buffer_lists_arrive_complete() {
        for parts in [vec![5], vec![0, 3, 4], vec![SHORT - 1, 1], vec![SHORT, 1], vec![SHORT, SHORT * 3]] {
            let text: Vec<Vec<u8>> = parts.iter().map(|size| vec![b'a'; *size]).collect();
            let list: Vec<IoSlice<'_>> = text.iter().map(|part| IoSlice::new(part)).collect();
            let (mut ours, mut theirs) = tokio::io::duplex(1 << 16);
            let written = poll_fn(|cx| poll_write_list(&mut ours, cx, &list)).await.unwrap();
            drop(ours);
            let mut read = Vec::new();
            theirs.read_to_end(&mut read).await.unwrap();
            assert_eq!((written, read.len()), (parts.iter().sum(), parts.iter().sum()), "{parts:?}");
        }
    }
}
