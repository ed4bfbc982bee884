//! A connection on its way from the thread that accepted it to the one that serves it.

use std::io;
use tokio::net::{TcpStream, UnixStream};

/// A connection that belongs to no runtime.
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
