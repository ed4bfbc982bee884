//! Client connections after a WebSocket upgrade: spliced with the upstream, or closed with a close frame.

use super::dial::UpstreamStream;
use super::read_ahead::ReadAhead;
use super::upstream::UpstreamSlot;
use crate::websocket::{FrameLimits, PingLimit, SpliceSummary, refuse_with_close, splice};
use bytes::Bytes;
use hivemind_tower::websocket::{Close, MessageLimiter};
use std::num::NonZeroU32;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{oneshot, watch};

/// What a connection becomes after its upgrade response is written.
pub(super) enum UpgradedConnection {
    Spliced(Box<Tunnel>),
    Refused(Close),
}

/// Two spliced connections that are not running yet.
pub(super) struct Tunnel {
    /// The connection to the upstream, and the bytes that were read from it after its response head.
    pub(super) upstream: oneshot::Receiver<(Box<dyn UpstreamStream>, Bytes)>,
    pub(super) limiter: MessageLimiter,
    pub(super) pings_per_second: NonZeroU32,
    pub(super) idle: Duration,
    pub(super) _slot: UpstreamSlot,
}

impl UpgradedConnection {
    /// Serves an upgraded connection to its end.
    pub(super) async fn run<T>(self, client: T, stopped: watch::Receiver<bool>)
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        match self {
            Self::Refused(close) => refuse_with_close(client, &close).await,
            Self::Spliced(tunnel) => {
                // The upstream connection arrives as soon as its response is read, which has happened by now.
                let Ok((upstream, ahead)) = tunnel.upstream.await else { return };
                let upstream = ReadAhead::new(upstream, ahead);
                // Without message counting the limiter is still kept, because it holds the permit of the open
                // connection.
                let counts = tunnel.limiter.is_counting();
                let (limits, _kept) = if counts {
                    let pings = PingLimit::new(tunnel.pings_per_second);
                    (Some(FrameLimits { messages: tunnel.limiter, pings }), None)
                } else {
                    (None, Some(tunnel.limiter))
                };
                let summary = splice(client, upstream, limits, tunnel.idle, stopped).await;
                let SpliceSummary { end, to_upstream, to_client, messages } = summary;
                tracing::debug!(ended = ?end, to_upstream, to_client, messages, "a WebSocket ended");
            }
        }
    }
}
