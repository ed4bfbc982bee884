//! Operator actions on counters, whichever nodes own them: an operator gets the owners' answers, or that there
//! are none.

use super::{Carrier, MeshStore, OperationOutcome, PendingAnswer};
use crate::node::{Inspection, NodeDecision, Reset};
use hivemind_core::store::{Charge, Context, StoreError, Verdicts};
use std::time::Duration;

/// How long the owner of a counter is asked to reset it.
const RESET_WITHIN: Duration = Duration::from_secs(3);

impl<C: Carrier> MeshStore<C> {
    /// Inspects counters as their owners have them, each by itself: what all nodes may still admit, and how
    /// much each holds. It spends nothing. An owner without a reply is asked again until the deadline.
    ///
    /// ```
    /// # use hivemind_core::store::{Charge, Context, StoreError};
    /// # use hivemind_mesh::{Carrier, MeshStore};
    /// /// What is left of one counter, at all nodes together.
    /// async fn left<C: Carrier>(
    ///     store: &MeshStore<C>,
    ///     charge: Charge<'_>,
    ///     context: Context,
    /// ) -> Result<Option<u64>, StoreError> {
    ///     let inspections = store.look(&[charge], context).await?;
    ///     Ok(inspections.first().map(|inspection| inspection.verdict.remaining))
    /// }
    /// ```
    ///
    /// # Errors
    /// If an owner cannot be asked, or has not replied.
    pub async fn look(&self, batch: &[Charge<'_>], context: Context) -> Result<Vec<Inspection>, StoreError> {
        let mut each = Vec::with_capacity(batch.len());
        for charge in batch {
            each.push(self.look_at_one(charge, context).await?);
        }
        Ok(each)
    }

    async fn look_at_one(&self, charge: &Charge<'_>, context: Context) -> Result<Inspection, StoreError> {
        let mut now = context.now;
        loop {
            let looked = {
                let mut state = self.lock();
                let looked = state.node.look(charge, Context { now, ..context });
                if let Some(NodeDecision::Later(ticket)) = &looked {
                    state.open.insert(*ticket, PendingAnswer::default());
                }
                self.carry_out(state);
                looked.ok_or_else(no_owner)?
            };
            let ticket = match looked {
                NodeDecision::Now(inspection) => return Ok(inspection),
                NodeDecision::Later(ticket) => ticket,
            };
            if let OperationOutcome::Looked(inspection) = self.answer(ticket).await {
                return Ok(inspection);
            }
            now = self.lock().latest.max(now);
            if context.deadline.is_none_or(|deadline| deadline <= now) {
                return Err(unanswered());
            }
        }
    }

    /// Refunds counters as their owners have them, each by itself. A missing reply is an error, though the
    /// refund may be applied all the same: it is sent until it is acknowledged.
    ///
    /// ```
    /// # use hivemind_core::store::{Charge, Context, Op, StoreError};
    /// # use hivemind_mesh::{Carrier, MeshStore};
    /// async fn give_back<C: Carrier>(
    ///     store: &MeshStore<C>,
    ///     charge: Charge<'_>,
    ///     context: Context,
    /// ) -> Result<bool, StoreError> {
    ///     Ok(store.operate(&[Charge { op: Op::Refund, ..charge }], context).await?.committed)
    /// }
    /// ```
    ///
    /// # Errors
    /// If an owner cannot be asked, or has not replied.
    pub async fn operate(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        let (mut committed, mut each) = (true, Vec::with_capacity(batch.len()));
        for charge in batch {
            let verdicts = self.operate_one(charge, context).await?;
            committed &= verdicts.committed;
            each.extend(verdicts.each().iter().copied());
        }
        Ok(Verdicts::new(committed, each))
    }

    async fn operate_one(&self, charge: &Charge<'_>, context: Context) -> Result<Verdicts, StoreError> {
        let decided = {
            let mut state = self.lock();
            let decided = state.node.operate(charge, context);
            if let Some(NodeDecision::Later(ticket)) = &decided {
                state.open.insert(*ticket, PendingAnswer::default());
            }
            self.carry_out(state);
            decided.ok_or_else(no_owner)?
        };
        let ticket = match decided {
            NodeDecision::Now(verdicts) => return Ok(verdicts),
            NodeDecision::Later(ticket) => ticket,
        };
        match self.answer(ticket).await {
            OperationOutcome::Decided(verdicts) => Ok(verdicts),
            _ => Err(unanswered()),
        }
    }

    /// Resets a counter at its owner.
    pub(super) async fn reset(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        let reset = {
            let mut state = self.lock();
            let now = state.latest;
            let reset = state.node.reset(charge.key, charge.limit, RESET_WITHIN, now);
            if let Reset::Later(ticket) = &reset {
                state.open.insert(*ticket, PendingAnswer::default());
            }
            self.carry_out(state);
            reset
        };
        match reset {
            Reset::Done => Ok(()),
            Reset::NoOwner => Err(no_owner()),
            Reset::Later(ticket) => match self.answer(ticket).await {
                OperationOutcome::Reset => Ok(()),
                _ => Err(unanswered()),
            },
        }
    }
}

fn no_owner() -> StoreError {
    StoreError::Unreachable {
        reason: "no owner of this counter is reachable: its peers are silent, or members changed more than 256 times \
                 since its window began; check `/api/v1/peers`"
            .to_owned(),
    }
}

fn unanswered() -> StoreError {
    StoreError::Unreachable { reason: "the owner of this counter did not reply".to_owned() }
}
