//! Somebody at the door who is no node: it speaks TLS as far as its certificates go, and says what it likes.

use hivemind_mesh_net::TlsFiles;
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

/// In which a node has answered, or never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// Believes every certificate.
#[derive(Debug)]
struct Credulous(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for Credulous {
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

/// What it shows.
pub(crate) struct Stranger {
    config: ClientConfig,
}

impl Stranger {
    /// With the certificate in these files, if any, whoever signed it.
    pub(crate) fn with(files: Option<&TlsFiles>, some_ca: &TlsFiles) -> Self {
        let provider = Arc::new(default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&some_ca.ca).unwrap()).unwrap();
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build();
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Credulous(verifier.unwrap())));
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

    /// Calls by datagrams, says something, and returns what it hears until it is shown out.
    pub(crate) async fn hears_by_quic(&self, node: SocketAddr, said: &[u8]) -> Vec<u8> {
        let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(self.config.clone()).unwrap();
        let mut endpoint = quinn::Endpoint::client(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto)));
        let calling = async {
            let Ok(connection) = endpoint.connect(node, "hivemind").unwrap().await else { return Vec::new() };
            let Ok((mut writes, mut reads)) = connection.open_bi().await else { return Vec::new() };
            let _ = writes.write_all(said).await;
            let mut heard = Vec::new();
            while let Ok(Some(chunk)) = reads.read_chunk(usize::MAX, true).await {
                heard.extend_from_slice(&chunk.bytes);
            }
            heard
        };
        timeout(PATIENCE, calling).await.expect("it is shown out")
    }

    /// The same by TCP.
    pub(crate) async fn hears_by_tcp(&self, node: SocketAddr, said: &[u8]) -> Vec<u8> {
        let connector = tokio_rustls::TlsConnector::from(Arc::new(self.config.clone()));
        let calling = async {
            let stream = TcpStream::connect(node).await.unwrap();
            let name = ServerName::try_from("hivemind").unwrap();
            match connector.connect(name, stream).await {
                Ok(stream) => said_and_heard(stream, said).await,
                Err(_) => Vec::new(),
            }
        };
        timeout(PATIENCE, calling).await.expect("it is shown out")
    }
}

async fn said_and_heard(mut stream: impl AsyncRead + AsyncWrite + Unpin, said: &[u8]) -> Vec<u8> {
    let _ = stream.write_all(said).await;
    let _ = stream.flush().await;
    let (mut heard, mut chunk) = (Vec::new(), [0; 1024]);
    while let Ok(length @ 1..) = stream.read(&mut chunk).await {
        heard.extend_from_slice(&chunk[..length]);
    }
    heard
}

/// The first message of a connection, as a node would say it.
pub(crate) fn hello(cluster: &str, name: &str) -> Vec<u8> {
    hello_of_run(cluster, name, 1)
}

/// The same of a run, whose number is small.
pub(crate) fn hello_of_run(cluster: &str, name: &str, run: u8) -> Vec<u8> {
    let mut body = vec![1];
    for text in [cluster, name] {
        body.push(u8::try_from(text.len()).unwrap());
        body.extend_from_slice(text.as_bytes());
    }
    // At the address that it calls from, at port 9, and it renews nothing.
    body.extend_from_slice(&[run, 0, 9, 0]);
    let mut message = vec![0];
    message.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
    message.extend_from_slice(&body);
    message
}
