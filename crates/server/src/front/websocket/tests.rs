//! Frames that are scanned, and connections that are spliced: tungstenite is the client, the
//! server, and the one to agree with about where frames begin.

mod closing;
mod handshake;
mod scan;
mod splice;
mod support;
