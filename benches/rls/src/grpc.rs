//! Load client of the rate limit RPC, based on the bare `h2` crate.

use crate::args::Args;
use crate::schedule::Schedule;
use crate::tally::{Answer, Tally};
use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use std::cell::RefCell;
use std::rc::Rc;
use tokio::net::TcpStream;
use tokio::task::{JoinSet, spawn_local};

type Failure = Box<dyn std::error::Error>;

/// Sends the requested load from this thread.
///
/// # Errors
/// If it cannot connect. A call that fails is counted and does not end the run.
pub async fn run(args: Args) -> Result<Tally, Failure> {
    let args = Rc::new(args);
    let mut connections = Vec::new();
    for _ in 0..args.conns {
        let stream = TcpStream::connect(&args.addr).await?;
        stream.set_nodelay(true)?;
        let (send, connection) = h2::client::handshake(stream).await?;
        spawn_local(async move {
            // Its calls report a closed connection.
            let _ = connection.await;
        });
        connections.push(send);
    }
    let schedule = Rc::new(Schedule::start(args.n, args.time, args.rate));
    // One histogram for all streams: separate ones would evict the server's data from the shared cache.
    let tally = Rc::new(RefCell::new(Tally::default()));
    let mut streams = JoinSet::new();
    for send in connections.iter().flat_map(|send| std::iter::repeat_n(send, args.streams)) {
        streams.spawn_local(stream(send.clone(), Rc::clone(&args), Rc::clone(&schedule), Rc::clone(&tally)));
    }
    while let Some(ended) = streams.join_next().await {
        ended?;
    }
    Ok(tally.take())
}

async fn stream(send: SendRequest<Bytes>, args: Rc<Args>, schedule: Rc<Schedule>, tally: Rc<RefCell<Tally>>) {
    const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let uri = format!("http://{}{METHOD}", args.addr);
    while let Some(due) = schedule.next().await {
        let body = message(&args.domain, &args.key, &args.value(due.index));
        let mut head =
            http::Request::post(&uri).header("content-type", "application/grpc").header("te", "trailers");
        if args.changing {
            head = head.header("x-request-id", format!("{:032x}", u128::from(due.index) << 64 | 0x5eed));
        }
        let answer = match head.body(()) {
            Ok(head) => call(send.clone(), head, body).await.unwrap_or(Answer::Other),
            Err(_) => Answer::Other,
        };
        tally.borrow_mut().add(due.since.elapsed(), answer);
    }
}

async fn call(send: SendRequest<Bytes>, head: http::Request<()>, body: Bytes) -> Result<Answer, h2::Error> {
    let mut send = send.ready().await?;
    let (answer, mut stream) = send.send_request(head, false)?;
    stream.send_data(body, true)?;
    let mut body = answer.await?.into_body();
    // `overall_code` is the first field, right after the frame's five bytes.
    let mut first = Vec::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        first.extend_from_slice(&data);
    }
    body.trailers().await?;
    Ok(match first.get(5..7) {
        Some([8, 1]) => Answer::Ok,
        Some([8, 2]) => Answer::Over,
        _ => Answer::Other,
    })
}

/// A `RateLimitRequest` with one descriptor of one entry, in a gRPC frame. Encoded by hand, because the client
/// shares the cores with the server.
fn message(domain: &str, key: &str, value: &str) -> Bytes {
    let entry = [field(0x0a, key.as_bytes()), field(0x12, value.as_bytes())].concat();
    let request = [field(0x0a, domain.as_bytes()), field(0x12, &field(0x0a, &entry))].concat();
    let mut frame = BytesMut::with_capacity(request.len() + 5);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(request.len()).expect("fields are short"));
    frame.extend_from_slice(&request);
    frame.freeze()
}

fn field(tag: u8, value: &[u8]) -> Vec<u8> {
    let length =
        u8::try_from(value.len()).ok().filter(|length| *length < 128).expect("fields are under 128 bytes");
    [&[tag, length], value].concat()
}
