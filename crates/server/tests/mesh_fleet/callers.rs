//! Callers at a mesh port that are not peers: over QUIC and TCP, with any certificate.

use crate::authority::{Authority, Term};
use hivemind_testkit::within;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The ALPN protocol of the mesh.
const PROTOCOL: &[u8] = b"hivemind-mesh/1";

/// The certificate that a caller presents.
pub(crate) enum ClientCertificate<'a> {
    Nothing,
    /// A certificate for this name.
    Certificate(&'a Authority, &'a str, Term),
}

/// The TLS configuration of a caller that knows the CA certificate of the mesh, which is public.
pub(crate) fn client_config(mesh: &Authority, certificate: &ClientCertificate<'_>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(mesh.certificate().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]);
    let builder = builder.unwrap().with_root_certificates(roots);
    let mut config = match certificate {
        ClientCertificate::Nothing => builder.with_no_client_auth(),
        ClientCertificate::Certificate(authority, name, term) => {
            let (certificate, key) = authority.issue(name, *term);
            let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    };
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config
}

/// Connects over TCP, sends bytes, and returns everything that it received.
pub(crate) async fn over_tcp(config: ClientConfig, node: SocketAddr, name: &str) -> Vec<u8> {
    let stream = within("a connection", TcpStream::connect(node)).await.unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut received = Vec::new();
    if let Ok(mut stream) =
        within("a handshake", TlsConnector::from(Arc::new(config)).connect(name, stream)).await
    {
        let _ = stream.write_all(&[1; 64]).await;
        let _ = within("its end", stream.read_to_end(&mut received)).await;
    }
    received
}

/// The endpoint of a caller over QUIC.
pub(crate) fn endpoint(config: ClientConfig) -> quinn::Endpoint {
    let mut endpoint = quinn::Endpoint::client((std::net::Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(config).unwrap();
    endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto)));
    endpoint
}

/// Connects over QUIC, sends bytes on a stream, and returns everything that it received.
pub(crate) async fn over_quic(config: ClientConfig, node: SocketAddr, name: &str) -> Vec<u8> {
    let endpoint = endpoint(config);
    let connecting = endpoint.connect(node, name).unwrap();
    let Ok(connection) = within("a handshake", connecting).await else { return Vec::new() };
    let received = async {
        let (mut send, mut receive) = connection.open_bi().await.ok()?;
        send.write_all(&[1; 64]).await.ok()?;
        receive.read_to_end(1 << 20).await.ok()
    };
    within("its end", received).await.unwrap_or_default()
}
