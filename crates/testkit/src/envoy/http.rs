//! A minimal HTTP/1.1 client: a connection that stays open, one request at a time.

use super::deadline::DEADLINE;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

pub type Headers = Vec<(String, String)>;

/// A response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Headers,
    pub body: String,
}

impl Response {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// A request header as the upstream received it: the upstream responds with the request's headers.
    pub fn upstream_header(&self, name: &str) -> Option<&str> {
        self.body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

pub struct Connection<S>(BufReader<S>);

impl Connection<TcpStream> {
    pub fn tcp(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        Ok(Self(BufReader::new(stream)))
    }
}

impl Connection<UnixStream> {
    pub fn unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        Ok(Self(BufReader::new(stream)))
    }
}

impl<S: Read + Write> Connection<S> {
    pub fn get(&mut self, path: &str, headers: &[(&str, &str)]) -> io::Result<Response> {
        let mut request = format!("GET {path} HTTP/1.1\r\nhost: test\r\n");
        for (name, value) in headers {
            let _ = write!(request, "{name}: {value}\r\n");
        }
        request += "\r\n";
        self.0.get_mut().write_all(request.as_bytes())?;
        let line = read_line(&mut self.0)?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status: {line:?}")))?;
        let headers = read_headers(&mut self.0)?;
        let body = read_body(&mut self.0, &headers)?;
        Ok(Response { status, headers, body })
    }
}

/// A line without its line break. A closed connection is an error.
pub fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    line.truncate(line.trim_end().len());
    Ok(line)
}

/// Headers up to the empty line, with lower-case names.
pub fn read_headers(stream: &mut impl BufRead) -> io::Result<Headers> {
    let mut headers = Headers::new();
    loop {
        let line = read_line(stream)?;
        let Some((name, value)) = line.split_once(':') else { return Ok(headers) };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

fn read_body(stream: &mut impl BufRead, headers: &Headers) -> io::Result<String> {
    let of = |name| headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let mut body = Vec::new();
    if of("transfer-encoding") == Some("chunked") {
        loop {
            let length = usize::from_str_radix(&read_line(stream)?, 16).map_err(io::Error::other)?;
            body.extend(read_exactly(stream, length)?);
            read_line(stream)?;
            if length == 0 {
                break;
            }
        }
    } else {
        let length = of("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        body = read_exactly(stream, length)?;
    }
    String::from_utf8(body).map_err(io::Error::other)
}

fn read_exactly(stream: &mut impl BufRead, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}
