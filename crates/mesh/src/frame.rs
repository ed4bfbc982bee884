//! Frames and messages between peers. A frame begins with a header (sender, time); any number of messages
//! follow, up to its size. Messages about counters are a handful of small numbers, because all of them are
//! totals within one window: a later one replaces an earlier one, and loss or repetition does no harm.

pub mod codec;
pub(crate) mod holdings;
pub mod interner;
pub(crate) mod replay_window;
pub mod wire;

use crate::frame::holdings::Shares;
use crate::frame::interner::CounterRef;
use crate::view::Generation;
use crate::view::proposal::Votes;
use crate::view::view_log::Root;
use crate::view::{View, ViewId};
use hivemind_core::Timestamp;
use hivemind_core::algorithm::Action;
use hivemind_core::store::Verdict;

/// The protocol version; frames of other versions are rejected.
pub const VERSION: u8 = 1;
/// The longest frame that is read or written.
pub const LONGEST_FRAME: usize = 60_000;
/// The size of messages at which a frame is sent and the next one begins.
pub const FRAME_BUDGET: usize = 16_000;
/// The most bucket levels in one message.
pub const MOST_LEVELS: usize = 512;

/// Sender, time and acknowledgements of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub generation: Generation,
    /// The sender's mesh clock.
    pub time: Timestamp,
    /// How far that is ahead of the sender's own clock, in microseconds.
    pub slew_us: i64,
    /// Its newest view.
    pub head: Option<ViewId>,
    pub leaving: bool,
    /// The fingerprint of the sender's rules.
    pub rules: u32,
    /// The number of the interner that the frame was written with.
    pub interner: u64,
    /// How many entries of the receiver's interner the sender has, and of which one.
    pub known: u32,
    pub known_of: u64,
    /// The receiver's generation which that interner belongs to.
    pub to: Generation,
    /// The newest frame of that generation that the sender received; none if it received none.
    pub echo: Option<Echo>,
}

/// The acknowledgement of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// What its sender's mesh clock showed in it, in microseconds.
    pub time_us: u64,
    /// How long ago it was received.
    pub held_us: u64,
}

/// A counter's window in a view; messages for other windows or views are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowRef {
    pub counter: CounterRef,
    pub view: ViewId,
    /// The number of the window; 0 for buckets.
    pub tag: u64,
}

/// Totals that a member sends to the owner of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberReport {
    /// For buckets, whose windows have no end: which of this member's accounts these totals belong to.
    pub serial: u64,
    /// Identifies the lease while it has no account yet and may be followed by another one in the same window.
    pub birth: u64,
    pub spent: u64,
    pub returned: u64,
    /// How much of the granted allowance has arrived.
    pub granted_seen: u64,
    /// Refused hits, for limits that count them.
    pub refused: u64,
    /// What was spent and refunded there, so that it can be spent again there.
    pub refunded: u64,
    /// Refunds and debits that the owner applies.
    pub given: u64,
    pub owed: u64,
    /// Whether its limit is `eventual` there: all members that spend it need the others' totals.
    pub eventual: bool,
}

impl MemberReport {
    /// The sum of all totals that the owner must not miss. They only grow, so an equal sum means that all
    /// arrived.
    #[must_use]
    pub fn settling(&self) -> u64 {
        let totals = [self.returned, self.refunded, self.given, self.owed, self.refused];
        totals.iter().fold(0, |sum: u64, total| sum.saturating_add(*total))
    }
}

/// Totals that the owner of a counter sends to a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerUpdate {
    /// For buckets: which account these totals belong to.
    pub serial: u64,
    pub granted: u64,
    /// The sum of the returned, refunded, owed and refused totals that have arrived.
    pub settled_seen: u64,
    /// What the owner could still grant; below zero after debits.
    pub left: i64,
    /// What the other members have spent: all that `eventual` needs.
    pub others: u64,
    /// The owner has nothing left and others need it: return unspent allowance.
    pub recall: bool,
    /// How often members had to restart their spent totals: the counter was reset, or something was refunded.
    pub resets: u64,
}

/// A request to the owner of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Allowance: `need` for waiting requests, and `ahead` more if there is plenty.
    Grant { need: u64, ahead: u64 },
    /// The charge itself, decided by the owner.
    Do { action: Action, cost: u64 },
    /// The verdict of a refund or debit that the member's update carried.
    Outcome { action: Action, cost: u64 },
    /// The state of the counter.
    Look,
    /// What all nodes may still spend, and how much each holds: an operator's inspection.
    Inspect,
    /// Reverts what an earlier request with this number spent: its batch was refused after all.
    Undo { of: u64 },
    /// Resets the counter: an operator's reset, or a closed connection.
    Forget,
}

/// The owner's reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerReply {
    /// Allowance was granted; the update carries the total.
    Granted,
    /// No allowance is available for now.
    Exhausted,
    /// The owner's decision.
    Done(Verdict),
    /// The counter's state, as two numbers; none if it was never used.
    Seen(Option<(u64, u64)>),
    /// What all nodes may still spend, and how much each holds. Only versions that request it can read it.
    Inspected(Verdict, Shares),
    /// This node is not the owner, or not in this view.
    Elsewhere,
}

/// Bucket levels that the last owner of buckets sends to the next one, in chunks: all buckets that were not
/// full, in the sender's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketLevels {
    /// The view with which the owner changed.
    pub view: ViewId,
    /// The time since which the sender knows all buckets that are not listed.
    pub since: Timestamp,
    /// The number of buckets in all, and of those sent before these.
    pub count: u32,
    pub first: u32,
    /// The level of each.
    pub each: Vec<(CounterRef, u32)>,
}

/// One message of a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    ViewLog {
        root: Root,
        views: Vec<View>,
    },
    /// A proposed view and the sender's own votes on it.
    Proposal {
        view: View,
        votes: Votes,
    },
    /// The same, for a peer that already has the proposal.
    Vote {
        view: ViewId,
        votes: Votes,
    },
    Report(WindowRef, MemberReport),
    Update(WindowRef, OwnerUpdate),
    Ask {
        id: u64,
        window_ref: WindowRef,
        report: MemberReport,
        want: Want,
    },
    Answer {
        id: u64,
        window_ref: WindowRef,
        update: OwnerUpdate,
        reply: OwnerReply,
    },
    Levels(BucketLevels),
    /// This many levels were received.
    Taken {
        view: ViewId,
        taken: u32,
    },
}
