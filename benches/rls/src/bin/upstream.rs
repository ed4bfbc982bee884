//! Upstream of Envoy: a constant 200 over HTTP/1 on one thread. Argument: address.
//!
//! It responds to each blank line, which is correct for requests without a body.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn main() -> std::io::Result<()> {
    let Some(address) = std::env::args().nth(1) else {
        eprintln!("usage: upstream ADDRESS");
        std::process::exit(2);
    };
    rls_bench::runtime("ct")?.block_on(async move {
        let listener = TcpListener::bind(address).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(connection(stream));
        }
    })
}

async fn connection(mut stream: TcpStream) {
    stream.set_nodelay(true).ok();
    let mut buffer = [0; 16 * 1024];
    // Number of bytes seen of the blank line that ends a request head.
    let mut seen = 0;
    loop {
        let Ok(length @ 1..) = stream.read(&mut buffer).await else { return };
        for &byte in &buffer[..length] {
            seen = match (seen, byte) {
                (0 | 2, b'\r') | (1 | 3, b'\n') => seen + 1,
                (_, b'\r') => 1,
                _ => 0,
            };
            if seen == 4 {
                seen = 0;
                if stream.write_all(ANSWER).await.is_err() {
                    return;
                }
            }
        }
    }
}
