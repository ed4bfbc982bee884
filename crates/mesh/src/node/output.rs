//! What comes out of a node: decisions, and what it wants done.

use super::Sight;
use crate::owner::NodeId;
use hivemind_core::store::Verdicts;

/// A decision that waits for the owner of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);

/// What became of a request, or of a look.
#[derive(Clone, Debug, PartialEq)]
pub enum Decided<T = Verdicts> {
    /// It is decided.
    Now(T),
    /// It will be among the outputs under this number, at the latest at the end of its time.
    Later(Ticket),
}

/// Which way a frame is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// Somebody waits for it.
    Ask,
    /// It has time.
    Sync,
}

/// What a node wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// A frame for a peer.
    Send {
        /// Whom it is for.
        to: NodeId,
        /// Which way.
        lane: Lane,
        /// The frame.
        frame: Vec<u8>,
    },
    /// A decision that was waited for.
    Decided(Ticket, Verdicts),
    /// What an operator looked at, as its owner has it.
    Looked(Ticket, Sight),
    /// A counter was reset by its owner.
    Reset(Ticket),
    /// The owner has not answered an operator in time, so there is nothing to tell.
    GivenUp(Ticket),
}
