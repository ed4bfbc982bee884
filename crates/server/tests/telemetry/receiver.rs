//! An OTLP receiver for gRPC and HTTP on one port that records messages and responds as configured.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hivemind_testkit::authority::{Authority, IssuedFiles};
use hivemind_testkit::within;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use prost::Message;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_rustls::TlsAcceptor;
use tonic::service::Routes;
use tower_service::Service;

/// The kind of its responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behavior {
    Accept,
    /// Accepts the message and reports rejected data points.
    RejectPoints,
    /// `UNAVAILABLE`, or 503.
    Unavailable,
    /// Never responds.
    Hang,
}

/// A received message and its protocol.
pub(crate) struct ReceivedMessage {
    pub(crate) by_grpc: bool,
    pub(crate) message: ExportMetricsServiceRequest,
}

#[derive(Clone)]
struct Handler {
    behavior: Arc<Mutex<Behavior>>,
    came: UnboundedSender<ReceivedMessage>,
}

pub(crate) struct Receiver {
    pub(crate) at: SocketAddr,
    behavior: Arc<Mutex<Behavior>>,
    came: UnboundedReceiver<ReceivedMessage>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        Self::listen(None).await
    }

    /// A receiver with TLS, for `localhost`.
    pub(crate) async fn with_tls(authority: &Authority) -> Self {
        let IssuedFiles { cert, key } = authority.issue("receiver");
        let chain = vec![CertificateDer::from_pem_file(cert).unwrap()];
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.unwrap().with_no_client_auth();
        let mut config = builder.with_single_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap()).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Self::listen(Some(TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn listen(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let at = listener.local_addr().unwrap();
        let (sender, came) = unbounded_channel();
        let behavior = Arc::new(Mutex::new(Behavior::Accept));
        let handler = Handler { behavior: Arc::clone(&behavior), came: sender };
        let by_grpc = Routes::new(MetricsServiceServer::new(handler.clone())).into_axum_router();
        let by_http = Router::new().route("/v1/metrics", post(by_http)).with_state(handler);
        let router = by_grpc.merge(by_http);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (router, tls) = (router.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, router).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, router).await;
                            }
                        }
                    }
                });
            }
        });
        Self { at, behavior, came }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.at)
    }

    pub(crate) fn set_behavior(&self, behavior: Behavior) {
        *self.behavior.lock().unwrap() = behavior;
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> ReceivedMessage {
        within("a message", self.came.recv()).await.expect("it listens")
    }

    /// The next message that satisfies a condition.
    pub(crate) async fn until(
        &mut self,
        condition: impl Fn(&ExportMetricsServiceRequest) -> bool,
    ) -> ReceivedMessage {
        let found = async {
            loop {
                let came = self.next().await;
                if condition(&came.message) {
                    return came;
                }
            }
        };
        within("a matching message", found).await
    }

    /// The messages that have arrived and were not read.
    pub(crate) fn rest(&mut self) -> Vec<ReceivedMessage> {
        std::iter::from_fn(|| self.came.try_recv().ok()).collect()
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: Router) {
    let answer = service_fn(move |request| router.clone().call(request));
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await;
}

impl Handler {
    async fn take(&self, by_grpc: bool, message: ExportMetricsServiceRequest) -> Option<i64> {
        let behavior = *self.behavior.lock().unwrap();
        let _ = self.came.send(ReceivedMessage { by_grpc, message });
        match behavior {
            Behavior::Accept => Some(0),
            Behavior::RejectPoints => Some(7),
            Behavior::Unavailable => None,
            Behavior::Hang => std::future::pending().await,
        }
    }
}

fn response(left_out: i64) -> ExportMetricsServiceResponse {
    let error_message = "too many\ndata points".to_owned();
    let partial = ExportMetricsPartialSuccess { rejected_data_points: left_out, error_message };
    ExportMetricsServiceResponse { partial_success: (left_out > 0).then_some(partial) }
}

#[tonic::async_trait]
impl MetricsService for Handler {
    async fn export(
        &self,
        request: tonic::Request<ExportMetricsServiceRequest>,
    ) -> Result<tonic::Response<ExportMetricsServiceResponse>, tonic::Status> {
        let taken = self.take(true, request.into_inner()).await;
        let left_out = taken.ok_or_else(|| tonic::Status::unavailable("not now"))?;
        Ok(tonic::Response::new(response(left_out)))
    }
}

async fn by_http(State(handler): State<Handler>, headers: HeaderMap, body: Bytes) -> Response {
    assert_eq!(headers.get(header::CONTENT_TYPE).unwrap(), "application/x-protobuf");
    let message = ExportMetricsServiceRequest::decode(body).expect("a message of OTLP");
    match handler.take(false, message).await {
        Some(left_out) => response(left_out).encode_to_vec().into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")]).into_response(),
    }
}
