//! An upstream that answers HTTP/1.1 and HTTP/2 requests and records them.
//!
//! The body of a response describes the request. `/status/N` answers with a status, `/bytes/N` with N bytes,
//! `/trailers` with trailers, and `/count` with the length of the request body.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) authority: Option<String>,
    pub(crate) version: Version,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

impl ReceivedRequest {
    /// A header that occurs at most once.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        assert!(self.headers.get_all(name).iter().count() <= 1, "`{name}` more than once: {self:?}");
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

#[derive(Clone)]
pub(crate) struct Echo {
    pub(crate) address: SocketAddr,
    name: &'static str,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

type Body = BoxBody<Bytes, Infallible>;

impl Echo {
    pub(crate) async fn start() -> Self {
        Self::named("app").await
    }

    /// An upstream that sends its name in the header `x-upstream`.
    pub(crate) async fn named(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let echo = Self { address, name, requests: Arc::default() };
        let shared = echo.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let echo = shared.clone();
                let service = service_fn(move |request| echo.clone().serve(request));
                tokio::spawn(async move {
                    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    // Errors are ignored: the gateway may close the connection.
                    let _ = builder.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        echo
    }

    /// The requests since the last call.
    pub(crate) fn take(&self) -> Vec<ReceivedRequest> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }

    /// The only request since the last call.
    pub(crate) fn only(&self) -> ReceivedRequest {
        let mut requests = self.take();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.remove(0)
    }

    async fn serve(self, request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
        let (head, mut body) = request.into_parts();
        let path = head.uri.path().to_owned();
        if path == "/count" {
            let mut count = 0;
            while let Some(frame) = body.frame().await {
                count += frame?.data_ref().map_or(0, Bytes::len);
            }
            return Ok(self.answer(200, Full::from(count.to_string()).boxed()));
        }
        let collected = body.collect().await?;
        let trailers = collected.trailers().cloned();
        let body = collected.to_bytes();
        self.requests.lock().unwrap().push(ReceivedRequest {
            method: head.method.clone(),
            target: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
            authority: head.uri.authority().map(ToString::to_string),
            version: head.version,
            headers: head.headers,
            body: body.clone(),
            trailers,
        });
        let number = |prefix| path.strip_prefix(prefix).and_then(|rest: &str| rest.parse::<u64>().ok());
        Ok(if let Some(code) = number("/status/") {
            self.answer(u16::try_from(code).unwrap(), Full::default().boxed())
        } else if let Some(length) = number("/bytes/") {
            self.answer(200, BodyExt::boxed(zeros(length)))
        } else if path == "/trailers" {
            let mut trailers = HeaderMap::new();
            trailers.insert("x-checksum", HeaderValue::from_static("abc"));
            let frames = [Frame::data(Bytes::from_static(b"body")), Frame::trailers(trailers)];
            let mut answer =
                self.answer(200, BodyExt::boxed(StreamBody::new(tokio_stream::iter(frames.map(Ok)))));
            answer.headers_mut().insert("trailer", HeaderValue::from_static("x-checksum"));
            answer
        } else {
            let description = format!("{} {} ", head.method, head.uri.path());
            self.answer(200, Full::from([description.as_bytes(), &body].concat()).boxed())
        })
    }

    fn answer(&self, code: u16, body: Body) -> Response<Body> {
        let answer = Response::builder().status(code).header("x-upstream", self.name);
        answer.body(body).unwrap()
    }
}

fn zeros(length: u64) -> impl http_body::Body<Data = Bytes, Error = Infallible> {
    let piece = Bytes::from(vec![b'x'; 64 << 10]);
    let size = u64::try_from(piece.len()).unwrap();
    let whole = (0..length / size).map({
        let piece = piece.clone();
        move |_| piece.clone()
    });
    let rest = piece.slice(..usize::try_from(length % size).unwrap());
    StreamBody::new(tokio_stream::iter(whole.chain([rest]).map(|piece| Ok(Frame::data(piece)))))
}
