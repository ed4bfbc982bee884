//! What is decided without asking Redis, and what a call asks and tells on the way.

use crate::Prefix;
use crate::lease::{Leases, Wish};
use crate::options::RedisOptions;
use crate::over_cache::{Mark, OverCache, Owed};
use crate::script::{Answer, Call, Manner, Request, Taken};
use crate::state;
use crate::store::Shared;
use crate::wait::Wait;
use hivemind_core::algorithm::{Action, step};
use hivemind_core::store::{Charge, Context, Counters, OnRefusal, Verdicts, decide_on};
use hivemind_core::{Clock, Cost, SystemClock};
use smallvec::SmallVec;
use std::sync::Weak;
use std::time::Duration;

/// What this node knows of counters.
pub(crate) struct Known {
    over: Option<OverCache>,
    leases: Option<Leases>,
}

/// What was asked besides the charges, by the number of the charge.
#[derive(Default)]
pub(crate) struct Asides {
    mark: Option<Mark>,
    owed: SmallVec<[(usize, Owed); 1]>,
    wishes: SmallVec<[(usize, Wish); 1]>,
}

/// Decides a batch, if that can be done without asking.
pub(crate) fn decide(shared: &Shared, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
    let known = &shared.known;
    if let Some(verdicts) = known.over.as_ref().and_then(|over| over.refuse(batch, context)) {
        shared.counts.refused_from_cache.one();
        return Some(verdicts);
    }
    let verdicts = known.leases.as_ref()?.admit(batch, context)?;
    shared.counts.admitted_from_lease.one();
    Some(verdicts)
}

impl Known {
    pub(crate) fn new(options: &RedisOptions) -> Self {
        Self {
            over: options.over_cache.then(OverCache::default),
            leases: options.lease.map(|terms| Leases::new(terms, options.prefix.clone())),
        }
    }

    /// Writes a batch into a call: what is owed and returned, the charges, and what is leased.
    pub(crate) fn ask(
        &self,
        prefix: &Prefix,
        call: &mut Call,
        batch: &[Charge<'_>],
        context: Context,
    ) -> Asides {
        let mut asides = Asides { mark: self.over.as_ref().map(OverCache::mark), ..Asides::default() };
        for (index, charge) in batch.iter().enumerate() {
            if let Some(owed) = self.over.as_ref().and_then(|over| over.take_owed(charge)) {
                let counted = Charge { cost: Cost::new(owed.units), ..*charge };
                call.push(prefix, &counted, Request::Owed(owed.began));
                asides.owed.push((index, owed));
            }
            let Some(leases) = &self.leases else { continue };
            if batch.iter().filter(|other| other.key == charge.key).count() > 1 {
                continue;
            }
            let wish = leases.wish(charge, context.now);
            if let Some((units, began)) = wish.returned {
                call.push(
                    prefix,
                    &Charge { cost: Cost::new(units), ..*charge },
                    Request::Undo(Taken::of_window(began)),
                );
            }
            asides.wishes.push((index, wish));
        }
        call.charge_all(prefix, batch);
        for (index, wish) in &asides.wishes {
            if let (Some(charge), Some(slice)) = (batch.get(*index), wish.slice) {
                call.push(prefix, &Charge { cost: Cost::new(slice.into()), ..*charge }, Request::Lease);
            }
        }
        asides
    }

    /// The verdicts on a batch by what the script found, and what can be known from them.
    pub(crate) fn learn(
        &self,
        shared: &Shared,
        batch: &[Charge<'_>],
        context: Context,
        (answer, asides): (&Answer, &Asides),
    ) -> Verdicts {
        let (mut found, at) = (answer.found(), answer.context(context));
        for (index, owed) in &asides.owed {
            let Some(charge) = batch.get(*index) else { continue };
            // As in the script: a counter that was deleted owes nothing.
            let Some(before) = found.read(charge) else { continue };
            let look = step(charge.limit, Some(before), Action::Peek, Cost::ZERO, at.now);
            let is_current = before.bits().0 >= look.state.bits().0;
            if is_current && look.state.bits().0 == owed.window {
                let counted =
                    step(charge.limit, Some(look.state), Action::Count, Cost::new(owed.units), at.now);
                found.keep(charge.key, counted.state);
            }
        }
        for (index, wish) in &asides.wishes {
            if let (Some(charge), Some((units, began))) = (batch.get(*index), wish.returned) {
                let look = step(charge.limit, found.read(charge), Action::Peek, Cost::ZERO, at.now);
                let undone = state::undone(charge.limit, look.state, units, began);
                if undone != look.state {
                    found.keep(charge.key, undone);
                }
                shared.counts.lease_returned.add(units);
            }
        }
        let verdicts = decide_on(batch, at, &mut found);
        let mut after = found;
        if let (Some(over), Some(mark)) = (&self.over, asides.mark) {
            let states: SmallVec<[_; 2]> = batch.iter().map(|charge| after.read(charge)).collect();
            let state_of = |charge: &Charge<'_>| {
                let index = batch.iter().position(|other| other.key == charge.key)?;
                states.get(index).copied().flatten()
            };
            over.learn(batch, (context, at.now), (verdicts.committed, mark), state_of);
        }
        let (Some(leases), true) = (&self.leases, verdicts.committed) else { return verdicts };
        for (index, wish) in &asides.wishes {
            let (Some(charge), Some(verdict)) = (batch.get(*index), verdicts.each().get(*index)) else {
                continue;
            };
            if let (Some(_), Some(view)) = (wish.slice, after.read(charge)) {
                let taken = leases.took(charge, verdict, view, (context.now, at.now));
                shared.counts.leased.add(taken);
            }
        }
        verdicts
    }

    /// A counter starts anew.
    pub(crate) fn forget(&self, charge: &Charge<'_>) {
        if let Some(over) = &self.over {
            over.forget(charge.key);
        }
        if let Some(leases) = &self.leases {
            leases.forget(charge.key);
        }
    }

    /// A batch is decided otherwise: what is known of its counters is not known any more.
    pub(crate) fn put_aside(&self, batch: &[Charge<'_>]) {
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

/// Gives back what has become stale, until the store is gone.
pub(crate) async fn return_leases(shared: Weak<Shared>, longest: Duration) {
    let mut ticks = tokio::time::interval(longest.max(Duration::from_millis(5)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(shared) = shared.upgrade() else { return };
        let now = SystemClock.now();
        for (key, held) in shared.known.leases.iter().flat_map(|leases| leases.stale(now)) {
            let manner =
                Manner { on_refusal: OnRefusal::CountNone, ..shared.manner(Context::at(now), false) };
            let mut call = Call::new(manner);
            call.give_back(key, &held.name, &held.limit, (held.left, held.began));
            // What cannot be given back stays counted until its window ends.
            if shared.call(&call, &Wait::new(shared.options.timeout)).await.is_ok() {
                shared.counts.lease_returned.add(held.left);
            }
            if let Some(over) = &shared.known.over {
                over.forget(key);
            }
        }
    }
}
