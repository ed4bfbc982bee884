//! The script's side of a call: charges as it reads them, and its answer.
//!
//! It decides and writes, and tells the states that it found. What the verdicts say of
//! them is then told by the pure algorithms here, so the script has to be exact only in
//! what it admits and keeps, and no wait is ever reckoned in Lua.

use crate::state::{self, STATE_BYTES, TIME_BYTES};
use crate::{CounterKind, CounterSubject, KeyName, Prefix};
use hivemind_core::algorithm::{State, Step};
use hivemind_core::store::{Charge, Context, Counters, Key, KeySeed, Mode, OnRefusal, Op, Parts};
use hivemind_core::{Limit, Period, Timestamp};
use smallvec::SmallVec;

pub(crate) const TEXT: &str = include_str!("scripts/decide.lua");

/// What is asked of a counter besides what a charge can ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Charge(Op),
    /// Gives back what was taken, if that still counts.
    Undo(Taken),
    /// Takes the cost, but not more than a quarter of what is left, if the batch commits.
    Lease,
    /// Counts what was refused without asking, if the window that began then is still the one.
    Owed([u8; TIME_BYTES]),
}

/// What the script has to know of what it gives back: the window that it was taken from; of a
/// bucket, when it had last earned and how many tokens the taking left in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    began: [u8; TIME_BYTES],
    level: [u8; 4],
}

impl Taken {
    /// From a window that began then.
    pub(crate) const fn of_window(began: [u8; TIME_BYTES]) -> Self {
        Self { began, level: [0; 4] }
    }

    /// From a counter that the taking left in this state.
    pub(crate) fn leaving(limit: &Limit, state: State) -> Self {
        let [a, b, c, d, ..] = state.bits().1.to_be_bytes();
        Self { began: state::beginning(limit, state), level: [a, b, c, d] }
    }
}

impl Request {
    const fn code(self) -> u8 {
        match self {
            Self::Charge(Op::Spend) => 0,
            Self::Charge(Op::Peek) => 1,
            Self::Charge(Op::Refund) => 2,
            Self::Charge(Op::Debit) => 3,
            Self::Undo(_) => 4,
            Self::Lease => 5,
            Self::Owed(_) => 6,
        }
    }
}

/// One call of the script.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    counters: SmallVec<[(Key, KeyName); 2]>,
    arguments: Vec<u8>,
    group: u16,
    charges: usize,
    gives_back: bool,
}

/// How a call is to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// The moment of the decision; none lets Redis' clock say it.
    pub(crate) now: Option<Timestamp>,
    pub(crate) on_refusal: OnRefusal,
    /// Whether all charges are taken that fit, whatever the others say.
    pub(crate) reserve: bool,
    /// How much longer than it says anything a counter is kept.
    pub(crate) grace_ms: u32,
}

impl Call {
    pub(crate) fn new(manner: Manner) -> Self {
        let mut arguments = Vec::with_capacity(64);
        let flags = u8::from(manner.now.is_some()) | u8::from(manner.reserve) << 1;
        arguments.push(flags);
        arguments.push(match manner.on_refusal {
            OnRefusal::CountRefusing => 0,
            OnRefusal::CountAll => 1,
            OnRefusal::CountNone => 2,
        });
        arguments.extend(manner.grace_ms.to_be_bytes());
        arguments.extend(state::limbs(manner.now.unwrap_or_default().as_nanos()));
        Self { counters: SmallVec::new(), arguments, group: 0, charges: 0, gives_back: false }
    }

    /// Adds the charges of a batch, in order.
    pub(crate) fn charge_all<'c>(
        &mut self,
        prefix: &Prefix,
        batch: impl IntoIterator<Item = &'c Charge<'c>> + Clone,
    ) {
        let mut last_quota: Option<Parts<'_>> = None;
        for charge in batch {
            if charge.mode == Mode::Quota && last_quota.replace(charge.parts) != Some(charge.parts) {
                self.group = self.group.saturating_add(1);
            }
            self.push(prefix, charge, Request::Charge(charge.op));
        }
    }

    /// Adds one request on a charge's counter.
    pub(crate) fn push(&mut self, prefix: &Prefix, charge: &Charge<'_>, request: Request) {
        let place = self.place(charge.key, || name(prefix, charge));
        let mode = match (request, charge.mode) {
            (Request::Charge(_), Mode::Enforce) => 0,
            (Request::Charge(_), Mode::Quota) => 2,
            _ => 1, // What is asked besides the charges stops no batch.
        };
        self.write((place, mode), charge.limit, charge.cost.get(), request);
    }

    /// Adds the return of what is left of a lease.
    pub(crate) fn give_back(
        &mut self,
        key: Key,
        name: &KeyName,
        limit: &Limit,
        lease: (u64, [u8; TIME_BYTES]),
    ) {
        let place = self.place(key, || name.clone());
        self.write((place, 1), limit, lease.0, Request::Undo(Taken::of_window(lease.1)));
    }

    fn write(&mut self, (place, mode): (u16, u8), limit: &Limit, units: u64, request: Request) {
        let (kind, amount, earned, nanos) = match limit {
            Limit::TokenBucket(bucket) => (0, limit.burst(), bucket.earned(), bucket.per_nanos()),
            Limit::FixedWindow(_) => (1, limit.requests(), 1, state::period_nanos(limit)),
            _ => (2, limit.requests(), 1, state::period_nanos(limit)),
        };
        let arguments = &mut self.arguments;
        arguments.extend([kind, request.code(), mode]);
        arguments.extend(place.to_be_bytes());
        arguments.extend(self.group.to_be_bytes());
        arguments.extend(amount.to_be_bytes());
        arguments.extend(earned.to_be_bytes());
        arguments.extend(state::limbs(nanos));
        arguments.extend(units.to_be_bytes());
        match request {
            Request::Undo(taken) => {
                arguments.extend(taken.began);
                arguments.extend(taken.level);
            }
            Request::Owed(began) => arguments.extend(began),
            Request::Charge(_) | Request::Lease => {}
        }
        self.charges += 1;
        self.gives_back |= matches!(request, Request::Undo(_) | Request::Charge(Op::Refund));
    }

    /// A call that decides something of no counter, to see whether that works: it is written as well.
    pub(crate) fn probe(name: KeyName) -> Self {
        let limit = Limit::fixed_window(1, Period::SECOND);
        let key = Key::new(&KeySeed::new([0; 16]), Parts { domain: ":probe", entries: &[] }, &limit, 0);
        let manner = Manner { now: None, on_refusal: OnRefusal::CountNone, reserve: false, grace_ms: 0 };
        let mut call = Self::new(manner);
        let place = call.place(key, || name);
        call.write((place, 1), &limit, 1, Request::Charge(Op::Debit));
        call
    }

    /// The number of a charge's counter among the keys, from 1.
    fn place(&mut self, key: Key, name: impl FnOnce() -> KeyName) -> u16 {
        let known = self.counters.iter().position(|(known, _)| *known == key);
        let index = known.unwrap_or_else(|| {
            self.counters.push((key, name()));
            self.counters.len() - 1
        });
        u16::try_from(index + 1).unwrap_or(u16::MAX)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.charges == 0
    }

    /// Whether it gives anything back: done twice, more would be admitted than the limit.
    pub(crate) const fn gives_back(&self) -> bool {
        self.gives_back
    }

    /// The command, by the script's hash or by its text.
    pub(crate) fn command(&self, name: &'static str, script: &str) -> redis::Cmd {
        let mut command = redis::Cmd::with_capacity(4 + self.counters.len(), 128 + self.arguments.len());
        command.arg(name).arg(script).arg(self.counters.len());
        for (_, name) in &self.counters {
            command.arg(name.as_str());
        }
        command.arg(self.arguments.as_slice());
        command
    }

    /// What the script answered, if that can be read.
    pub(crate) fn answer(&self, answer: &[u8]) -> Option<Answer> {
        let (committed, rest) = answer.split_first()?;
        let (now, mut rest) = rest.split_first_chunk::<TIME_BYTES>()?;
        let mut found = SmallVec::new();
        for (key, _) in &self.counters {
            let (is_there, after) = rest.split_first()?;
            rest = after;
            let state = if *is_there == 1 {
                let (state, after) = rest.split_first_chunk::<STATE_BYTES>()?;
                rest = after;
                Some(*state)
            } else {
                None
            };
            found.push((*key, state));
        }
        Some(Answer { committed: *committed == 1, now: state::moment(*now), found })
    }
}

/// What a charge's counter is called.
pub(crate) fn name(prefix: &Prefix, charge: &Charge<'_>) -> KeyName {
    // Every limit of today has a kind; one to come would have to be named before it can be kept.
    let kind = CounterKind::of(charge.limit).unwrap_or(CounterKind::Bucket);
    KeyName::new(prefix, CounterSubject::of(charge.parts), kind, charge.ordinal)
}

/// The hash that Redis knows the script by.
pub(crate) fn hash() -> String {
    redis::Script::new(TEXT).get_hash().to_owned()
}

/// What the script answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) committed: bool,
    pub(crate) now: Timestamp,
    found: SmallVec<[(Key, Option<[u8; STATE_BYTES]>); 2]>,
}

impl Answer {
    /// The counters as they were found, to tell the verdicts of.
    pub(crate) fn found(&self) -> Found<'_> {
        Found { found: &self.found, written: SmallVec::new() }
    }

    /// The same moment for all charges.
    pub(crate) fn context(&self, context: Context) -> Context {
        Context { now: self.now, ..context }
    }
}

/// The counters of one answer, and what became of them.
#[derive(Debug)]
pub(crate) struct Found<'a> {
    found: &'a [(Key, Option<[u8; STATE_BYTES]>)],
    written: SmallVec<[(Key, State); 2]>,
}

impl Counters for Found<'_> {
    fn read(&mut self, charge: &Charge<'_>) -> Option<State> {
        if let Some((_, state)) = self.written.iter().find(|(key, _)| *key == charge.key) {
            return Some(*state);
        }
        let (_, state) = self.found.iter().find(|(key, _)| *key == charge.key)?;
        state.map(|bytes| state::from_bytes(charge.limit, bytes))
    }

    fn write(&mut self, charge: &Charge<'_>, step: &Step) {
        self.keep(charge.key, step.state);
    }
}

impl Found<'_> {
    /// What became of a counter.
    pub(crate) fn keep(&mut self, of: Key, state: State) {
        match self.written.iter_mut().find(|(key, _)| *key == of) {
            Some((_, kept)) => *kept = state,
            None => self.written.push((of, state)),
        }
    }
}
