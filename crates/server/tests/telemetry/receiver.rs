//! A receiver of OTLP, by gRPC and by HTTP on one port, that keeps what comes and answers as it is told.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use hivemind_testkit::authority::{Authority, Issued};
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

/// How it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Takes,
    /// It takes it, and says that it has left something out.
    LeavesOut,
    /// `UNAVAILABLE`, or 503.
    IsBusy,
    /// It never answers.
    Hangs,
}

/// What came: how, and what.
pub(crate) struct Came {
    pub(crate) by_grpc: bool,
    pub(crate) message: ExportMetricsServiceRequest,
}

#[derive(Clone)]
struct Desk {
    manner: Arc<Mutex<Manner>>,
    came: UnboundedSender<Came>,
}

pub(crate) struct Receiver {
    pub(crate) at: SocketAddr,
    manner: Arc<Mutex<Manner>>,
    came: UnboundedReceiver<Came>,
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        Self::listen(None).await
    }

    /// One that speaks TLS, for `localhost`.
    pub(crate) async fn with_tls(authority: &Authority) -> Self {
        let Issued { cert, key } = authority.issue("receiver");
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
        let (tell, came) = unbounded_channel();
        let manner = Arc::new(Mutex::new(Manner::Takes));
        let desk = Desk { manner: Arc::clone(&manner), came: tell };
        let by_grpc = Routes::new(MetricsServiceServer::new(desk.clone())).into_axum_router();
        let by_http = Router::new().route("/v1/metrics", post(by_http)).with_state(desk);
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
        Self { at, manner, came }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.at)
    }

    pub(crate) fn is(&self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
    }

    /// The next message.
    pub(crate) async fn next(&mut self) -> Came {
        within("a message", self.came.recv()).await.expect("it listens")
    }

    /// The next message of which something is so.
    pub(crate) async fn until(&mut self, is_so: impl Fn(&ExportMetricsServiceRequest) -> bool) -> Came {
        let found = async {
            loop {
                let came = self.next().await;
                if is_so(&came.message) {
                    return came;
                }
            }
        };
        within("a message that says it", found).await
    }

    /// What has come by now and was not looked at.
    pub(crate) fn rest(&mut self) -> Vec<Came> {
        std::iter::from_fn(|| self.came.try_recv().ok()).collect()
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: Router) {
    let answer = service_fn(move |request| router.clone().call(request));
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await;
}

impl Desk {
    async fn take(&self, by_grpc: bool, message: ExportMetricsServiceRequest) -> Option<i64> {
        let manner = *self.manner.lock().unwrap();
        let _ = self.came.send(Came { by_grpc, message });
        match manner {
            Manner::Takes => Some(0),
            Manner::LeavesOut => Some(7),
            Manner::IsBusy => None,
            Manner::Hangs => std::future::pending().await,
        }
    }
}

fn response(left_out: i64) -> ExportMetricsServiceResponse {
    let error_message = "so many\nare too many".to_owned();
    let partial = ExportMetricsPartialSuccess { rejected_data_points: left_out, error_message };
    ExportMetricsServiceResponse { partial_success: (left_out > 0).then_some(partial) }
}

#[tonic::async_trait]
impl MetricsService for Desk {
    async fn export(
        &self,
        request: tonic::Request<ExportMetricsServiceRequest>,
    ) -> Result<tonic::Response<ExportMetricsServiceResponse>, tonic::Status> {
        let taken = self.take(true, request.into_inner()).await;
        let left_out = taken.ok_or_else(|| tonic::Status::unavailable("not now"))?;
        Ok(tonic::Response::new(response(left_out)))
    }
}

async fn by_http(State(desk): State<Desk>, headers: HeaderMap, body: Bytes) -> Response {
    assert_eq!(headers.get(header::CONTENT_TYPE).unwrap(), "application/x-protobuf");
    let message = ExportMetricsServiceRequest::decode(body).expect("a message of OTLP");
    match desk.take(false, message).await {
        Some(left_out) => response(left_out).encode_to_vec().into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")]).into_response(),
    }
}
