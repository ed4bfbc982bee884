//! Batches that span slots of a cluster: one script cannot reach keys of several slots.
//!
//! The decision has two steps. First, each slot reserves what fits of its charges, independently of the others,
//! and returns the states that it found. These show whether the batch commits. If it does, everything is
//! recorded already. If not, the reserved units are given back: only to the same window, and to a bucket only if
//! it cannot have been full since. So the limit is never exceeded. Between the steps, and if the second step is
//! lost or a response of the first is late, requests may be refused that would have fit.

use crate::client::RedisClient;
use crate::script::{CounterRequest, ScriptCall, ScriptResponse, UndoRecord};
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
    // Most batches have one counter: its name is not needed.
    if tags.all(|key| Some(key) == first) {
        return false;
    }
    let mut slots = batch.iter().map(|charge| slot(script::name(prefix, charge).as_str()));
    let first = slots.next();
    slots.any(|slot| Some(slot) != first)
}

pub(crate) async fn decide(
    client: &Arc<RedisClient>,
    batch: &[Charge<'_>],
    context: Context,
    wait: &Wait,
) -> Result<Verdicts, StoreError> {
    let groups = grouped(&client.options.prefix, batch);
    let mut responses: SmallVec<[ScriptResponse; 2]> = SmallVec::new();
    let mut reserved = Reservation { client: Arc::clone(client), undoing: Vec::new() };
    for (_, charges) in &groups {
        let mut call = ScriptCall::new(client.call_options(context, true));
        call.charge_all(&client.options.prefix, charges.iter().map(|(_, charge)| *charge));
        match client.call(&call, wait).await {
            Ok(response) => {
                reserved.undoing.push(undoing(client, charges, &response, context));
                responses.push(response);
            }
            Err(error) => {
                reserved.give_back(wait).await;
                return Err(error);
            }
        }
    }
    // The verdicts as if it were one batch, each slot at its own time.
    let tried = in_order(batch.len(), groups.iter().zip(&responses), context, true);
    let committed = commits(batch, &tried);
    if committed {
        reserved.undoing.clear();
        return Ok(Verdicts::new(true, tried));
    }
    let left = in_order(batch.len(), groups.iter().zip(&responses), context, false);
    reserved.give_back(wait).await;
    client.counts.given_back.one();
    Ok(Verdicts::new(false, left))
}

/// The verdicts on all charges, in the order of the batch.
fn in_order<'g, 'b: 'g, 'c: 'b>(
    count: usize,
    responses: impl Iterator<Item = (&'g Group<'b, 'c>, &'g ScriptResponse)>,
    context: Context,
    committed: bool,
) -> Vec<Verdict> {
    let mut verdicts: Vec<(usize, Verdict)> = Vec::with_capacity(count);
    for ((_, charges), response) in responses {
        let part: SmallVec<[Charge<'_>; 2]> = charges.iter().map(|(_, charge)| **charge).collect();
        let settled = settle_on(&part, response.context(context), &mut response.counters(), committed);
        verdicts.extend(charges.iter().map(|(index, _)| *index).zip(settled.each().iter().copied()));
    }
    verdicts.sort_by_key(|(index, _)| *index);
    verdicts.into_iter().map(|(_, verdict)| verdict).collect()
}

/// The units that the first step reserved. Unless the batch commits, they are given back however the request
/// ends, even if its caller drops it between the steps.
struct Reservation {
    client: Arc<RedisClient>,
    undoing: Vec<ScriptCall>,
}

impl Reservation {
    /// Gives the units back in the background. The request waits for this only within its time limit.
    async fn give_back(mut self, wait: &Wait) {
        let Some(given) = self.start() else { return };
        let timed = {
            let runtime = self.client.connections.runtime();
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
        let client = Arc::clone(&self.client);
        Some(self.client.connections.runtime().spawn(async move {
            for call in calls {
                // Units that cannot be given back stay counted until their window ends: the limit is never exceeded.
                let _ = client.call(&call, &Wait::new(client.options.timeout)).await;
            }
        }))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        drop(self.start());
    }
}

/// The call of the second step for one slot.
fn undoing(
    client: &RedisClient,
    charges: &[(usize, &Charge<'_>)],
    response: &ScriptResponse,
    context: Context,
) -> ScriptCall {
    let at = response.context(context);
    let mut call = ScriptCall::new(client.call_options(context, true));
    let mut found = response.counters();
    for (_, charge) in charges {
        let action = match charge.op {
            Op::Spend => {
                Action::Spend { count_refusal: context.on_refusal.counts_refused(charge.cost, charge.limit) }
            }
            Op::Peek => continue,
            Op::Refund => Action::Refund,
            Op::Debit => Action::Debit,
        };
        let tried = step(charge.limit, found.read(charge), action, charge.cost, at.now);
        found.write(charge, &tried);
        let is_window = !matches!(charge.limit, hivemind_core::Limit::TokenBucket(_));
        let stays_counted = is_window && context.on_refusal == OnRefusal::CountAll;
        if charge.op == Op::Spend && tried.verdict.is_admitted() && !stays_counted {
            let taken = UndoRecord::leaving(charge.limit, tried.state);
            call.push(&client.options.prefix, charge, CounterRequest::Undo(taken));
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

/// The cluster slot of a name: the CRC of the text in its first braces.
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
        // Values of `redis-cli cluster keyslot`.
        assert_eq!(slot("123456789"), 0x31c3);
        assert_eq!(slot("foo"), 12_182);
        assert_eq!(slot("any:{foo}:thing"), 12_182);
        assert_eq!(slot("{}foo"), slot("{}foo"));
    }
}
