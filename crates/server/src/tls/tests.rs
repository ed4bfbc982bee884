//! Real handshakes over loopback, with certificates made on the spot.
