//! An untrusted client, which speaks TLS with any certificate and sends arbitrary bytes.

use hivemind_mesh_net::MeshTlsFiles;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Timeout of an answer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Accepts every certificate.
#[derive(Debug)]
struct AcceptAny(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// A client with an arbitrary certificate.
pub(crate) struct UntrustedClient {
    config: ClientConfig,
}

impl UntrustedClient {
    /// Uses the certificate in these files, if any, regardless of its CA.
    pub(crate) fn with(files: Option<&MeshTlsFiles>, some_ca: &MeshTlsFiles) -> Self {
        let provider = Arc::new(default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&some_ca.ca).unwrap()).unwrap();
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAny(verifier.unwrap())));
        let mut config = match files {
            None => builder.with_no_client_auth(),
            Some(files) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_file(&files.cert).unwrap()],
                    PrivateKeyDer::from_pem_file(&files.key).unwrap(),
                )
                .unwrap(),
        };
        config.alpn_protocols = vec![b"hivemind-mesh/1".to_vec()];
        Self { config }
    }

    /// Sends `sent` over QUIC and returns all received bytes until the node closes the connection.
    pub(crate) async fn exchange_over_quic(&self, node: SocketAddr, sent: &[u8]) -> Vec<u8> {
        let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(self.config.clone()).unwrap();
        let mut endpoint = quinn::Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto)));
        let exchanging = async {
            let Ok(connection) = endpoint.connect(node, "hivemind").unwrap().await else { return Vec::new() };
            let Ok((mut writes, mut reads)) = connection.open_bi().await else { return Vec::new() };
            let _ = writes.write_all(sent).await;
            let mut received = Vec::new();
            while let Ok(Some(chunk)) = reads.read_chunk(usize::MAX, true).await {
                received.extend_from_slice(&chunk.bytes);
            }
            received
        };
        timeout(TIMEOUT, exchanging).await.expect("the connection is closed")
    }

    /// Does the same over TCP.
    pub(crate) async fn exchange_over_tcp(&self, node: SocketAddr, sent: &[u8]) -> Vec<u8> {
        let connector = tokio_rustls::TlsConnector::from(Arc::new(self.config.clone()));
        let exchanging = async {
            let stream = TcpStream::connect(node).await.unwrap();
            let name = ServerName::try_from("hivemind").unwrap();
            match connector.connect(name, stream).await {
                Ok(stream) => exchange(stream, sent).await,
                Err(_) => Vec::new(),
            }
        };
        timeout(TIMEOUT, exchanging).await.expect("the connection is closed")
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, sent: &[u8]) -> Vec<u8> {
    let _ = stream.write_all(sent).await;
    let _ = stream.flush().await;
    let (mut received, mut chunk) = (Vec::new(), [0; 1024]);
    while let Ok(length @ 1..) = stream.read(&mut chunk).await {
        received.extend_from_slice(&chunk[..length]);
    }
    received
}

/// A valid hello.
pub(crate) fn hello(cluster: &str, name: &str) -> Vec<u8> {
    hello_with_generation(cluster, name, 1)
}

/// A valid hello with a small generation.
pub(crate) fn hello_with_generation(cluster: &str, name: &str, generation: u8) -> Vec<u8> {
    let mut body = vec![1];
    for text in [cluster, name] {
        body.push(u8::try_from(text.len()).unwrap());
        body.extend_from_slice(text.as_bytes());
    }
    // No advertised address, port 9, and no renewal.
    body.extend_from_slice(&[generation, 0, 9, 0]);
    let mut message = vec![0];
    message.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
    message.extend_from_slice(&body);
    message
}
