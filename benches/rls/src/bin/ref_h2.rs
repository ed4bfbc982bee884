//! Baseline: a constant OK from the bare `h2` crate. Arguments: address, `ct` or `mt`.
//!
//! The settings stay fixed, so that ratios are comparable over time.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response};
use tokio::net::{TcpListener, TcpStream};

/// `overall_code: OK` in a gRPC frame.
const OK: &[u8] = &[0, 0, 0, 0, 2, 8, 1];
const WINDOW: u32 = 1 << 20;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, address, mode] = arguments.as_slice() else {
        eprintln!("usage: ref_h2 ADDRESS ct|mt");
        std::process::exit(2);
    };
    rls_bench::runtime(mode)?.block_on(async move {
        let listener = TcpListener::bind(address).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(connection(stream));
        }
    })
}

async fn connection(stream: TcpStream) {
    stream.set_nodelay(true).ok();
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW).max_concurrent_streams(1000);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(stream).await else { return };
    while let Some(Ok((request, answer))) = connection.accept().await {
        // A body may arrive after its headers, so each stream has its own task.
        tokio::spawn(call(request.into_body(), answer));
    }
}

async fn call(mut body: h2::RecvStream, mut answer: h2::server::SendResponse<Bytes>) {
    let mut length = 0;
    while let Some(data) = body.data().await {
        let Ok(data) = data else { return };
        length += data.len();
        let _ = body.flow_control().release_capacity(data.len());
    }
    std::hint::black_box(length);
    let Ok(head) = Response::builder().status(200).header("content-type", "application/grpc").body(()) else {
        return;
    };
    // This fails only if the peer has closed the connection.
    if let Ok(mut stream) = answer.send_response(head, false) {
        let _ = stream.send_data(Bytes::from_static(OK), false);
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let _ = stream.send_trailers(trailers);
    }
}
