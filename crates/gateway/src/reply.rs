//! Response bodies: the upstream's, forwarded as the client reads it, or a short one of ours. The end of the body is
//! the end of the request.

use super::access_log::Line;
use super::hop_by_hop;
use super::patience::Patience;
use super::presence::Visit;
use super::request_body::Upload;
use super::streams::Stream;
use super::upstream::Lease;
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
pub(super) struct Reply {
    content: Content,
    line: Option<Line>,
    /// Ends with the body.
    visit: Visit,
    /// For HTTP/2: how long the client may not read it.
    idle: Option<Duration>,
    stream: Option<Rc<Stream>>,
}

#[expect(clippy::large_enum_variant, reason = "short-lived; a box would allocate for every request")]
pub(super) enum Content {
    Own(Option<Bytes>),
    Relayed(Relayed),
}

/// The upstream's body.
pub(super) struct Relayed {
    inner: Incoming,
    /// The first part, if it arrived with the head.
    first: Option<Frame<Bytes>>,
    lease: Option<Lease>,
    patience: Patience,
    /// The request body, if there was one: while it makes progress, the exchange is not idle.
    upload: Option<Arc<Upload>>,
    /// Expires when the total timeout of the request is over.
    end: Option<Pin<Box<Timeout<Pending<()>>>>>,
}

/// The timeouts of a response.
pub(super) struct Waiting {
    /// The idle timeout.
    pub(super) idle: Duration,
    /// The time left in total; `None` without a total timeout.
    pub(super) left: Option<Duration>,
    pub(super) upload: Option<Arc<Upload>>,
}

/// A response that was not forwarded completely. The client sees it truncated.
#[derive(Debug, thiserror::Error)]
pub(super) enum CutOff {
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

impl Relayed {
    /// Starts to forward a body. What arrived with the head is sent with the head: a separate write would double the
    /// cost for the client.
    pub(super) async fn begun(mut inner: Incoming, lease: Lease, waiting: Waiting) -> Result<Self, CutOff> {
        let first = first(&mut inner).await.transpose().map_err(CutOff::Broken)?;
        Ok(Self::new(inner, first, lease, waiting))
    }

    fn new(
        inner: Incoming,
        first: Option<Frame<Bytes>>,
        mut lease: Lease,
        Waiting { idle, left, upload }: Waiting,
    ) -> Self {
        let has_ended = inner.is_end_stream();
        if has_ended {
            lease.give_back();
        }
        let end = left.filter(|_| !has_ended).map(|left| Box::pin(timeout(left, pending())));
        let lease = Some(lease).filter(|_| !has_ended);
        Self { inner, first, lease, patience: Patience::new(idle), upload, end }
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

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        if self.end.as_mut().is_some_and(|end| end.as_mut().poll(cx).is_ready()) {
            self.lease = None;
            return Poll::Ready(Some(Err(CutOff::Silent)));
        }
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(cleared(first))));
        }
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if polled.is_pending() {
            let moves = self.upload.as_ref().map_or(0, |upload| upload.moves());
            return self.patience.poll_end(cx, moves).map(|()| Some(Err(CutOff::Silent)));
        }
        self.patience.renew();
        if let Some(upload) = &self.upload {
            upload.moved();
        }
        let frame = ready!(polled);
        let has_ended = match &frame {
            None => true,
            Some(Ok(_)) => self.inner.is_end_stream(),
            Some(Err(_)) => {
                self.lease = None;
                false
            }
        };
        if has_ended && let Some(mut lease) = self.lease.take() {
            lease.give_back();
        }
        Poll::Ready(frame.map(|frame| frame.map(cleared).map_err(CutOff::Broken)))
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

impl Reply {
    pub(super) fn new(content: Content, line: Option<Line>, visit: Visit, idle: Option<Duration>) -> Self {
        Self { content, line, visit, idle, stream: None }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            stream.is_over();
        }
        if let Content::Relayed(relayed) = &mut self.content
            && let Some(upload) = relayed.upload.take_if(|upload| upload.is_under_way())
        {
            self.visit.is_outlasted_by(upload);
        }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        let polled = match &mut self.content {
            Content::Own(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Content::Relayed(relayed) => relayed.poll_frame(cx),
        };
        if let Some(line) = &mut self.line
            && let Poll::Ready(Some(Ok(frame))) = &polled
        {
            line.count(frame.data_ref().map_or(0, Bytes::len));
        }
        // A body in one part needs no watch.
        if let Some(idle) = self.idle
            && !self.is_end_stream()
        {
            if self.stream.is_none() {
                self.stream = Stream::current().inspect(|stream| self.visit.watch(stream, idle));
            }
            if let Some(stream) = &self.stream {
                stream.asked(polled.is_ready());
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Own(body) => body.is_none(),
            Content::Relayed(relayed) => relayed.has_ended(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Own(body) => SizeHint::with_exact(body.as_ref().map_or(0, Bytes::len) as u64),
            Content::Relayed(relayed) => relayed.size_hint(),
        }
    }
}
