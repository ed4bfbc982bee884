//! A decision that the shared store did not make, made here: each limit by its own
//! policy, and all of them in one step, as the shared store would have made it.
//!
//! A limit that lets everything pass or nothing is a limit like any other, so the memory
//! store decides the whole batch: what combines, and what a refused batch leaves behind,
//! is written once, in the core.

use super::OnError;
use hivemind_core::store::{
    Charge, Context, Key, LocalStore, MemoryStore, Mode, OnRefusal, Op, Outcome, Verdict, Verdicts,
};
use hivemind_core::{Cost, Limit, Period};
use smallvec::SmallVec;
use std::time::Duration;

static EVERYTHING: Limit = Limit::fixed_window(u32::MAX, Period::SECOND);
static NOTHING: Limit = Limit::fixed_window(0, Period::SECOND);
/// Only ever looked at, so nothing is recorded under it.
const NOBODY: Key = Key::from_bits(0, 0);
/// When to come again: by then the shared store may have been tried anew.
const SOON: Duration = Duration::from_secs(1);

/// Decides a batch of which each charge has its policy.
pub(super) fn decide(
    memory: &MemoryStore,
    batch: &[Charge<'_>],
    policies: &[OnError],
    context: Context,
) -> Verdicts {
    if policies.iter().all(|policy| *policy == OnError::Local) {
        return memory.decide_now(batch, context);
    }
    let charged = batch.iter().zip(policies);
    let stand_ins: SmallVec<[Charge<'_>; 2]> =
        charged.clone().map(|(charge, policy)| stand_in(charge, *policy)).collect();
    // Whom an outage refuses has not gone over any limit. Who only watches turns nobody away.
    let is_turned_away =
        charged.clone().any(|(charge, policy)| charge.mode != Mode::Shadow && refuses(charge, *policy));
    let on_refusal = if is_turned_away { OnRefusal::CountNone } else { context.on_refusal };
    let decided = memory.decide_now(&stand_ins, Context { on_refusal, ..context });
    let told = charged.zip(decided.each()).map(|((charge, policy), verdict)| match policy {
        OnError::Local => *verdict,
        OnError::Closed if refuses(charge, *policy) => refused(),
        OnError::Open | OnError::Closed => passed(charge),
    });
    Verdicts::new(decided.committed, told)
}

/// Whether a policy turns the charge away. What is given back or taken in any case never is.
fn refuses(charge: &Charge<'_>, policy: OnError) -> bool {
    policy == OnError::Closed && matches!(charge.op, Op::Spend | Op::Peek)
}

fn stand_in<'a>(charge: &Charge<'a>, policy: OnError) -> Charge<'a> {
    let looked_at = Charge { key: NOBODY, op: Op::Peek, ..*charge };
    match policy {
        OnError::Local => *charge,
        OnError::Closed if refuses(charge, policy) => {
            Charge { limit: &NOTHING, cost: Cost::ONE, ..looked_at }
        }
        OnError::Open | OnError::Closed => Charge { limit: &EVERYTHING, cost: Cost::ZERO, ..looked_at },
    }
}

/// Nothing was counted, so everything is left. That is told, and never granted: every node would grant it.
fn passed(charge: &Charge<'_>) -> Verdict {
    let all = u64::from(charge.limit.burst());
    Verdict { outcome: Outcome::Admitted, available: all, remaining: all, reset_after: Duration::ZERO }
}

fn refused() -> Verdict {
    let outcome = Outcome::Refused { retry_after: Some(SOON) };
    Verdict { outcome, available: 0, remaining: 0, reset_after: SOON }
}
