//! Response bodies: the upstream's, forwarded as the client reads it, or a short one of ours. The end of the body is
//! the end of the request.

use super::access_log::AccessLogLine;
use super::connection_activity::ActiveRequest;
use super::hop_by_hop;
use super::http2_streams::Http2Stream;
use super::idle_timeout::IdleTimeout;
use super::request_body::Upload;
use super::upstream::UpstreamSlot;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::future::{Pending, pending, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Timeout, timeout};

/// The body of a response.
pub(super) struct ResponseContent {
    content: Content,
    line: Option<AccessLogLine>,
    /// Ends with the body.
    active: ActiveRequest,
    /// For HTTP/2: how long the client may not read it.
    idle: Option<Duration>,
    stream: Option<Rc<Http2Stream>>,
}

#[expect(clippy::large_enum_variant, reason = "short-lived; a box would allocate for every request")]
pub(super) enum Content {
    Own(Option<Bytes>),
    UpstreamBody(UpstreamBody),
}

/// The upstream's body.
pub(super) struct UpstreamBody {
    inner: Incoming,
    /// The first part, if it arrived with the head.
    first: Option<Frame<Bytes>>,
    slot: Option<UpstreamSlot>,
    idle_timeout: IdleTimeout,
    /// The request body, if there was one: while it makes progress, the exchange is not idle.
    upload: Option<Arc<Upload>>,
    /// Expires when the total timeout of the request is over.
    end: Option<Pin<Box<Timeout<Pending<()>>>>>,
}

/// The timeouts of a response.
pub(super) struct ResponseTimeouts {
    /// The idle timeout.
    pub(super) idle: Duration,
    /// The time left in total; `None` without a total timeout.
    pub(super) left: Option<Duration>,
    pub(super) upload: Option<Arc<Upload>>,
}

/// A response that was not forwarded completely. The client sees it truncated.
#[derive(Debug, thiserror::Error)]
pub(super) enum TruncatedResponse {
    #[error("the upstream's response was truncated: {0}")]
    Broken(#[source] hyper::Error),
    #[error("the upstream's response stalled")]
    Silent,
}

impl Content {
    pub(super) fn own(body: Bytes) -> Self {
        Self::Own(Some(body).filter(|body| !body.is_empty()))
    }
}

impl UpstreamBody {
    /// Starts to forward a body. What arrived with the head is sent with the head: a separate write would double the
    /// cost for the client.
    pub(super) async fn begun(
        mut inner: Incoming,
        slot: UpstreamSlot,
        waiting: ResponseTimeouts,
    ) -> Result<Self, TruncatedResponse> {
        let first = first(&mut inner).await.transpose().map_err(TruncatedResponse::Broken)?;
        Ok(Self::new(inner, first, slot, waiting))
    }

    fn new(
        inner: Incoming,
        first: Option<Frame<Bytes>>,
        mut slot: UpstreamSlot,
        ResponseTimeouts { idle, left, upload }: ResponseTimeouts,
    ) -> Self {
        let has_ended = inner.is_end_stream();
        if has_ended {
            slot.return_to_pool();
        }
        let end = left.filter(|_| !has_ended).map(|left| Box::pin(timeout(left, pending())));
        let slot = Some(slot).filter(|_| !has_ended);
        Self { inner, first, slot, idle_timeout: IdleTimeout::new(idle), upload, end }
    }

    fn has_ended(&self) -> bool {
        self.first.is_none() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let Some(first) = &self.first else { return self.inner.size_hint() };
        let first = first.data_ref().map_or(0, Bytes::len) as u64;
        let rest = self.inner.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + first);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + first);
        }
        hint
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, TruncatedResponse>>> {
        if self.end.as_mut().is_some_and(|end| end.as_mut().poll(cx).is_ready()) {
            self.slot = None;
            return Poll::Ready(Some(Err(TruncatedResponse::Silent)));
        }
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(cleared(first))));
        }
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if polled.is_pending() {
            let moves = self.upload.as_ref().map_or(0, |upload| upload.moves());
            return self.idle_timeout.poll_end(cx, moves).map(|()| Some(Err(TruncatedResponse::Silent)));
        }
        self.idle_timeout.renew();
        if let Some(upload) = &self.upload {
            upload.moved();
        }
        let frame = ready!(polled);
        let has_ended = match &frame {
            None => true,
            Some(Ok(_)) => self.inner.is_end_stream(),
            Some(Err(_)) => {
                self.slot = None;
                false
            }
        };
        if has_ended && let Some(mut slot) = self.slot.take() {
            slot.return_to_pool();
        }
        Poll::Ready(frame.map(|frame| frame.map(cleared).map_err(TruncatedResponse::Broken)))
    }
}

/// Removes trailers that only have a meaning in the head.
fn cleared(mut frame: Frame<Bytes>) -> Frame<Bytes> {
    if let Some(trailers) = frame.trailers_mut() {
        hop_by_hop::remove_from_trailers(trailers);
    }
    frame
}

/// The first part of a body, if it is available. The task of the connection gets one turn to deliver it.
async fn first(body: &mut Incoming) -> Option<Result<Frame<Bytes>, hyper::Error>> {
    if body.is_end_stream() {
        return None;
    }
    let mut has_waited = false;
    poll_fn(|cx| match Pin::new(&mut *body).poll_frame(cx) {
        Poll::Ready(frame) => Poll::Ready(frame),
        Poll::Pending if has_waited => Poll::Ready(None),
        Poll::Pending => {
            has_waited = true;
            // Runs after the connection's task, which was woken by the poll.
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

impl ResponseContent {
    pub(super) fn new(
        content: Content,
        line: Option<AccessLogLine>,
        active: ActiveRequest,
        idle: Option<Duration>,
    ) -> Self {
        Self { content, line, active, idle, stream: None }
    }
}

impl Drop for ResponseContent {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            stream.mark_ended();
        }
        if let Content::UpstreamBody(body) = &mut self.content
            && let Some(upload) = body.upload.take_if(|upload| upload.is_under_way())
        {
            self.active.record_upload(upload);
        }
    }
}

impl Body for ResponseContent {
    type Data = Bytes;
    type Error = TruncatedResponse;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TruncatedResponse>>> {
        let polled = match &mut self.content {
            Content::Own(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Content::UpstreamBody(body) => body.poll_frame(cx),
        };
        if let Some(line) = &mut self.line
            && let Poll::Ready(Some(Ok(frame))) = &polled
        {
            line.add_bytes(frame.data_ref().map_or(0, Bytes::len));
        }
        // A body in one part needs no watch.
        if let Some(idle) = self.idle
            && !self.is_end_stream()
        {
            if self.stream.is_none() {
                self.stream = Http2Stream::current().inspect(|stream| self.active.watch(stream, idle));
            }
            if let Some(stream) = &self.stream {
                stream.record_poll(polled.is_ready());
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Own(body) => body.is_none(),
            Content::UpstreamBody(body) => body.has_ended(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Own(body) => SizeHint::with_exact(body.as_ref().map_or(0, Bytes::len) as u64),
            Content::UpstreamBody(body) => body.size_hint(),
        }
    }
}
