//! The end of connections.

use super::*;
use tokio::io::duplex;

/// A connection whose shutdown never completes, such as TLS with a client that does not read.
struct Stuck(tokio::io::DuplexStream);

impl AsyncRead for Stuck {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
        buf: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stuck {
    fn poll_write(self: Pin<&mut Self>, _: &mut std::task::Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut std::task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn linger_ends_when_the_client_does_not_read() {
    let (_stop, stopped) = watch::channel(false);
    let (ours, _theirs) = duplex(64);
    timeout(LINGER * 2, linger(Stuck(ours), false, &stopped)).await.expect("it ends");
}

#[tokio::test(start_paused = true)]
async fn linger_ends_immediately_at_shutdown() {
    let (stop, stopped) = watch::channel(false);
    let (ours, _theirs) = duplex(64);
    stop.send(true).unwrap();
    timeout(Duration::from_millis(1), linger(ours, false, &stopped)).await.expect("it ends at once");
}
