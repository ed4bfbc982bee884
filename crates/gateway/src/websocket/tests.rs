//! Frame parsing and forwarding, with tungstenite as client, server and reference parser.

mod closing;
mod handshake;
mod scan;
mod splice;
mod support;
