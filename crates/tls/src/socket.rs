//! Accepted connections on their way to a worker thread.

use std::io;
use tokio::net::{TcpStream, UnixStream};

/// A connection that is not registered with a runtime.
#[derive(Debug)]
pub enum Socket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl TryFrom<TcpStream> for Socket {
    type Error = io::Error;

    fn try_from(stream: TcpStream) -> io::Result<Self> {
        stream.into_std().map(Self::Tcp)
    }
}

impl TryFrom<UnixStream> for Socket {
    type Error = io::Error;

    fn try_from(stream: UnixStream) -> io::Result<Self> {
        stream.into_std().map(Self::Unix)
    }
}
