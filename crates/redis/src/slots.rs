//! A batch on several slots of a cluster, which no script can reach at once.
//!
//! Two steps. First each slot takes what fits of its charges, whatever the others say,
//! and tells what it found. From all of it follows whether the batch commits. If it
//! does, everything is recorded already. If not, what was taken is given back: to the
//! same window only, and to a bucket only if it cannot have been full since. So nothing is ever admitted that does not fit; between the steps,
//! and where the second is lost with its node or an answer of the first comes too late, a little is refused that would have fit.

use crate::script::{Answer, Call, Request, Taken};
use crate::store::Shared;
use crate::wait::Wait;
use crate::{Prefix, script};
use hivemind_core::algorithm::{Action, step};
use hivemind_core::store::{
    Charge, Context, Counters, OnRefusal, Op, StoreError, Verdict, Verdicts, commits, settle_on,
};
use smallvec::SmallVec;
use std::sync::Arc;
use tokio::task::JoinHandle;

type Group<'b, 'c> = (u16, SmallVec<[(usize, &'b Charge<'c>); 2]>);

/// Whether the charges of a batch are on more than one slot.
pub(crate) fn spans(prefix: &Prefix, batch: &[Charge<'_>]) -> bool {
    let mut tags = batch.iter().map(|charge| charge.key);
    let first = tags.next();
    // One counter alone, as in most batches, needs no look at its name.
    if tags.all(|key| Some(key) == first) {
        return false;
    }
    let mut slots = batch.iter().map(|charge| slot(script::name(prefix, charge).as_str()));
    let first = slots.next();
    slots.any(|slot| Some(slot) != first)
}

pub(crate) async fn decide(
    shared: &Arc<Shared>,
    batch: &[Charge<'_>],
    context: Context,
    wait: &Wait,
) -> Result<Verdicts, StoreError> {
    let groups = grouped(&shared.options.prefix, batch);
    let mut answers: SmallVec<[Answer; 2]> = SmallVec::new();
    let mut taken = TakenSoFar { shared: Arc::clone(shared), undoing: Vec::new() };
    for (_, charges) in &groups {
        let mut call = Call::new(shared.manner(context, true));
        call.charge_all(&shared.options.prefix, charges.iter().map(|(_, charge)| *charge));
        match shared.call(&call, wait).await {
            Ok(answer) => {
                taken.undoing.push(undoing(shared, charges, &answer, context));
                answers.push(answer);
            }
            Err(error) => {
                taken.give_back(wait).await;
                return Err(error);
            }
        }
    }
    // Tried as if all of it were one batch, each slot at its own moment.
    let tried = in_order(batch.len(), groups.iter().zip(&answers), context, true);
    let committed = commits(batch, &tried);
    if committed {
        taken.undoing.clear();
        return Ok(Verdicts::new(true, tried));
    }
    let left = in_order(batch.len(), groups.iter().zip(&answers), context, false);
    taken.give_back(wait).await;
    shared.counts.given_back.one();
    Ok(Verdicts::new(false, left))
}

/// The verdicts on all charges, in the order of the batch.
fn in_order<'g, 'b: 'g, 'c: 'b>(
    count: usize,
    answered: impl Iterator<Item = (&'g Group<'b, 'c>, &'g Answer)>,
    context: Context,
    committed: bool,
) -> Vec<Verdict> {
    let mut verdicts: Vec<(usize, Verdict)> = Vec::with_capacity(count);
    for ((_, charges), answer) in answered {
        let part: SmallVec<[Charge<'_>; 2]> = charges.iter().map(|(_, charge)| **charge).collect();
        let told = settle_on(&part, answer.context(context), &mut answer.found(), committed);
        verdicts.extend(charges.iter().map(|(index, _)| *index).zip(told.each().iter().copied()));
    }
    verdicts.sort_by_key(|(index, _)| *index);
    verdicts.into_iter().map(|(_, verdict)| verdict).collect()
}

/// What the first step has taken on each slot that answered. It is given back however the request ends, also
/// where its caller goes away between the steps, unless the batch commits.
struct TakenSoFar {
    shared: Arc<Shared>,
    undoing: Vec<Call>,
}

impl TakenSoFar {
    /// The request waits for it no longer than for an answer, but it is done in any case.
    async fn give_back(mut self, wait: &Wait) {
        let Some(given) = self.start() else { return };
        let timed = {
            let runtime = self.shared.lines.runtime();
            let _on = runtime.enter();
            tokio::time::timeout(wait.left(), given)
        };
        let _ = timed.await;
    }

    fn start(&mut self) -> Option<JoinHandle<()>> {
        let mut calls = std::mem::take(&mut self.undoing);
        calls.retain(|call| !call.is_empty());
        if calls.is_empty() {
            return None;
        }
        let by = Arc::clone(&self.shared);
        Some(self.shared.lines.runtime().spawn(async move {
            for call in calls {
                // What cannot be given back stays taken until its window ends: never too much is admitted.
                let _ = by.call(&call, &Wait::new(by.options.timeout)).await;
            }
        }))
    }
}

impl Drop for TakenSoFar {
    fn drop(&mut self) {
        drop(self.start());
    }
}

/// What the second step asks of one slot.
fn undoing(shared: &Shared, charges: &[(usize, &Charge<'_>)], answer: &Answer, context: Context) -> Call {
    let at = answer.context(context);
    let mut call = Call::new(shared.manner(context, true));
    let mut found = answer.found();
    for (_, charge) in charges {
        let action = match charge.op {
            Op::Spend => Action::Spend { count_refusal: context.on_refusal != OnRefusal::CountNone },
            Op::Peek => continue,
            Op::Refund => Action::Refund,
            Op::Debit => Action::Debit,
        };
        let tried = step(charge.limit, found.read(charge), action, charge.cost, at.now);
        found.write(charge, &tried);
        let is_window = !matches!(charge.limit, hivemind_core::Limit::TokenBucket(_));
        let stays_counted = is_window && context.on_refusal == OnRefusal::CountAll;
        if charge.op == Op::Spend && tried.verdict.is_admitted() && !stays_counted {
            let taken = Taken::leaving(charge.limit, tried.state);
            call.push(&shared.options.prefix, charge, Request::Undo(taken));
        }
    }
    call
}

fn grouped<'b, 'c>(prefix: &Prefix, batch: &'b [Charge<'c>]) -> Vec<Group<'b, 'c>> {
    let mut groups: Vec<Group<'b, 'c>> = Vec::new();
    for (index, charge) in batch.iter().enumerate() {
        let slot = slot(script::name(prefix, charge).as_str());
        match groups.iter_mut().find(|(of, _)| *of == slot) {
            Some((_, charges)) => charges.push((index, charge)),
            None => groups.push((slot, SmallVec::from_iter([(index, charge)]))),
        }
    }
    groups
}

/// The slot of a name: of what its first braces hold, as the cluster reckons it.
fn slot(name: &str) -> u16 {
    let tag = name.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(tag, _)| tag);
    let hashed = tag.filter(|tag| !tag.is_empty()).unwrap_or(name);
    let crc =
        hashed.bytes().fold(0_u16, |crc, byte| {
            (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
                if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
            })
        });
    crc % 16_384
}

#[cfg(test)]
mod tests {
    use super::slot;

    #[test]
    fn key_slot_equals_redis_cluster_slot() {
        // As `redis-cli cluster keyslot` tells them.
        assert_eq!(slot("123456789"), 0x31c3);
        assert_eq!(slot("foo"), 12_182);
        assert_eq!(slot("any:{foo}:thing"), 12_182);
        assert_eq!(slot("{}foo"), slot("{}foo"));
    }
}
