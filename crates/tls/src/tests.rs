//! Real handshakes over loopback, with certificates made on the spot; by rustls, curl and openssl.

mod clients;
mod files;
mod redirect;
mod reload;
mod support;
