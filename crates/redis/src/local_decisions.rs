//! Decisions without a call to Redis: refusals from the over cache and admissions from leases. A call to Redis
//! also carries their side requests: owed hits, returned leases and new leases.

use crate::Prefix;
use crate::client::RedisClient;
use crate::lease::{LeaseRequest, Leases};
use crate::metrics::Counts;
use crate::options::RedisOptions;
use crate::over_cache::{Mark, OverCache, OwedHits};
use crate::script::{CallOptions, CounterRequest, ScriptCall, ScriptResponse, UndoRecord};
use crate::state;
use crate::wait::Wait;
use hivemind_core::algorithm::{Action, step};
use hivemind_core::store::{Charge, Context, Counters, OnRefusal, Verdicts, decide_on};
use hivemind_core::{Clock, Cost, SystemClock};
use smallvec::SmallVec;
use std::sync::Weak;
use std::time::Duration;

/// The counters that this node can decide without Redis.
pub(crate) struct LocalDecisions {
    over: Option<OverCache>,
    leases: Option<Leases>,
}

/// Requests of a call in addition to the charges, by the index of the charge.
#[derive(Default)]
pub(crate) struct SideRequests {
    mark: Option<Mark>,
    owed: SmallVec<[(usize, OwedHits); 1]>,
    leases: SmallVec<[(usize, LeaseRequest); 1]>,
}

impl LocalDecisions {
    pub(crate) fn new(options: &RedisOptions) -> Self {
        Self {
            over: options.over_cache.then(OverCache::default),
            leases: options.lease.map(|terms| Leases::new(terms, options.prefix.clone())),
        }
    }

    /// Decides a batch if that needs no call to Redis.
    pub(crate) fn decide(&self, counts: &Counts, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        if let Some(verdicts) = self.over.as_ref().and_then(|over| over.refuse(batch, context)) {
            counts.refused_from_cache.one();
            return Some(verdicts);
        }
        let verdicts = self.leases.as_ref()?.admit(batch, context)?;
        counts.admitted_from_lease.one();
        Some(verdicts)
    }

    /// Writes a batch into a call: owed hits and returned leases, the charges, and new leases.
    pub(crate) fn write_call(
        &self,
        prefix: &Prefix,
        call: &mut ScriptCall,
        batch: &[Charge<'_>],
        context: Context,
    ) -> SideRequests {
        let mut sides =
            SideRequests { mark: self.over.as_ref().map(OverCache::mark), ..SideRequests::default() };
        for (index, charge) in batch.iter().enumerate() {
            if let Some(owed) = self.over.as_ref().and_then(|over| over.take_owed(charge)) {
                let counted = Charge { cost: Cost::new(owed.units), ..*charge };
                call.push(prefix, &counted, CounterRequest::Owed(owed.began));
                sides.owed.push((index, owed));
            }
            let Some(leases) = &self.leases else { continue };
            if batch.iter().filter(|other| other.key == charge.key).count() > 1 {
                continue;
            }
            let request = leases.request(charge, context.now);
            if let Some((units, began)) = request.returned {
                call.push(
                    prefix,
                    &Charge { cost: Cost::new(units), ..*charge },
                    CounterRequest::Undo(UndoRecord::of_window(began)),
                );
            }
            sides.leases.push((index, request));
        }
        call.charge_all(prefix, batch);
        for (index, request) in &sides.leases {
            if let (Some(charge), Some(slice)) = (batch.get(*index), request.slice) {
                call.push(
                    prefix,
                    &Charge { cost: Cost::new(slice.into()), ..*charge },
                    CounterRequest::Lease,
                );
            }
        }
        sides
    }

    /// Computes the verdicts on a batch from the states in the response, and updates the cache and the leases.
    pub(crate) fn record_response(
        &self,
        counts: &Counts,
        batch: &[Charge<'_>],
        context: Context,
        (response, sides): (&ScriptResponse, &SideRequests),
    ) -> Verdicts {
        let (mut found, at) = (response.counters(), response.context(context));
        for (index, owed) in &sides.owed {
            let Some(charge) = batch.get(*index) else { continue };
            // As in the script: owed hits of a deleted counter are dropped.
            let Some(before) = found.read(charge) else { continue };
            let look = step(charge.limit, Some(before), Action::Peek, Cost::ZERO, at.now);
            let is_current = before.bits().0 >= look.state.bits().0;
            if is_current && look.state.bits().0 == owed.window {
                let counted =
                    step(charge.limit, Some(look.state), Action::Count, Cost::new(owed.units), at.now);
                found.set(charge.key, counted.state);
            }
        }
        for (index, request) in &sides.leases {
            if let (Some(charge), Some((units, began))) = (batch.get(*index), request.returned) {
                let look = step(charge.limit, found.read(charge), Action::Peek, Cost::ZERO, at.now);
                let undone = state::undone(charge.limit, look.state, units, began);
                if undone != look.state {
                    found.set(charge.key, undone);
                }
                counts.lease_returned.add(units);
            }
        }
        let verdicts = decide_on(batch, at, &mut found);
        let mut after = found;
        if let (Some(over), Some(mark)) = (&self.over, sides.mark) {
            let states: SmallVec<[_; 2]> = batch.iter().map(|charge| after.read(charge)).collect();
            let state_of = |charge: &Charge<'_>| {
                let index = batch.iter().position(|other| other.key == charge.key)?;
                states.get(index).copied().flatten()
            };
            over.record(batch, (context, at.now), (verdicts.committed, mark), state_of);
        }
        let (Some(leases), true) = (&self.leases, verdicts.committed) else { return verdicts };
        for (index, request) in &sides.leases {
            let (Some(charge), Some(verdict)) = (batch.get(*index), verdicts.each().get(*index)) else {
                continue;
            };
            if let (Some(_), Some(view)) = (request.slice, after.read(charge)) {
                let taken = leases.record_taken(charge, verdict, view, (context.now, at.now));
                counts.leased.add(taken);
            }
        }
        verdicts
    }

    /// Drops what is known about a counter that was reset.
    pub(crate) fn forget(&self, charge: &Charge<'_>) {
        if let Some(over) = &self.over {
            over.forget(charge.key);
        }
        if let Some(leases) = &self.leases {
            leases.forget(charge.key);
        }
    }

    /// Drops what is known about the counters of a batch that Redis decides in another way.
    pub(crate) fn drop_all(&self, batch: &[Charge<'_>]) {
        for charge in batch {
            if let Some(over) = &self.over {
                over.forget(charge.key);
            }
            if let Some(leases) = &self.leases {
                leases.end(charge.key);
            }
        }
    }
}

/// Returns stale leases to Redis until the store is dropped.
pub(crate) async fn return_leases(client: Weak<RedisClient>, local: Weak<LocalDecisions>, longest: Duration) {
    let mut ticks = tokio::time::interval(longest.max(Duration::from_millis(5)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (Some(client), Some(local)) = (client.upgrade(), local.upgrade()) else { return };
        let now = SystemClock.now();
        for (key, lease) in local.leases.iter().flat_map(|leases| leases.stale(now)) {
            let options = CallOptions {
                on_refusal: OnRefusal::CountNone,
                ..client.call_options(Context::at(now), false)
            };
            let mut call = ScriptCall::new(options);
            call.give_back(key, &lease.name, &lease.limit, (lease.left, lease.began));
            // A lease that cannot be returned stays counted until its window ends.
            if client.call(&call, &Wait::new(client.options.timeout)).await.is_ok() {
                client.counts.lease_returned.add(lease.left);
            }
            if let Some(over) = &local.over {
                over.forget(key);
            }
        }
    }
}
