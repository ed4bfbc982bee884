//! Stream wrapper of a client connection: records when the client sends and whether it reads. If hyper rejects a
//! request, the client receives a problem document instead of an empty response.

use super::connection_activity::ConnectionActivity;
use super::failure::Failure;
use super::short_writes::poll_write_list;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A callback for messages that could not be parsed as requests.
pub(super) type UnparsedCallback = Rc<dyn Fn(Failure)>;

/// A client connection.
pub(super) struct ClientStream<T> {
    io: T,
    activity: Rc<ConnectionActivity>,
    /// Bytes that were read during protocol detection, and how many of them were delivered.
    prefix: Option<(Box<[u8]>, usize)>,
    /// Called when hyper rejects a message.
    unparsed: Option<UnparsedCallback>,
    /// The bytes that replace hyper's output, and how many of them are left.
    replacement: Option<Replacement>,
}

struct Replacement {
    bytes: Vec<u8>,
    written: usize,
    replaced_length: usize,
}

impl<T> ClientStream<T> {
    pub(super) fn new(
        io: T,
        prefix: &[u8],
        activity: Rc<ConnectionActivity>,
        unparsed: Option<UnparsedCallback>,
    ) -> Self {
        let prefix = (!prefix.is_empty()).then(|| (prefix.into(), 0));
        Self { io, activity, prefix, unparsed, replacement: None }
    }

    pub(super) fn into_inner(self) -> T {
        self.io
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for ClientStream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some((prefix, given)) = &mut self.prefix {
            let rest = prefix.get(*given..).unwrap_or_default();
            let now = rest.len().min(buf.remaining());
            buf.put_slice(rest.get(..now).unwrap_or_default());
            *given += now;
            if *given >= prefix.len() {
                self.prefix = None;
            }
            // Together with newly arrived bytes: after a short read hyper would allocate a second buffer.
            let _ = Pin::new(&mut self.io).poll_read(cx, buf)?;
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.activity.record_received();
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> ClientStream<T> {
    fn poll_replacement(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        while let Some(replacement) = &mut self.replacement {
            let rest = replacement.bytes.get(replacement.written..).unwrap_or_default();
            if rest.is_empty() {
                let replaced_length = replacement.replaced_length;
                self.replacement = None;
                return Poll::Ready(Ok(replaced_length));
            }
            let written = ready!(Pin::new(&mut self.io).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            replacement.written += written;
        }
        Poll::Ready(Ok(0))
    }

    /// The failure that hyper detected, if it did: an application may send an equally empty response.
    fn unread(&self, bytes: &[u8]) -> Option<Failure> {
        unread(bytes).filter(|_| self.activity.is_within_head())
    }

    fn recorded(&self, polled: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.activity.record_write(polled.is_pending());
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for ClientStream<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.replacement.is_none()
            && let Some(failure) = self.unread(buf)
        {
            if let Some(unparsed) = &self.unparsed {
                unparsed(failure);
            }
            self.replacement =
                Some(Replacement { bytes: failure.bytes(), written: 0, replaced_length: buf.len() });
        }
        if self.replacement.is_some() {
            let polled = self.poll_replacement(cx);
            return self.recorded(polled);
        }
        let polled = Pin::new(&mut self.io).poll_write(cx, buf);
        self.recorded(polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [only] = bufs
            && (self.replacement.is_some() || self.unread(only).is_some())
        {
            return self.poll_write(cx, only);
        }
        let polled = poll_write_list(&mut self.io, cx, bufs);
        self.recorded(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

/// Whether these bytes are hyper's response to an invalid head: a status without content.
fn unread(bytes: &[u8]) -> Option<Failure> {
    let rest = bytes.strip_prefix(b"HTTP/1.1 4").or_else(|| bytes.strip_prefix(b"HTTP/1.0 4"))?;
    let failure = Failure::of_unread(&[b'4', *rest.first()?, *rest.get(1)?])?;
    let head = std::str::from_utf8(bytes).ok()?.strip_suffix("\r\n\r\n")?;
    let mut lines = head.split("\r\n").skip(1);
    let is_ours =
        |line: &str| line == "connection: close" || line == "content-length: 0" || line.starts_with("date: ");
    (head.contains("\r\nconnection: close") && lines.all(is_ours)).then_some(failure)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn only_empty_responses_of_hyper_are_replaced() {
        let close = "connection: close\r\ncontent-length: 0\r\ndate: Mon, 16 Nov 2026 04:00:00 GMT\r\n\r\n";
        let of = |text: String| unread(text.as_bytes());
        assert_eq!(of(format!("HTTP/1.1 400 Bad Request\r\n{close}")), Some(Failure::Unreadable));
        assert_eq!(of(format!("HTTP/1.1 431 Too Large\r\n{close}")), Some(Failure::HeadTooLarge));
        assert_eq!(of(format!("HTTP/1.1 200 OK\r\n{close}")), None);
        assert_eq!(of(format!("HTTP/1.1 400 Bad Request\r\nx-app: 1\r\n{close}")), None);
        assert_eq!(of("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".into()), None);
        assert_eq!(of(format!("HTTP/1.1 400 Bad Request\r\n{close}tail")), None);
    }
    #[tokio::test]
    async fn empty_response_of_an_application_is_kept() {
        const NOTHING: &str = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let activity = crate::connection_activity::ConnectionRegistry::default().enter(std::rc::Weak::new());
        let written = async || {
            let (io, mut client) = tokio::io::duplex(4096);
            let mut stream = ClientStream::new(io, b"", Rc::clone(&activity), None);
            stream.write_all(NOTHING.as_bytes()).await.unwrap();
            drop(stream);
            let mut text = String::new();
            client.read_to_string(&mut text).await.unwrap();
            text
        };
        assert!(written().await.contains("application/problem+json"));
        drop(activity.begin_request(false));
        assert_eq!(written().await, NOTHING);
    }
}
