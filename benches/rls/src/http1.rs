//! HTTP/1.1 with keep-alive, one request at a time on each connection.

use crate::args::Args;
use crate::schedule::Schedule;
use crate::tally::{Answer, Tally};
use std::cell::RefCell;
use std::io::{Error, ErrorKind};
use std::rc::Rc;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Sends the requested load from this thread.
///
/// # Errors
/// If it cannot connect. A failed request is counted, and its connection is reopened.
pub async fn run(args: Args) -> Result<Tally, Box<dyn std::error::Error>> {
    let args = Rc::new(args);
    let mut opened = Vec::new();
    for _ in 0..args.conns {
        opened.push(connect(&args.addr).await?);
    }
    let schedule = Rc::new(Schedule::start(args.n, args.time, args.rate));
    let tally = Rc::new(RefCell::new(Tally::default()));
    let mut tasks = JoinSet::new();
    for stream in opened {
        tasks.spawn_local(connection(stream, Rc::clone(&args), Rc::clone(&schedule), Rc::clone(&tally)));
    }
    while let Some(ended) = tasks.join_next().await {
        ended?;
    }
    Ok(tally.take())
}

async fn connect(addr: &str) -> std::io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(addr).await?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

async fn connection(
    mut stream: BufReader<TcpStream>,
    args: Rc<Args>,
    schedule: Rc<Schedule>,
    tally: Rc<RefCell<Tally>>,
) {
    while let Some(due) = schedule.next().await {
        let value = args.value(due.index);
        let request = format!("GET {} HTTP/1.1\r\nhost: bench\r\nx-key: {value}\r\n\r\n", args.path);
        let answer = match ask(&mut stream, request.as_bytes()).await {
            Ok(200) => Answer::Ok,
            Ok(429) => Answer::Over,
            Ok(_) => Answer::Other,
            Err(_) => {
                // If this fails as well, the next request fails.
                if let Ok(another) = connect(&args.addr).await {
                    stream = another;
                }
                Answer::Other
            }
        };
        tally.borrow_mut().add(due.since.elapsed(), answer);
    }
}

/// Sends one request and returns the status of the response.
async fn ask(stream: &mut BufReader<TcpStream>, request: &[u8]) -> std::io::Result<u16> {
    let malformed = || Error::from(ErrorKind::InvalidData);
    stream.get_mut().write_all(request).await?;
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(malformed)?;
    let mut length = 0;
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let field = line.trim_end();
        if field.is_empty() {
            break;
        }
        if let Some((name, value)) = field.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(|_| malformed())?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(status)
}
