//! The same over real sockets: each contender serves on its own thread, which sleeps outside of its turn. The
//! measured time is the run time of that thread, including hyper and system calls. The client is another thread of
//! this process with 16 open connections.

use axum::extract::Request;
use axum::response::Response;
use axum::{ServiceExt, serve};
use hivemind_benches::rounds::Contender;
use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use tower::Service;

const CONNECTIONS: usize = 16;
/// Requests in one turn: about ten milliseconds.
const TURN: usize = 64 * CONNECTIONS;
const REQUEST: &[u8] =
    b"GET /hello HTTP/1.1\r\nhost: example.org\r\nuser-agent: curl/8.5.0\r\naccept: */*\r\n\r\n";

/// A contender that serves on a socket and must respond to every request with `status`.
///
/// # Panics
/// If it does not, because the measurement would be wrong.
pub fn served<S>(name: &str, service: S, status: u16) -> Contender<'static>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let (sender, started) = mpsc::channel();
    std::thread::spawn(move || run(service, &sender));
    let (address, task) = started.recv().expect("a server starts");
    let mut connections: Vec<Connection> =
        (0..CONNECTIONS).map(|_| Connection::open(address).expect("a server is there")).collect();
    let expected = format!("HTTP/1.1 {status} ");
    // A limit of one request per hour passes one request.
    let _used_up = connections[0].ask().and_then(|()| connections[0].answer()).expect("an answer");
    Contender::new(name, move |_| {
        let (before, mut as_expected) = (nanos_run(&task), 0);
        for _ in 0..TURN / CONNECTIONS {
            for connection in &mut connections {
                connection.ask().expect("a server reads");
            }
            for connection in &mut connections {
                let answer = connection.answer().expect("an answer");
                as_expected += usize::from(answer.starts_with(expected.as_bytes()));
            }
        }
        assert_eq!(as_expected, TURN, "not every response was {status}");
        (nanos_run(&task) - before) as f64 / TURN as f64
    })
}

/// Sends its address and the path of its scheduler statistics, then serves until the process exits.
fn run<S>(service: S, sender: &mpsc::Sender<(SocketAddr, PathBuf)>)
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let task = std::fs::read_link("/proc/thread-self").expect("Linux has /proc/thread-self");
        let address = listener.local_addr().expect("an address");
        sender.send((address, Path::new("/proc").join(task).join("schedstat"))).expect("a listener");
        serve(listener, service.into_make_service_with_connect_info::<SocketAddr>()).await.expect("serving");
    });
}

/// Run time of a thread in nanoseconds, in user and kernel mode.
fn nanos_run(task: &Path) -> u64 {
    let text = std::fs::read_to_string(task).expect("a server runs");
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("the kernel counts nanoseconds")
}

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; 4_096] })
    }

    fn ask(&mut self) -> io::Result<()> {
        self.stream.write_all(REQUEST)
    }

    /// Reads one whole response, with the body length from its head.
    fn answer(&mut self) -> io::Result<&[u8]> {
        let mut filled = 0;
        loop {
            let read = self.stream.read(&mut self.buffer[filled..])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            filled += read;
            if whole_length(&self.buffer[..filled]).is_some_and(|length| filled >= length) {
                return Ok(&self.buffer[..filled]);
            }
        }
    }
}

/// The length of a response with its body, once the head is complete.
fn whole_length(answer: &[u8]) -> Option<usize> {
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
    let head_text = std::str::from_utf8(&answer[..head]).ok()?;
    let (_, rest) = head_text.split_once("content-length: ")?;
    let body: usize = rest.split("\r\n").next()?.parse().ok()?;
    Some(head + body)
}
