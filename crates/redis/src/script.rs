//! Encoding of the script's calls and responses.
//!
//! The script decides, writes, and returns the states that it found. The pure algorithms compute the verdicts from
//! these states here, so the script has to be exact only in what it admits and stores, and Lua computes no waits.

use crate::state::{self, STATE_BYTES, TIME_BYTES};
use crate::{CounterKind, CounterSubject, KeyName, Prefix};
use hivemind_core::algorithm::{State, Step};
use hivemind_core::store::{Charge, Context, Counters, Key, KeySeed, Mode, OnRefusal, Op, Parts};
use hivemind_core::{Limit, Period, Timestamp};
use smallvec::SmallVec;

pub(crate) const TEXT: &str = include_str!("scripts/decide.lua");

/// What a call requests of one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CounterRequest {
    Charge(Op),
    /// Gives taken units back, if they still count.
    Undo(UndoRecord),
    /// Takes the cost, but not more than a quarter of what is left, if the batch commits.
    Lease,
    /// Counts hits that were refused without a call, if the window with this start is still the current one.
    Owed([u8; TIME_BYTES]),
}

/// Where units to give back were taken from: the start of the window; for a bucket, when it was last refilled and
/// how many tokens were left in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UndoRecord {
    began: [u8; TIME_BYTES],
    level: [u8; 4],
}

impl UndoRecord {
    /// Units of the window with this start.
    pub(crate) const fn of_window(began: [u8; TIME_BYTES]) -> Self {
        Self { began, level: [0; 4] }
    }

    /// Units of a counter that had this state after they were taken.
    pub(crate) fn leaving(limit: &Limit, state: State) -> Self {
        let [a, b, c, d, ..] = state.bits().1.to_be_bytes();
        Self { began: state::beginning(limit, state), level: [a, b, c, d] }
    }
}

impl CounterRequest {
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
pub(crate) struct ScriptCall {
    counters: SmallVec<[(Key, KeyName); 2]>,
    arguments: Vec<u8>,
    group: u16,
    charges: usize,
    gives_back: bool,
}

/// Options of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallOptions {
    /// The time of the decision; `None` uses the clock of Redis.
    pub(crate) now: Option<Timestamp>,
    pub(crate) on_refusal: OnRefusal,
    /// Whether each charge that fits is taken, even if others are refused.
    pub(crate) reserve: bool,
    /// How long a counter is stored after its state has expired.
    pub(crate) grace_ms: u32,
}

impl ScriptCall {
    pub(crate) fn new(options: CallOptions) -> Self {
        let mut arguments = Vec::with_capacity(64);
        let flags = u8::from(options.now.is_some()) | u8::from(options.reserve) << 1;
        arguments.push(flags);
        arguments.push(match options.on_refusal {
            OnRefusal::CountRefusing => 0,
            OnRefusal::CountAll => 1,
            OnRefusal::CountNone => 2,
        });
        arguments.extend(options.grace_ms.to_be_bytes());
        arguments.extend(state::limbs(options.now.unwrap_or_default().as_nanos()));
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
            self.push(prefix, charge, CounterRequest::Charge(charge.op));
        }
    }

    /// Adds one request on a charge's counter.
    pub(crate) fn push(&mut self, prefix: &Prefix, charge: &Charge<'_>, request: CounterRequest) {
        let place = self.place(charge.key, || name(prefix, charge));
        let mode = match (request, charge.mode) {
            (CounterRequest::Charge(_), Mode::Enforce) => 0,
            (CounterRequest::Charge(_), Mode::Quota) => 2,
            _ => 1, // Other requests never refuse a batch.
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
        self.write((place, 1), limit, lease.0, CounterRequest::Undo(UndoRecord::of_window(lease.1)));
    }

    fn write(&mut self, (place, mode): (u16, u8), limit: &Limit, units: u64, request: CounterRequest) {
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
            CounterRequest::Undo(taken) => {
                arguments.extend(taken.began);
                arguments.extend(taken.level);
            }
            CounterRequest::Owed(began) => arguments.extend(began),
            CounterRequest::Charge(_) | CounterRequest::Lease => {}
        }
        self.charges += 1;
        self.gives_back |= matches!(request, CounterRequest::Undo(_) | CounterRequest::Charge(Op::Refund));
    }

    /// A call on a counter that no request uses, to test whether Redis decides and writes.
    pub(crate) fn probe(name: KeyName) -> Self {
        let limit = Limit::fixed_window(1, Period::SECOND);
        let key = Key::new(&KeySeed::new([0; 16]), Parts { domain: ":probe", entries: &[] }, &limit, 0);
        let options =
            CallOptions { now: None, on_refusal: OnRefusal::CountNone, reserve: false, grace_ms: 0 };
        let mut call = Self::new(options);
        let place = call.place(key, || name);
        call.write((place, 1), &limit, 1, CounterRequest::Charge(Op::Debit));
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

    /// Whether the call gives units back: if executed twice, it would admit more than the limit.
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

    /// Parses a response of the script.
    pub(crate) fn response(&self, bytes: &[u8]) -> Option<ScriptResponse> {
        let (committed, rest) = bytes.split_first()?;
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
        Some(ScriptResponse { committed: *committed == 1, now: state::moment(*now), found })
    }
}

/// The name of a charge's counter.
pub(crate) fn name(prefix: &Prefix, charge: &Charge<'_>) -> KeyName {
    // Every present kind of limit has a name; a new one needs a name before it can be stored.
    let kind = CounterKind::of(charge.limit).unwrap_or(CounterKind::Bucket);
    KeyName::new(prefix, CounterSubject::of(charge.parts), kind, charge.ordinal)
}

/// The SHA-1 of the script, which `EVALSHA` takes.
pub(crate) fn hash() -> String {
    redis::Script::new(TEXT).get_hash().to_owned()
}

/// A response of the script.
#[derive(Clone, Debug)]
pub(crate) struct ScriptResponse {
    pub(crate) committed: bool,
    pub(crate) now: Timestamp,
    found: SmallVec<[(Key, Option<[u8; STATE_BYTES]>); 2]>,
}

impl ScriptResponse {
    /// The states that the script found, for the verdicts.
    pub(crate) fn counters(&self) -> FoundCounters<'_> {
        FoundCounters { found: &self.found, written: SmallVec::new() }
    }

    /// The context with the time at which the script decided.
    pub(crate) fn context(&self, context: Context) -> Context {
        Context { now: self.now, ..context }
    }
}

/// The counters of one response, with later changes.
#[derive(Debug)]
pub(crate) struct FoundCounters<'a> {
    found: &'a [(Key, Option<[u8; STATE_BYTES]>)],
    written: SmallVec<[(Key, State); 2]>,
}

impl Counters for FoundCounters<'_> {
    fn read(&mut self, charge: &Charge<'_>) -> Option<State> {
        if let Some((_, state)) = self.written.iter().find(|(key, _)| *key == charge.key) {
            return Some(*state);
        }
        let (_, state) = self.found.iter().find(|(key, _)| *key == charge.key)?;
        state.map(|bytes| state::from_bytes(charge.limit, bytes))
    }

    fn write(&mut self, charge: &Charge<'_>, step: &Step) {
        self.set(charge.key, step.state);
    }
}

impl FoundCounters<'_> {
    /// Sets the state of a counter.
    pub(crate) fn set(&mut self, of: Key, state: State) {
        match self.written.iter_mut().find(|(key, _)| *key == of) {
            Some((_, kept)) => *kept = state,
            None => self.written.push((of, state)),
        }
    }
}
