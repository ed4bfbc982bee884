//! Grant guard: a member accepts grants of a bucket only as far as one bucket can have earned them. A window
//! ends, and its admissions are capped; a bucket goes on, and an owner that grants without end would make its
//! members admit without end.

use hivemind_core::algorithm::{Action, State, step};
use hivemind_core::{Cost, Limit, Timestamp};

/// One whole bucket from which an owner's grants are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct GrantGuard {
    state: Option<State>,
    /// What the lease had returned and refunded at the last check.
    back: u64,
}

impl GrantGuard {
    /// How much of a grant is accepted now. The rest is accepted once it can have been earned: totals are sent
    /// repeatedly.
    pub(crate) fn accept(&mut self, limit: &Limit, grant: u64, back: u64, now: Timestamp) -> u64 {
        let more = back.saturating_sub(self.back);
        self.back = back;
        let refunded = step(limit, self.state, Action::Refund, Cost::new(more), now);
        let accepted = grant.min(refunded.verdict.remaining);
        let spend = Action::Spend { count_refusal: false };
        self.state = Some(step(limit, Some(refunded.state), spend, Cost::new(accepted), now).state);
        accepted
    }

    /// A new lease begins; its returns are counted from zero.
    pub(crate) fn reset(&mut self) {
        self.back = 0;
    }
}
