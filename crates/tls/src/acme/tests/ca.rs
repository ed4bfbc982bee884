//! A misbehaving CA over TLS. It checks no signature and issues no certificate.

use crate::acme::settings::Acme;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fmt::Write;
use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// How the CA treats a client.
#[derive(Clone, Debug)]
pub(super) enum Manner {
    /// Accepts the connection, and sends nothing.
    NoHandshake,
    /// Reads the request, and sends nothing.
    NoAnswer,
    /// Announces a hundred bytes, and sends one.
    HalfAnAnswer,
    /// Answers with this many bytes.
    Answers { bytes: usize, is_chunked: bool },
    /// Answers like a CA, but never finishes an order, and delays each client: the value of `Retry-After`.
    Waits(String),
}

/// A running CA; it stops with the test.
pub(super) struct Ca {
    folder: TempDir,
    port: u16,
    silent: UnboundedReceiver<()>,
    serving: JoinHandle<()>,
}

impl Drop for Ca {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Ca {
    pub(super) async fn start(manner: Manner) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "The CA of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).unwrap();
        let key = KeyPair::generate().unwrap();
        let own = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let tls = TlsAcceptor::from(Arc::new(config.with_single_cert(vec![own.der().clone()], key).unwrap()));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (notify, silent) = unbounded_channel();
        let serving = tokio::spawn(async move {
            // One after the other: each request has its own connection.
            while let Ok((stream, _)) = listener.accept().await {
                serve(stream, &tls, &manner, port, &notify).await;
            }
        });
        Self { folder, port, silent, serving }
    }

    pub(super) fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/directory", self.port)
    }

    /// The CA certificate that clients have to trust.
    pub(super) fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Settings that request a certificate from this CA.
    pub(super) fn settings(&self) -> Acme {
        Acme {
            domains: vec!["shop.example".to_owned()],
            contact: Vec::new(),
            cache: self.folder.path().join("cache"),
            directory: self.directory(),
            ca: Some(self.file()),
        }
    }

    /// Returns once the CA has stopped answering.
    pub(super) async fn falls_silent(&mut self) {
        self.silent.recv().await.unwrap();
    }
}

async fn serve(
    stream: TcpStream,
    tls: &TlsAcceptor,
    manner: &Manner,
    port: u16,
    silent: &UnboundedSender<()>,
) {
    if matches!(manner, Manner::NoHandshake) {
        silent.send(()).unwrap();
        pending::<()>().await;
    }
    let mut stream = BufReader::new(tls.accept(stream).await.unwrap());
    let (method, path) = request(&mut stream).await;
    let answer = match manner {
        Manner::Answers { bytes, is_chunked } => filled(*bytes, *is_chunked),
        Manner::Waits(wait) => as_a_ca(&method, &path, port, wait).into_bytes(),
        Manner::HalfAnAnswer => b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec(),
        Manner::NoHandshake | Manner::NoAnswer => Vec::new(),
    };
    // A client that has read enough disconnects.
    let _ = stream.write_all(&answer).await;
    let _ = stream.flush().await;
    if matches!(manner, Manner::HalfAnAnswer | Manner::NoAnswer) {
        silent.send(()).unwrap();
        pending::<()>().await;
    }
    let _ = stream.shutdown().await;
}

/// Reads method and path; the body is discarded.
async fn request(stream: &mut (impl AsyncBufReadExt + Unpin)) -> (String, String) {
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let from = head.len();
        assert_ne!(stream.read_line(&mut head).await.unwrap(), 0, "a whole head");
        if let Some((name, value)) = head[from..].split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
    }
    stream.read_exact(&mut vec![0; length]).await.unwrap();
    let mut words = head.split(' ').map(str::to_owned);
    (words.next().unwrap(), words.next().unwrap())
}

fn filled(bytes: usize, is_chunked: bool) -> Vec<u8> {
    let body = "x".repeat(bytes);
    let answer = if is_chunked {
        format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{bytes:x}\r\n{body}\r\n0\r\n\r\n")
    } else {
        format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n{body}")
    };
    answer.into_bytes()
}

/// The RFC 8555 response for each path, with an order that is never ready.
fn as_a_ca(method: &str, path: &str, port: u16, wait: &str) -> String {
    let at = |path: &str| format!("https://127.0.0.1:{port}/{path}");
    let (status, body) = match path {
        "/directory" => {
            let urls = serde_json::json!({"newNonce": at("nonce"), "newAccount": at("account"), "newOrder": at("orders")});
            (200, urls.to_string())
        }
        "/nonce" => (200, String::new()),
        "/account" => (201, r#"{"status":"valid"}"#.to_owned()),
        _ => {
            let order =
                serde_json::json!({"status": "pending", "authorizations": [], "finalize": at("finalize")});
            (if path == "/orders" { 201 } else { 200 }, order.to_string())
        }
    };
    let mut answer = format!("HTTP/1.1 {status} Fine\r\nreplay-nonce: bm9uY2U\r\nretry-after: {wait}\r\n");
    write!(answer, "location: {}\r\ncontent-length: {}\r\n\r\n", at("order"), body.len()).unwrap();
    if method != "HEAD" {
        answer.push_str(&body);
    }
    answer
}
