//! Real handshakes over loopback with generated certificates, by rustls, curl and openssl.

mod clients;
mod files;
mod redirect;
mod reload;
mod support;
