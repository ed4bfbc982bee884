//! Admission compared with a naive model that searches a list of all connections.

use super::permit_state::PermitState;
use super::table::{
    ConnectionLimits, ConnectionRefusal, ConnectionTable, NewConnection, Slot, TableAdmission,
};
use hivemind_core::testing::cases;
use hivemind_core::{ClientIp, Timestamp};
use proptest::prelude::*;
use std::net::Ipv4Addr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// Client 0 is local and has no limit.
fn new_of(number: u8) -> NewConnection {
    let client = ClientIp::from(Ipv4Addr::new(192, 0, 2, number));
    NewConnection { client, is_limited: number != 0, is_local: number == 0 }
}

fn limits(max: usize, per_client: usize, reserved: usize) -> ConnectionLimits {
    let count = |count| NonZeroUsize::new(count).unwrap();
    ConnectionLimits { max: count(max), per_client: count(per_client), reserved }
}

/// An open connection in the model.
struct Open {
    number: u8,
    slot: Slot,
    state: Arc<PermitState>,
    idle_since: Timestamp,
    calls: u32,
    is_known: bool,
    is_authenticated: bool,
}

impl Open {
    fn is_candidate(&self) -> bool {
        !self.is_authenticated && !self.state.is_evicted()
    }

    /// The order of eviction: unknown clients first, then those without a call in flight.
    fn class(&self) -> (bool, bool) {
        (self.is_known, self.calls > 0)
    }
}

struct Model {
    table: ConnectionTable,
    limits: ConnectionLimits,
    now: Timestamp,
    open: Vec<Open>,
    /// By client. No test lasts an hour, so a known client stays known.
    is_known: [bool; 6],
}

#[derive(Clone, Debug)]
enum Event {
    Connect(u8),
    /// A connection, by its position, starts or ends a call.
    Start(usize),
    End(usize),
    Authenticate(usize),
    /// It is closed by its client.
    Close(usize),
    /// All evicted connections have closed.
    CloseEvicted,
    Pass(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (0..6_u8).prop_map(Event::Connect),
        2 => any::<usize>().prop_map(Event::Start),
        2 => any::<usize>().prop_map(Event::End),
        1 => any::<usize>().prop_map(Event::Authenticate),
        1 => any::<usize>().prop_map(Event::Close),
        2 => Just(Event::CloseEvicted),
        3 => prop_oneof![Just(0), Just(1), 0..10_u64].prop_map(Event::Pass),
    ]
}

impl Model {
    fn new(limits: ConnectionLimits) -> Self {
        let (table, now) = (ConnectionTable::new(limits), Timestamp::from_millis(1));
        Self { table, limits, now, open: Vec::new(), is_known: [false; 6] }
    }

    fn of(&mut self, position: usize) -> Option<&mut Open> {
        let count = self.open.len();
        self.open.get_mut(position.checked_rem(count)?)
    }

    fn run(&mut self, event: &Event) {
        match *event {
            Event::Connect(number) => drop(self.connect(number)),
            Event::Start(at) => {
                if let Some(of) = self.of(at) {
                    of.calls += 1;
                    of.state.record_call_start();
                }
            }
            Event::End(at) => {
                let now = self.now;
                if let Some(of) = self.of(at).filter(|of| of.calls > 0) {
                    of.calls -= 1;
                    of.idle_since = now;
                    let (slot, is_watched) = (of.slot, of.state.record_call_end(now));
                    if is_watched {
                        self.table.record_idle(slot);
                    }
                }
            }
            Event::Authenticate(at) => {
                if let Some(of) = self.of(at).filter(|of| !of.state.is_evicted()) {
                    of.is_authenticated = true;
                    let (slot, number) = (of.slot, of.number);
                    self.is_known[usize::from(number)] = true;
                    self.table.record_authenticated(slot);
                }
            }
            Event::Close(at) => {
                if let Some(at) = at.checked_rem(self.open.len()) {
                    let of = self.open.swap_remove(at);
                    self.table.remove(of.slot, self.now);
                }
            }
            Event::CloseEvicted => self.close_evicted(),
            Event::Pass(millis) => {
                self.now = self.now.saturating_add(Duration::from_millis(millis));
            }
        }
        assert_eq!(self.table.len(), self.open.len());
        assert!(self.table.len() <= self.limits.max.get());
    }

    fn close_evicted(&mut self) {
        let (evicted, open) = self.open.drain(..).partition(|of| of.state.is_evicted());
        self.open = open;
        let evicted: Vec<Open> = evicted;
        for of in evicted {
            self.table.remove(of.slot, self.now);
        }
    }

    /// Connects; returns whether it was admitted.
    fn connect(&mut self, number: u8) -> bool {
        let new = new_of(number);
        let (max, is_known) = (self.limits.max.get(), self.is_known[usize::from(number)]);
        let of_client = self.open.iter().filter(|of| of.number == number && !of.state.is_evicted());
        let is_at_limit = new.is_limited && of_client.count() >= self.limits.per_client.get();
        let open = self.open.len() - self.closing();
        // Which classes may give way.
        let is_evictable = |of: &Open| match (is_at_limit, new.is_local || is_known) {
            (true, _) => of.number == number,
            (false, true) => open >= max || of.class() == (false, false),
            (false, false) => !of.is_known,
        };
        let candidates: Vec<usize> = (0..self.open.len())
            .filter(|at| self.open[*at].is_candidate() && is_evictable(&self.open[*at]))
            .collect();
        let has_room = self.open.len() < max;
        let mut is_admitted = false;
        let evicted = match self.table.admit(&new, self.now) {
            TableAdmission::Admitted { slot, state, evicted } => {
                assert!(has_room);
                is_admitted = true;
                let (idle_since, calls, is_authenticated) = (self.now, 0, false);
                self.open.push(Open { number, slot, state, idle_since, calls, is_known, is_authenticated });
                evicted
            }
            TableAdmission::Full { evicted } => {
                assert!(!has_room);
                assert!(evicted.is_some() || self.closing() > 0 || candidates.is_empty());
                evicted
            }
            TableAdmission::Refused(ConnectionRefusal::PerClient) => {
                assert!(is_at_limit && candidates.is_empty());
                None
            }
            TableAdmission::Refused(ConnectionRefusal::Reserved) => {
                assert!(!new.is_local && !is_known && candidates.is_empty() && !is_at_limit);
                None
            }
        };
        if let Some(evicted) = evicted {
            self.assert_is_first(&evicted, &candidates);
            evicted.evict();
        } else if is_admitted {
            assert!(!is_at_limit);
            assert!(candidates.is_empty() || open < max - self.limits.reserved, "the reserve is kept free");
        }
        is_admitted
    }

    fn closing(&self) -> usize {
        self.open.iter().filter(|of| of.state.is_evicted()).count()
    }

    /// Whether it is the longest idle of the first class, or one with a call in flight if all of that class have one.
    fn assert_is_first(&self, evicted: &Arc<PermitState>, candidates: &[usize]) {
        let candidates: Vec<&Open> = candidates.iter().map(|at| &self.open[*at]).collect();
        let of = candidates.iter().find(|of| Arc::ptr_eq(&of.state, evicted)).expect("a candidate");
        let first_class = candidates.iter().map(|of| of.class()).min().unwrap();
        assert_eq!(of.class(), first_class);
        if of.calls == 0 {
            let same_class = candidates.iter().filter(|of| of.class() == first_class);
            assert_eq!(Some(of.idle_since), same_class.map(|of| of.idle_since).min());
        }
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    // Detected mutations: `>=` as `>` for the maximum and the limit per client; closing connections not counted; a busy
    // one evicted before an idle one; the last call ignored; `is_watched` ignored; a slot freed twice.
    #[test]
    fn table_admits_and_evicts_like_the_model(
        (max, per_client, reserved) in (1..12_usize, 1..6_usize, 0..4_usize),
        events in prop::collection::vec(event(), 1..120),
        last in 0..6_u8,
    ) {
        let reserved = reserved.min(max - 1);
        let mut model = Model::new(limits(max, per_client, reserved));
        for event in &events {
            model.run(event);
        }
        // While there is an unauthenticated connection, a local client gets in as soon as one has closed.
        model.close_evicted();
        if model.open.len() < max || model.open.iter().any(Open::is_candidate) {
            let is_admitted = model.connect(0);
            model.close_evicted();
            prop_assert!(is_admitted || model.connect(0));
        }
        // So does a known client below its limit.
        model.close_evicted();
        let count = model.open.iter().filter(|of| of.number == last).count();
        let is_known = model.is_known[usize::from(last)] && count < per_client;
        if is_known && (model.open.len() < max || model.open.iter().any(Open::is_candidate)) {
            let is_admitted = model.connect(last);
            model.close_evicted();
            prop_assert!(is_admitted || model.connect(last));
        }
        let now = model.now;
        for of in model.open.drain(..) {
            model.table.remove(of.slot, now);
        }
        model.table.assert_empty();
    }
}

// Fails when a client is forgotten with its last connection.
#[test]
fn reserve_is_for_local_and_known_clients() {
    let mut model = Model::new(limits(3, 3, 1));
    assert!(model.connect(1) && model.connect(2));
    for at in 0..2 {
        model.run(&Event::Authenticate(at));
    }
    assert!(!model.connect(3), "an unknown client is refused");
    assert!(model.connect(1), "a known client has the reserve");
    model.run(&Event::Close(2));
    assert!(model.connect(0), "a local client has the reserve");
    model.run(&Event::Close(2));
    model.run(&Event::Close(0));
    model.run(&Event::Close(0));
    assert!(model.connect(4) && model.connect(4) && model.connect(4));
    assert_eq!(model.closing(), 1, "the reserve is kept free");
    model.close_evicted();
    for at in 0..2 {
        model.run(&Event::Authenticate(at));
    }
    assert!(!model.connect(3));
    assert!(model.connect(1), "a client is remembered after its last connection has closed");
}

// Fails when the order of the flag and the waker is wrong.
#[test]
fn evicted_connection_is_woken_before_and_after_its_first_poll() {
    let state = PermitState::default();
    state.set_waker(Waker::noop());
    state.set_waker(Waker::noop());
    assert!(!state.is_evicted());
    state.evict();
    assert!(state.is_evicted());
}
