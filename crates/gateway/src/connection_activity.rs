//! Connection states, and which connections may stay open. One periodic check of all connections of a thread replaces
//! a timer per connection: a request sets none, and ten thousand idle connections cause no wake-ups.

use super::http2_streams::Http2Stream;
use super::now;
use super::request_body::Upload;
use hivemind_core::Timestamp;
use hivemind_tls::connections::ConnectionPermit;
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

/// Timeouts of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionTimeouts {
    /// From the first byte of a head to its last.
    pub(super) head: Duration,
    /// Between requests, and while the client does not read its response.
    pub(super) idle: Duration,
}

/// More frequent checks would cost more than they find.
const SHORTEST_TICK: Duration = Duration::from_millis(20);
const LONGEST_TICK: Duration = Duration::from_secs(1);
/// After this much silence, another request is not expected immediately.
const RESTS_AFTER: Duration = Duration::from_secs(1);

/// What a connection must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Stay,
    /// It is idle: the state for requests can be released.
    Rest,
    /// Requests in progress are answered, and no others.
    Drain,
    /// Close immediately.
    Abort,
}

/// The state of one connection.
pub(super) struct ConnectionActivity {
    order: Cell<Order>,
    /// Weak, because the registry keeps the state of a closed connection for a moment.
    permit: Weak<ConnectionPermit>,
    waker: RefCell<Option<Waker>>,
    requests: Cell<u32>,
    /// Whether a head is incomplete.
    is_within_head: Cell<bool>,
    /// Whether the last request had a body. Only hyper knows where it ends, so hyper's state is kept.
    had_body: Cell<bool>,
    /// Whether bytes between two requests are not the start of a head.
    is_http2: Cell<bool>,
    /// The start of the current silence, or of the current head.
    since: Cell<Timestamp>,
    /// When written bytes began to wait for the client to read.
    blocked_since: Cell<Option<Timestamp>>,
    /// Streams with multi-part responses, and bodies that continue after their response.
    answers: RefCell<Vec<Weak<Http2Stream>>>,
    uploads: RefCell<Vec<Arc<Upload>>>,
}

impl ConnectionActivity {
    fn new(permit: Weak<ConnectionPermit>) -> Self {
        Self {
            order: Cell::new(Order::Stay),
            permit,
            waker: RefCell::default(),
            requests: Cell::new(0),
            // A new connection must send a head within the head timeout.
            is_within_head: Cell::new(true),
            had_body: Cell::new(false),
            is_http2: Cell::new(false),
            since: Cell::new(now()),
            blocked_since: Cell::new(None),
            answers: RefCell::default(),
            uploads: RefCell::default(),
        }
    }

    /// The current order; the caller is woken when it changes.
    pub(super) fn order(&self, cx: &Context<'_>) -> Order {
        if self.permit.upgrade().is_some_and(|permit| permit.poll_evicted(cx).is_ready()) {
            // Only a connection before its first request is selected, but that may have begun meanwhile.
            return if self.requests.get() > 0 { Order::Drain } else { Order::Abort };
        }
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        self.order.get()
    }

    /// Switches to HTTP/2, where bytes between two requests are usually settings, window updates or pings: they
    /// neither keep the connection open nor must become a head.
    pub(super) fn set_http2(&self) {
        self.is_http2.set(true);
        self.is_within_head.set(false);
        self.since.set(now());
    }

    /// Records received bytes.
    pub(super) fn record_received(&self) {
        let is_between = self.requests.get() == 0 && self.uploads.borrow().is_empty();
        if is_between && !self.is_within_head.get() && !self.is_http2.get() {
            self.is_within_head.set(true);
            self.since.set(now());
        }
    }

    /// Records whether written bytes were read.
    pub(super) fn record_write(&self, is_blocked: bool) {
        if !is_blocked {
            self.blocked_since.set(None);
        } else if self.blocked_since.get().is_none() {
            self.blocked_since.set(Some(now()));
        }
    }

    /// Records the start of a request; it ends when the returned guard is dropped.
    pub(super) fn begin_request(self: &Rc<Self>, has_body: bool) -> ActiveRequest {
        if let Some(permit) = self.permit.upgrade() {
            permit.record_authenticated();
        }
        self.requests.set(self.requests.get() + 1);
        self.had_body.set(has_body);
        self.is_within_head.set(false);
        ActiveRequest(Rc::clone(self))
    }

    /// Whether no request is in progress or has begun, and all output is written.
    pub(super) fn is_at_rest(&self) -> bool {
        let is_quiet = self.requests.get() == 0 && !self.is_within_head.get() && !self.had_body.get();
        is_quiet && !self.is_http2.get() && self.blocked_since.get().is_none()
    }

    /// Ends the idle state.
    pub(super) fn clear_rest(&self) {
        if self.order.get() == Order::Rest {
            self.order.set(Order::Stay);
        }
    }

    /// Whether the connection has to close for another one.
    pub(super) fn is_evicted(&self) -> bool {
        self.permit.upgrade().is_some_and(|permit| permit.is_evicted())
    }

    /// Whether the last received bytes are an incomplete head, which no handler has seen.
    pub(super) fn is_within_head(&self) -> bool {
        self.is_within_head.get()
    }

    fn set_order(&self, order: Order) {
        if self.order.get() != order {
            self.order.set(order);
            if let Some(waker) = &*self.waker.borrow() {
                waker.wake_by_ref();
            }
        }
    }

    /// Checks streams and bodies in progress.
    fn check(&self, now: Timestamp) {
        self.answers.borrow_mut().retain(|answer| match answer.upgrade() {
            Some(stream) => {
                stream.check(now);
                true
            }
            None => false,
        });
        let mut uploads = self.uploads.borrow_mut();
        if !uploads.is_empty() {
            uploads.retain(|upload| upload.is_under_way());
            self.since.set(now);
        }
    }

    /// The order that follows from the current state.
    fn judge(&self, now: Timestamp, timeouts: ConnectionTimeouts) -> Order {
        let is_over = |since: Timestamp, most: Duration| now.since(since) >= most;
        if self.blocked_since.get().is_some_and(|since| is_over(since, timeouts.idle)) {
            return Order::Abort;
        }
        if self.requests.get() > 0 || !self.uploads.borrow().is_empty() {
            return Order::Stay;
        }
        match self.is_within_head.get() {
            true if is_over(self.since.get(), timeouts.head) => Order::Abort,
            false if is_over(self.since.get(), timeouts.idle) => Order::Drain,
            false if self.is_at_rest() && is_over(self.since.get(), RESTS_AFTER) => Order::Rest,
            _ => Order::Stay,
        }
    }
}

/// A request in progress.
pub(super) struct ActiveRequest(Rc<ConnectionActivity>);

impl ActiveRequest {
    /// Watches a response that shares its connection with others, where nothing else shows that its client does not
    /// read it: if no part is polled for this long, its stream is reset.
    pub(super) fn watch(&self, stream: &Rc<Http2Stream>, most: Duration) {
        stream.set_timeout(most);
        self.0.answers.borrow_mut().push(Rc::downgrade(stream));
    }

    /// Registers a request body that continues after its response: while it does, the connection is not idle, and its
    /// bytes are not a head.
    pub(super) fn record_upload(&self, upload: Arc<Upload>) {
        self.0.uploads.borrow_mut().push(upload);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let left = self.0.requests.get().saturating_sub(1);
        self.0.requests.set(left);
        if left == 0 {
            self.0.since.set(now());
        }
    }
}

/// All connections of one thread.
#[derive(Default)]
pub(super) struct ConnectionRegistry {
    all: RefCell<Vec<Rc<ConnectionActivity>>>,
    is_stopping: Cell<bool>,
}

impl ConnectionRegistry {
    /// Registers a new connection.
    pub(super) fn enter(&self, permit: Weak<ConnectionPermit>) -> Rc<ConnectionActivity> {
        let activity = Rc::new(ConnectionActivity::new(permit));
        if self.is_stopping.get() {
            activity.order.set(Order::Drain);
        }
        self.all.borrow_mut().push(Rc::clone(&activity));
        activity
    }

    /// Checks all connections until the thread ends.
    pub(super) async fn watch(
        &self,
        timeouts: ConnectionTimeouts,
        mut stopped: watch::Receiver<bool>,
        mut cut: watch::Receiver<bool>,
    ) {
        let tick = (timeouts.head.min(timeouts.idle) / 4).clamp(SHORTEST_TICK, LONGEST_TICK);
        let mut ticks = interval(tick);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.check(now(), timeouts),
                _ = stopped.wait_for(|stopped| *stopped), if !self.is_stopping.get() => {
                    self.is_stopping.set(true);
                    self.all.borrow().iter().for_each(|activity| activity.set_order(Order::Drain));
                }
                Ok(_) = cut.wait_for(|cut| *cut) => {
                    self.all.borrow().iter().for_each(|activity| activity.set_order(Order::Abort));
                    return;
                }
            }
        }
    }

    fn check(&self, now: Timestamp, timeouts: ConnectionTimeouts) {
        // Closed connections are only referenced by the registry.
        self.all.borrow_mut().retain(|activity| Rc::strong_count(activity) > 1);
        for activity in self.all.borrow().iter() {
            activity.check(now);
            match activity.judge(now, timeouts) {
                Order::Stay => {}
                Order::Rest if activity.order.get() != Order::Stay => {}
                // A draining connection that is idle again is closed immediately.
                Order::Drain if activity.order.get() == Order::Drain => activity.set_order(Order::Abort),
                order => activity.set_order(order),
            }
        }
    }
}

#[cfg(test)]
mod tests;
