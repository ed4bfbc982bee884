//! Who is connected, and whether they may stay. One look over all connections of a thread, a few times in
//! the shortest time-out, takes the place of a timer for each: a request sets none, and ten thousand idle
//! connections wake nobody.

use hivemind_core::{Clock, SystemClock, Timestamp};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

/// How long connections may be silent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// From the first byte of a head to its last.
    pub(super) head: Duration,
    /// Between requests, and while the client does not take its answer.
    pub(super) idle: Duration,
}

/// A look more often than this would cost more than it finds.
const SHORTEST_TICK: Duration = Duration::from_millis(20);
const LONGEST_TICK: Duration = Duration::from_secs(1);

/// What a connection is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Stay,
    /// Requests under way are answered, no others.
    Leave,
    /// At once.
    Cut,
}

/// One connection, as its thread sees it.
pub(super) struct Presence {
    order: Cell<Order>,
    waker: RefCell<Option<Waker>>,
    visits: Cell<u32>,
    /// Whether a head has begun that is not whole.
    is_within_head: Cell<bool>,
    /// Since when it is as it is: silent, or within a head.
    since: Cell<Timestamp>,
    /// Since when what is written to it waits for it to be read.
    blocked_since: Cell<Option<Timestamp>>,
}

impl Presence {
    fn new() -> Self {
        let now = SystemClock.now();
        Self {
            order: Cell::new(Order::Stay),
            waker: RefCell::default(),
            visits: Cell::new(0),
            // Whoever connects has something to say: it has as long as for a head.
            is_within_head: Cell::new(true),
            since: Cell::new(now),
            blocked_since: Cell::new(None),
        }
    }

    /// What it is told to do. Whoever asks is woken when that changes.
    pub(super) fn order(&self, cx: &Context<'_>) -> Order {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        self.order.get()
    }

    /// Bytes came.
    pub(super) fn hears(&self) {
        if self.visits.get() == 0 && !self.is_within_head.get() {
            self.is_within_head.set(true);
            self.since.set(SystemClock.now());
        }
    }

    /// Bytes were taken, or not.
    pub(super) fn takes(&self, is_blocked: bool) {
        if !is_blocked {
            self.blocked_since.set(None);
        } else if self.blocked_since.get().is_none() {
            self.blocked_since.set(Some(SystemClock.now()));
        }
    }

    /// A request has begun; it is over when what this gives back is dropped.
    pub(super) fn visit(self: &Rc<Self>) -> Visit {
        self.visits.set(self.visits.get() + 1);
        self.is_within_head.set(false);
        Visit(Rc::clone(self))
    }

    fn tell(&self, order: Order) {
        if self.order.get() != order {
            self.order.set(order);
            if let Some(waker) = &*self.waker.borrow() {
                waker.wake_by_ref();
            }
        }
    }

    /// What becomes of it, looked at now.
    fn judge(&self, now: Timestamp, limits: Limits) -> Order {
        let is_over = |since: Timestamp, most: Duration| now.since(since) >= most;
        if self.blocked_since.get().is_some_and(|since| is_over(since, limits.idle)) {
            return Order::Cut;
        }
        if self.visits.get() > 0 {
            return Order::Stay;
        }
        match self.is_within_head.get() {
            true if is_over(self.since.get(), limits.head) => Order::Cut,
            false if is_over(self.since.get(), limits.idle) => Order::Leave,
            _ => Order::Stay,
        }
    }
}

/// A request under way.
pub(super) struct Visit(Rc<Presence>);

impl Visit {
    /// Looks after an answer that is one of several on its connection, where nothing else shows that its
    /// client does not take it: if no part is asked for in so long, the connection is cut off.
    pub(super) fn watched(&self, idle: Duration) -> Rc<Taken> {
        let taken = Rc::new(Taken::default());
        let (seen, presence) = (Rc::downgrade(&taken), Rc::downgrade(&self.0));
        tokio::task::spawn_local(async move {
            let mut looks = interval(idle);
            looks.tick().await; // The first is at once.
            let mut before = None;
            loop {
                looks.tick().await;
                let Some((taken, presence)) = seen.upgrade().zip(presence.upgrade()) else { return };
                if taken.waits_for_client.get() && before == Some(taken.parts.get()) {
                    return presence.tell(Order::Cut);
                }
                before = Some(taken.parts.get());
            }
        });
        taken
    }
}

/// What was taken of an answer.
#[derive(Default)]
pub(super) struct Taken {
    parts: Cell<u64>,
    waits_for_client: Cell<bool>,
}

impl Taken {
    /// It was asked for more, and there was some or not.
    pub(super) fn asked(&self, was_given: bool) {
        self.parts.set(self.parts.get() + 1);
        self.waits_for_client.set(was_given);
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let left = self.0.visits.get().saturating_sub(1);
        self.0.visits.set(left);
        if left == 0 {
            self.0.since.set(SystemClock.now());
        }
    }
}

/// All connections of one thread.
#[derive(Default)]
pub(super) struct Roll {
    all: RefCell<Vec<Rc<Presence>>>,
    is_stopping: Cell<bool>,
}

impl Roll {
    /// A new connection.
    pub(super) fn enter(&self) -> Rc<Presence> {
        let presence = Rc::new(Presence::new());
        if self.is_stopping.get() {
            presence.order.set(Order::Leave);
        }
        self.all.borrow_mut().push(Rc::clone(&presence));
        presence
    }

    /// Looks after all connections until the thread ends.
    pub(super) async fn call(&self, limits: Limits, mut stopped: watch::Receiver<bool>) {
        let tick = (limits.head.min(limits.idle) / 4).clamp(SHORTEST_TICK, LONGEST_TICK);
        let mut ticks = interval(tick);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.look(SystemClock.now(), limits),
                _ = stopped.wait_for(|stopped| *stopped), if !self.is_stopping.get() => {
                    self.is_stopping.set(true);
                    self.all.borrow().iter().for_each(|presence| presence.tell(Order::Leave));
                }
            }
        }
    }

    fn look(&self, now: Timestamp, limits: Limits) {
        // Only the roll still holds those that have gone.
        self.all.borrow_mut().retain(|presence| Rc::strong_count(presence) > 1);
        for presence in self.all.borrow().iter() {
            match presence.judge(now, limits) {
                Order::Stay => {}
                // Whoever was shown out and has gone silent meanwhile is not waited for twice.
                Order::Leave if presence.order.get() == Order::Leave => presence.tell(Order::Cut),
                order => presence.tell(order),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { head: Duration::from_secs(5), idle: Duration::from_secs(60) };

    fn after(presence: &Presence, seconds: u64) -> Order {
        presence.judge(SystemClock.now().saturating_add(Duration::from_secs(seconds)), LIMITS)
    }

    /// Seen failing with the head's time counted from the last answer.
    #[test]
    fn who_begins_a_head_has_to_end_it_and_who_says_nothing_has_to_go() {
        let roll = Roll::default();
        let presence = roll.enter();
        assert_eq!((after(&presence, 4), after(&presence, 6)), (Order::Stay, Order::Cut));
        let visit = presence.visit();
        presence.hears();
        assert_eq!(after(&presence, 1_000), Order::Stay);
        drop(visit);
        assert_eq!((after(&presence, 6), after(&presence, 61)), (Order::Stay, Order::Leave));
        presence.hears();
        assert_eq!((after(&presence, 4), after(&presence, 6)), (Order::Stay, Order::Cut));
    }

    #[test]
    fn who_does_not_take_its_answer_is_cut_off() {
        let presence = Roll::default().enter();
        let _visit = presence.visit();
        presence.takes(true);
        assert_eq!((after(&presence, 59), after(&presence, 61)), (Order::Stay, Order::Cut));
        presence.takes(false);
        assert_eq!(after(&presence, 61), Order::Stay);
    }

    #[test]
    fn those_who_have_gone_are_forgotten_and_all_others_leave_when_it_stops() {
        let roll = Roll::default();
        let (stays, goes) = (roll.enter(), roll.enter());
        drop(goes);
        roll.look(SystemClock.now(), LIMITS);
        assert_eq!(roll.all.borrow().len(), 1);
        roll.is_stopping.set(true);
        assert_eq!(roll.enter().order.get(), Order::Leave);
        assert_eq!(stays.order.get(), Order::Stay);
    }
}
