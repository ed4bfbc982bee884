//! What a member believes of a bucket's owner: grants as one bucket could have earned them, and no more. A window
//! ends, and what a node admits in it is capped; a bucket goes on, and an owner that lends without end would make its
//! members admit without end.

use hivemind_core::algorithm::{Action, State, step};
use hivemind_core::{Cost, Limit, Timestamp};

/// One whole bucket, out of which an owner's grants are taken.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Guard {
    state: Option<State>,
    /// What the purse had returned and given back when it was last looked at.
    back: u64,
}

impl Guard {
    /// How much of a grant is believed now. The rest is, when as much has been earned: totals are told again.
    pub(crate) fn believe(&mut self, limit: &Limit, grant: u64, back: u64, now: Timestamp) -> u64 {
        let more = back.saturating_sub(self.back);
        self.back = back;
        let refunded = step(limit, self.state, Action::Refund, Cost::new(more), now);
        let believed = grant.min(refunded.verdict.remaining);
        let spend = Action::Spend { count_refusal: false };
        self.state = Some(step(limit, Some(refunded.state), spend, Cost::new(believed), now).state);
        believed
    }

    /// Another purse begins: what it returns is counted from nothing.
    pub(crate) fn begin_anew(&mut self) {
        self.back = 0;
    }
}
