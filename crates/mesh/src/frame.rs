//! What peers say to each other. A frame begins with who speaks and when; then come items
//! in any number, up to its size. Items about counters are a handful of small numbers,
//! because all of them are totals within one window: a later one replaces an earlier one,
//! and one that is lost or comes twice does no harm.

use crate::chain::Root;
use crate::dictionary::Subject;
use crate::member::Generation;
use crate::motion::Votes;
use crate::shares::Shares;
use crate::view::{View, ViewId};
use hivemind_core::Timestamp;
use hivemind_core::algorithm::Action;
use hivemind_core::store::Verdict;

/// The version of the protocol; a frame of another one is not read.
pub const VERSION: u8 = 1;
/// The longest frame that is read or written.
pub const LONGEST_FRAME: usize = 60_000;
/// What a frame may hold of items before it is sent and another one begun.
pub const FRAME_BUDGET: usize = 16_000;
/// The most buckets of which one item tells what they held.
pub const MOST_LEVELS: usize = 512;

/// The longest name of a node.
pub const LONGEST_NAME: usize = 128;

/// Who speaks, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub generation: Generation,
    /// The speaker's mesh clock.
    pub time: Timestamp,
    /// How far that is ahead of its own clock, in microseconds.
    pub slew_us: i64,
    /// Its newest view.
    pub head: Option<ViewId>,
    pub leaving: bool,
    /// By which rules the speaker goes.
    pub rules: u32,
    /// The number of the dictionary that it was written with.
    pub dictionary: u64,
    /// How much of the listener's dictionary the speaker has, and of which.
    pub known: u32,
    pub known_of: u64,
    /// The run of the listener whose dictionary that is.
    pub to: Generation,
    /// The newest of that run's frames that the speaker has heard; nothing if it has none.
    pub echo: Option<Echo>,
}

/// A frame that was heard, as it is told to who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// What its sender's mesh clock showed in it, in microseconds.
    pub time_us: u64,
    /// How long ago it came.
    pub held_us: u64,
}

/// Which page of which counter: equal ones meet, others are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub subject: Subject,
    pub view: ViewId,
    /// The number of the window; 0 for buckets.
    pub tag: u64,
}

/// What a member tells the owner of a counter, in totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// For buckets, whose pages have no end: which of the accounts that this member had these totals are of.
    pub serial: u64,
    /// Which purse this is, where it has no account yet and may be followed by another on the same page.
    pub birth: u64,
    pub spent: u64,
    pub returned: u64,
    /// How much of what was granted has arrived.
    pub granted_seen: u64,
    /// Hits that were refused, for those who count them.
    pub refused: u64,
    /// What was spent there and given back there, so that it can be spent again there.
    pub refunded: u64,
    /// Refunds and debits that are for the owner to do.
    pub given: u64,
    pub owed: u64,
    /// Whether its limit is `eventual` there: all that spend of it want to hear what the others spent.
    pub eventual: bool,
}

impl Report {
    /// The sum of all that the owner must not miss: totals only grow, so what was heard of all of it has its sum.
    #[must_use]
    pub fn settling(&self) -> u64 {
        let totals = [self.returned, self.refunded, self.given, self.owed, self.refused];
        totals.iter().fold(0, |sum: u64, total| sum.saturating_add(*total))
    }
}

/// What the owner of a counter tells a member, in totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// For buckets: which account these totals are of.
    pub serial: u64,
    pub granted: u64,
    /// How much has arrived of what was returned, given back, owed and refused, in one sum.
    pub settled_seen: u64,
    /// What the owner could still grant; below zero after debits.
    pub left: i64,
    /// What members have spent, this one aside: all that `eventual` needs.
    pub others: u64,
    /// The owner has nothing left and others ask: return what you hold.
    pub recall: bool,
    /// How often members were to reckon anew: the counter was reset, or something was given back.
    pub resets: u64,
}

/// What an ask wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Rights: `need` for what waits, and `ahead` more if there is plenty.
    Lend { need: u64, ahead: u64 },
    /// The charge itself, decided by the owner.
    Do { action: Action, cost: u64 },
    /// What a refund or debit that the report brought comes to.
    Tell { action: Action, cost: u64 },
    /// The state of the counter.
    Look,
    /// What all may still spend of it, and who holds how much of that: an operator looks.
    Survey,
    /// What an earlier ask of this number had spent: its batch was refused after all.
    Undo { of: u64 },
    /// The counter's end: an operator reset it, or a connection was closed.
    Forget,
}

/// What came of an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Rights were granted; the word says how many.
    Lent,
    /// There are none for now.
    Exhausted,
    /// This is what the owner decided.
    Done(Verdict),
    /// The counter's state, as two words; nothing if it was never seen.
    Seen(Option<(u64, u64)>),
    /// What all may still spend, and who holds how much of it. Only who asked for that can read it.
    Surveyed(Verdict, Shares),
    /// Not mine, or not in this view.
    Elsewhere,
}

/// What a bucket's last owner tells its next one, a part at a time: the buckets that were not full, in an order of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels {
    /// The view with which they changed hands.
    pub view: ViewId,
    /// Since when all that it does not name is accounted for.
    pub since: Timestamp,
    /// How many there are in all, and how many were told before these.
    pub count: u32,
    pub first: u32,
    /// What each held.
    pub each: Vec<(Subject, u32)>,
}

/// One thing that is said.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Chain {
        root: Root,
        views: Vec<View>,
    },
    /// A proposed view, and what the speaker itself says to it.
    Motion {
        view: View,
        votes: Votes,
    },
    /// The same, to who has the proposal already.
    Vote {
        view: ViewId,
        votes: Votes,
    },
    Report(Place, Report),
    Word(Place, Word),
    Ask {
        id: u64,
        place: Place,
        report: Report,
        want: Want,
    },
    Answer {
        id: u64,
        place: Place,
        word: Word,
        reply: Reply,
    },
    Levels(Levels),
    /// So many of them have come.
    Taken {
        view: ViewId,
        taken: u32,
    },
}
