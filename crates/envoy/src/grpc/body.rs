//! Response bodies: one message with trailers, or the body from tonic's routes.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

#[derive(Default)]
pub(super) enum GrpcBody {
    /// A message, then the trailers of a successful call.
    Message(Bytes),
    Trailers,
    /// Empty, or at its end.
    #[default]
    End,
    Routed(tonic::body::Body),
}

impl http_body::Body for GrpcBody {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        match &mut *self {
            Self::Message(message) => {
                let message = std::mem::take(message);
                *self = Self::Trailers;
                Poll::Ready(Some(Ok(Frame::data(message))))
            }
            Self::Trailers => {
                *self = Self::End;
                let mut trailers = HeaderMap::with_capacity(1);
                trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
                Poll::Ready(Some(Ok(Frame::trailers(trailers))))
            }
            Self::End => Poll::Ready(None),
            Self::Routed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Message(_) | Self::Trailers => false,
            Self::End => true,
            Self::Routed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Message(_) | Self::Trailers | Self::End => SizeHint::default(),
            Self::Routed(body) => body.size_hint(),
        }
    }
}
