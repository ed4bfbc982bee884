//! Nodes with real sockets on loopback: discovery, shared limits, rejected strangers, and reconnection.

#![cfg(test)]

mod authentication;
mod authority;
mod clocks;
mod discovery;
mod floods;
mod lifecycle;
mod name_server;
mod nodes;
mod reconnection;
mod rotation;
mod tcp_proxy;
mod transport_fallback;
mod untrusted_client;
