//! Fallback decision while the shared store is unavailable: each limit by its own `on_error`
//! policy, all limits of a request in one step, as in the shared store.
//!
//! Policies map to limits that admit everything or nothing, so the memory store decides the whole
//! batch. How verdicts combine and what a refused batch records is implemented only in the core.

use super::OnError;
use hivemind_core::store::{
    Charge, Context, Key, LocalStore, MemoryStore, Mode, OnRefusal, Op, Outcome, Verdict, Verdicts,
};
use hivemind_core::{Cost, Limit, Period};
use smallvec::SmallVec;
use std::time::Duration;

static EVERYTHING: Limit = Limit::fixed_window(u32::MAX, Period::SECOND);
static NOTHING: Limit = Limit::fixed_window(0, Period::SECOND);
/// The key of stand-ins. It is only peeked at, so it never has a counter.
const STAND_IN: Key = Key::from_bits(0, 0);
/// `Retry-After` of refused requests: by then the shared store may have reconnected.
const SOON: Duration = Duration::from_secs(1);

/// Decides a batch, each charge by the policy of the same index.
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
    // A request refused because of an outage exceeded no limit, so windows must not count it. Shadow limits refuse
    // nothing.
    let is_turned_away =
        charged.clone().any(|(charge, policy)| charge.mode != Mode::Shadow && refuses(charge, *policy));
    let on_refusal = if is_turned_away { OnRefusal::CountNone } else { context.on_refusal };
    let decided = memory.decide_now(&stand_ins, Context { on_refusal, ..context });
    let each = charged.zip(decided.each()).map(|((charge, policy), verdict)| match policy {
        OnError::Local => *verdict,
        OnError::Closed if refuses(charge, *policy) => refused(),
        OnError::Open | OnError::Closed => passed(charge),
    });
    Verdicts::new(decided.committed, each)
}

/// Whether a policy refuses the charge. Refunds and debits are never refused.
fn refuses(charge: &Charge<'_>, policy: OnError) -> bool {
    policy == OnError::Closed && matches!(charge.op, Op::Spend | Op::Peek)
}

fn stand_in<'a>(charge: &Charge<'a>, policy: OnError) -> Charge<'a> {
    let peek = Charge { key: STAND_IN, op: Op::Peek, ..*charge };
    match policy {
        OnError::Local => *charge,
        OnError::Closed if refuses(charge, policy) => Charge { limit: &NOTHING, cost: Cost::ONE, ..peek },
        OnError::Open | OnError::Closed => Charge { limit: &EVERYTHING, cost: Cost::ZERO, ..peek },
    }
}

/// Nothing was counted, so the whole limit remains. It is reported, but never granted as a quota: each node would
/// grant it.
fn passed(charge: &Charge<'_>) -> Verdict {
    let all = u64::from(charge.limit.burst());
    Verdict { outcome: Outcome::Admitted, available: all, remaining: all, reset_after: Duration::ZERO }
}

fn refused() -> Verdict {
    let outcome = Outcome::Refused { retry_after: Some(SOON) };
    Verdict { outcome, available: 0, remaining: 0, reset_after: SOON }
}
