//! An OTLP receiver for gRPC and HTTP on one port that keeps every byte and the decoded spans.

use bytes::Bytes;
use hivemind_testkit::within;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1 as proto;
use prost::Message;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::watch;

const BY_GRPC: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
const BY_HTTP: &str = "/v1/traces";

/// A span and the name of its service.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedSpan {
    pub(crate) service: String,
    pub(crate) span: proto::Span,
}

impl ReceivedSpan {
    /// An attribute as a text: the items of a list separated by spaces.
    pub(crate) fn attribute(&self, key: &str) -> Option<String> {
        value_of(&self.span.attributes, key)
    }

    /// The span id, in hexadecimal digits.
    pub(crate) fn id(&self) -> String {
        hex(&self.span.span_id)
    }

    pub(crate) fn parent(&self) -> String {
        hex(&self.span.parent_span_id)
    }

    pub(crate) fn trace(&self) -> String {
        hex(&self.span.trace_id)
    }

    /// 0 unset, 1 ok, 2 error.
    pub(crate) fn status(&self) -> i32 {
        self.span.status.as_ref().map_or(0, |status| status.code)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn value_of(all: &[KeyValue], key: &str) -> Option<String> {
    all.iter().find(|of| of.key == key).and_then(|of| of.value.as_ref()).map(text)
}

fn text(value: &AnyValue) -> String {
    match value.value.as_ref().expect("a value") {
        any_value::Value::StringValue(text) => text.clone(),
        any_value::Value::BoolValue(flag) => flag.to_string(),
        any_value::Value::IntValue(number) => number.to_string(),
        any_value::Value::ArrayValue(list) => list.values.iter().map(text).collect::<Vec<_>>().join(" "),
        other => panic!("an attribute of another kind: {other:?}"),
    }
}

#[derive(Default)]
struct Recording {
    raw: Vec<Bytes>,
    spans: Vec<ReceivedSpan>,
    /// The number of messages to refuse with 503 or UNAVAILABLE before one is accepted.
    refusals: u32,
}

/// A receiver that runs until its test ends.
pub(crate) struct Receiver {
    pub(crate) url: String,
    pub(crate) port: u16,
    kept: Arc<Mutex<Recording>>,
    received_count: watch::Receiver<usize>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        Self::refusing(0).await
    }

    /// A receiver that refuses this many messages first.
    pub(crate) async fn refusing(refusals: u32) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let kept = Arc::new(Mutex::new(Recording { refusals, ..Recording::default() }));
        let (sender, received_count) = watch::channel(0);
        let (keeping, sender) = (Arc::clone(&kept), Arc::new(sender));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (kept, sender) = (Arc::clone(&keeping), Arc::clone(&sender));
                let service = hyper::service::service_fn(move |request| {
                    answer(request, Arc::clone(&kept), Arc::clone(&sender))
                });
                tokio::spawn(async move {
                    let _ = auto::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await; // The client may disconnect at any time.
                });
            }
        });
        Self { url: format!("http://127.0.0.1:{port}"), port, kept, received_count }
    }

    /// All received spans.
    pub(crate) fn spans(&self) -> Vec<ReceivedSpan> {
        self.kept.lock().unwrap().spans.clone()
    }

    /// All received spans with this name.
    pub(crate) fn named(&self, name: &str) -> Vec<ReceivedSpan> {
        self.spans().into_iter().filter(|of| of.span.name == name).collect()
    }

    /// The number of received messages, accepted or not.
    pub(crate) fn messages(&self) -> usize {
        self.kept.lock().unwrap().raw.len()
    }

    /// Whether any received message contains these bytes.
    pub(crate) fn has(&self, bytes: &[u8]) -> bool {
        let is_there = |raw: &Bytes| raw.windows(bytes.len()).any(|part| part == bytes);
        self.kept.lock().unwrap().raw.iter().any(is_there)
    }

    /// Waits until the received spans satisfy a condition.
    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&[ReceivedSpan]) -> bool) {
        let mut received_count = self.received_count.clone();
        let waited = within(what, async {
            while !condition(&self.spans()) {
                received_count.changed().await.unwrap();
            }
        });
        waited.await;
    }
}

async fn answer(
    request: Request<Incoming>,
    kept: Arc<Mutex<Recording>>,
    sender: Arc<watch::Sender<usize>>,
) -> Result<Response<http_body_util::combinators::BoxBody<Bytes, Infallible>>, Infallible> {
    let by_grpc = match request.uri().path() {
        BY_GRPC => true,
        BY_HTTP => false,
        other => panic!("sent to {other}"),
    };
    let kind = request.headers()["content-type"].to_str().unwrap().to_owned();
    assert_eq!(kind, if by_grpc { "application/grpc" } else { "application/x-protobuf" });
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
    let body = body.unwrap_or_default();
    let is_taken = keep(&kept, &body, by_grpc);
    sender.send_modify(|messages| *messages += 1);
    let message = ExportTraceServiceResponse::default().encode_to_vec();
    Ok(if by_grpc {
        let framed = [&[0, 0, 0, 0, u8::try_from(message.len()).unwrap()], &message[..]].concat();
        let mut trailers = hyper::HeaderMap::new();
        trailers.insert("grpc-status", if is_taken { "0" } else { "14" }.parse().unwrap());
        let body = Full::new(Bytes::from(framed)).with_trailers(std::future::ready(Some(Ok(trailers))));
        Response::builder().header("content-type", "application/grpc").body(body.boxed()).unwrap()
    } else {
        let status = if is_taken { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        Response::builder().status(status).body(Full::new(Bytes::from(message)).boxed()).unwrap()
    })
}

/// Records a message; false if it is refused.
fn keep(kept: &Mutex<Recording>, body: &Bytes, by_grpc: bool) -> bool {
    let mut kept = kept.lock().unwrap();
    kept.raw.push(body.clone());
    if kept.refusals > 0 {
        kept.refusals -= 1;
        return false;
    }
    let message = if by_grpc { body.slice(5..) } else { body.clone() };
    let message = ExportTraceServiceRequest::decode(message).expect("an ExportTraceServiceRequest");
    for of_resource in message.resource_spans {
        let resource = of_resource.resource.expect("a resource");
        let service = value_of(&resource.attributes, "service.name").expect("service.name");
        for span in of_resource.scope_spans.into_iter().flat_map(|of_scope| of_scope.spans) {
            kept.spans.push(ReceivedSpan { service: service.clone(), span });
        }
    }
    true
}

/// The names of a span's children, sorted.
pub(crate) fn below(all: &[ReceivedSpan], parent: &ReceivedSpan) -> Vec<String> {
    let mut names: Vec<String> = all
        .iter()
        .filter(|of| {
            of.span.parent_span_id == parent.span.span_id && of.span.trace_id == parent.span.trace_id
        })
        .map(|of| of.span.name.clone())
        .collect();
    names.sort();
    names
}

/// Spans by their ids in hexadecimal digits.
pub(crate) fn by_id(all: &[ReceivedSpan]) -> BTreeMap<String, ReceivedSpan> {
    all.iter().map(|of| (of.id(), of.clone())).collect()
}
