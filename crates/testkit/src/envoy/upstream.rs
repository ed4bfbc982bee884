//! The upstream behind Envoy: responds with the request's headers as its body, and with a header `NAME: VALUE` for
//! each `x-respond-NAME: VALUE` in the request.

use super::http::{Headers, read_headers, read_line};
use std::fmt::Write as _;
use std::io::{self, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

pub struct Upstream {
    pub address: SocketAddr,
}

impl Upstream {
    /// Serves until the test process ends. Every response has the upstream's name in `x-upstream`.
    pub fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let _ = serve(stream, name); // Envoy may close at any time.
                });
            }
        });
        Self { address }
    }
}

fn serve(stream: TcpStream, name: &str) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::new(stream);
    loop {
        read_line(&mut stream)?;
        let answer = answer(name, &read_headers(&mut stream)?);
        stream.get_mut().write_all(answer.as_bytes())?;
    }
}

fn answer(name: &str, request: &Headers) -> String {
    let mut headers = String::new();
    let mut body = String::new();
    for (name, value) in request {
        let _ = writeln!(body, "{name}: {value}");
        if let Some(name) = name.strip_prefix("x-respond-") {
            let _ = write!(headers, "{name}: {value}\r\n");
        }
    }
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nx-upstream: {name}\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
}
