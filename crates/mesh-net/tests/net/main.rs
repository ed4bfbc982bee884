//! Real sockets on loopback: nodes that find each other and share a limit, strangers that do not get in, and what
//! becomes of connections.

#![cfg(test)]

mod authority;
mod clocks;
mod coming_and_going;
mod datagrams;
mod discovery;
mod floods;
mod names;
mod nodes;
mod reconnection;
mod rotation;
mod stranger;
mod strangers;
mod ways;
