//! Connection table of one listener: the open connections, and which of them is closed when places run out.
//!
//! It does no I/O and reads no clock. Every event takes logarithmic time; the only walk is over connections that made
//! calls since they were filed, and each such call pays for one step.
//!
//! Invariants: connections that are open or closing never exceed the maximum; an authenticated connection is never
//! closed for another one; a local or known client is admitted as soon as an unauthenticated connection has closed. An
//! unknown client never takes the place of a known one: during a flood of new connections, known clients have time for
//! their first call.

use super::known_clients::KnownClients;
use super::permit_state::PermitState;
use hivemind_core::{ClientIp, Timestamp};
use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// The limits of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections that are open or closing.
    pub max: NonZeroUsize,
    /// Open connections of one client.
    pub per_client: NonZeroUsize,
    /// The last places, which only local and known clients may use. They are kept free of unauthenticated connections
    /// while others can be closed instead.
    pub reserved: usize,
}

/// A connection that waits for admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewConnection {
    pub client: ClientIp,
    /// Whether the limit per client applies.
    pub is_limited: bool,
    /// Whether it may use the reserve without being a known client.
    pub is_local: bool,
}

/// Why a connection is closed immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRefusal {
    /// Its client has as many authenticated connections as it may have.
    PerClient,
    /// Only the reserve is left.
    Reserved,
}

/// The index of a connection.
pub(super) type Slot = u32;

/// The result of an admission. `evicted` is the connection that has to close for it.
#[derive(Debug)]
pub(super) enum TableAdmission {
    Admitted {
        slot: Slot,
        state: Arc<PermitState>,
        evicted: Option<Arc<PermitState>>,
    },
    /// No place is free until a connection has closed.
    Full {
        evicted: Option<Arc<PermitState>>,
    },
    Refused(ConnectionRefusal),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionStage {
    /// It has not made an authenticated call.
    Unauthenticated {
        is_busy: bool,
    },
    Authenticated,
    /// It was selected to close.
    Closing,
}

/// The order in which unauthenticated connections are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EvictionClass {
    Idle,
    Busy,
    KnownIdle,
    KnownBusy,
}

impl EvictionClass {
    const fn new(is_known: bool, is_busy: bool) -> Self {
        match (is_known, is_busy) {
            (false, false) => Self::Idle,
            (false, true) => Self::Busy,
            (true, false) => Self::KnownIdle,
            (true, true) => Self::KnownBusy,
        }
    }

    const fn is_busy(self) -> bool {
        matches!(self, Self::Busy | Self::KnownBusy)
    }
}

#[derive(Debug)]
struct TrackedConnection {
    client: ClientIp,
    is_limited: bool,
    /// Whether its client was known when it was opened.
    is_known: bool,
    stage: ConnectionStage,
    /// When it was opened, or the end of its last call when it was last filed.
    idle_since: Timestamp,
    state: Arc<PermitState>,
}

#[derive(Debug, Default)]
struct ClientCount {
    open: usize,
    authenticated: usize,
}

/// All connections of a listener.
#[derive(Debug)]
pub(super) struct ConnectionTable {
    limits: ConnectionLimits,
    connections: Vec<Option<TrackedConnection>>,
    free: Vec<Slot>,
    open: usize,
    closing: usize,
    /// Unauthenticated connections, in each class the longest idle first.
    evictable: BTreeSet<(EvictionClass, Timestamp, Slot)>,
    /// The same for each client with a limit.
    evictable_of: BTreeSet<(ClientIp, EvictionClass, Timestamp, Slot)>,
    counts: HashMap<ClientIp, ClientCount>,
    known: KnownClients,
}

impl ConnectionTable {
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self {
            limits: ConnectionLimits { reserved: limits.reserved.min(limits.max.get() - 1), ..limits },
            connections: Vec::new(),
            free: Vec::new(),
            open: 0,
            closing: 0,
            evictable: BTreeSet::new(),
            evictable_of: BTreeSet::new(),
            counts: HashMap::new(),
            known: KnownClients::default(),
        }
    }

    /// Open connections, and those that were selected to close.
    pub(super) fn len(&self) -> usize {
        self.open + self.closing
    }

    /// Admits a connection, if necessary in place of another one.
    pub(super) fn admit(&mut self, new: &NewConnection, now: Timestamp) -> TableAdmission {
        let ConnectionLimits { max, per_client, reserved } = self.limits;
        let is_known = self.is_known(new.client, now);
        let has_reserve = new.is_local || is_known;
        let mut evicted = None;
        if new.is_limited && self.count(new.client) >= per_client.get() {
            evicted = self.evict(Some(new.client), EvictionClass::KnownBusy);
            if evicted.is_none() {
                return TableAdmission::Refused(ConnectionRefusal::PerClient);
            }
        } else if self.open >= max.get() - reserved {
            let last_class = match has_reserve {
                true if self.open < max.get() => EvictionClass::Idle,
                true => EvictionClass::KnownBusy,
                false => EvictionClass::Busy,
            };
            evicted = self.evict(None, last_class);
            if evicted.is_none() && !has_reserve && reserved > 0 {
                return TableAdmission::Refused(ConnectionRefusal::Reserved);
            }
        }
        if self.len() >= max.get() {
            return TableAdmission::Full { evicted };
        }
        let state = Arc::new(PermitState::default());
        let slot = self.insert(new, is_known, Arc::clone(&state), now);
        TableAdmission::Admitted { slot, state, evicted }
    }

    /// Whether the client has or recently had an authenticated connection.
    fn is_known(&self, client: ClientIp, now: Timestamp) -> bool {
        self.counts.get(&client).is_some_and(|count| count.authenticated > 0)
            || self.known.contains(client, now)
    }

    fn count(&self, client: ClientIp) -> usize {
        self.counts.get(&client).map_or(0, |count| count.open)
    }

    fn insert(
        &mut self,
        new: &NewConnection,
        is_known: bool,
        state: Arc<PermitState>,
        now: Timestamp,
    ) -> Slot {
        let connection = TrackedConnection {
            client: new.client,
            is_limited: new.is_limited,
            is_known,
            stage: ConnectionStage::Unauthenticated { is_busy: false },
            idle_since: now,
            state,
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            // The configuration allows a million connections.
            Slot::try_from(self.connections.len() - 1).unwrap_or(Slot::MAX)
        });
        self.open += 1;
        self.counts.entry(new.client).or_default().open += 1;
        self.file(slot, &connection);
        if let Some(place) = self.connections.get_mut(slot as usize) {
            *place = Some(connection);
        }
        slot
    }

    /// Lists an unauthenticated connection among those that can be closed.
    fn file(&mut self, slot: Slot, connection: &TrackedConnection) {
        if let ConnectionStage::Unauthenticated { is_busy } = connection.stage {
            let class = EvictionClass::new(connection.is_known, is_busy);
            self.evictable.insert((class, connection.idle_since, slot));
            if connection.is_limited {
                self.evictable_of.insert((connection.client, class, connection.idle_since, slot));
            }
        }
    }

    fn unfile(&mut self, slot: Slot, connection: &TrackedConnection) {
        if let ConnectionStage::Unauthenticated { is_busy } = connection.stage {
            let class = EvictionClass::new(connection.is_known, is_busy);
            self.evictable.remove(&(class, connection.idle_since, slot));
            self.evictable_of.remove(&(connection.client, class, connection.idle_since, slot));
        }
    }

    /// Changes a connection, and lists it by its new stage and time.
    fn update<T>(&mut self, slot: Slot, change: impl FnOnce(&mut TrackedConnection) -> T) -> Option<T> {
        let mut connection = self.connections.get_mut(slot as usize)?.take()?;
        self.unfile(slot, &connection);
        let changed = change(&mut connection);
        self.file(slot, &connection);
        if let Some(place) = self.connections.get_mut(slot as usize) {
            *place = Some(connection);
        }
        Some(changed)
    }

    /// The first connection that can be closed: of all, or of one client.
    fn first_evictable(&self, of: Option<ClientIp>) -> Option<(EvictionClass, Timestamp, Slot)> {
        let Some(client) = of else { return self.evictable.first().copied() };
        let first = self.evictable_of.range((client, EvictionClass::Idle, Timestamp::EPOCH, 0)..).next();
        first.filter(|(of, ..)| *of == client).map(|(_, class, since, slot)| (*class, *since, *slot))
    }

    /// Selects the first connection to close, up to a class.
    fn evict(&mut self, of: Option<ClientIp>, last_class: EvictionClass) -> Option<Arc<PermitState>> {
        // Clients that call faster than this looks at them must not delay it.
        let mut refiles = self.evictable.len();
        loop {
            let (class, since, slot) = self.first_evictable(of)?;
            if class > last_class {
                return None;
            }
            let state = Arc::clone(&self.connections.get(slot as usize)?.as_ref()?.state);
            if !class.is_busy() && refiles > 0 {
                refiles -= 1;
                if state.watch_if_busy() {
                    self.update(slot, |of| of.stage = ConnectionStage::Unauthenticated { is_busy: true })?;
                    continue;
                }
                let last_call = state.last_call();
                if last_call > since {
                    self.update(slot, |of| of.idle_since = last_call)?;
                    continue;
                }
            }
            let client = self.update(slot, |of| {
                of.stage = ConnectionStage::Closing;
                of.client
            })?;
            self.open -= 1;
            self.closing += 1;
            self.uncount(client, false);
            return Some(state);
        }
    }

    fn uncount(&mut self, client: ClientIp, is_authenticated: bool) {
        if let Some(count) = self.counts.get_mut(&client) {
            count.open -= 1;
            count.authenticated -= usize::from(is_authenticated);
            if count.open == 0 {
                self.counts.remove(&client);
            }
        }
    }

    /// Records that the calls in flight of a watched connection have ended.
    pub(super) fn record_idle(&mut self, slot: Slot) {
        self.update(slot, |of| {
            if of.stage == (ConnectionStage::Unauthenticated { is_busy: true }) && of.state.unwatch_if_idle()
            {
                of.stage = ConnectionStage::Unauthenticated { is_busy: false };
                of.idle_since = of.idle_since.max(of.state.last_call());
            }
        });
    }

    /// Records an authenticated call: from now on the connection is not closed for others.
    pub(super) fn record_authenticated(&mut self, slot: Slot) {
        let authenticated = self.update(slot, |of| {
            let is_new = matches!(of.stage, ConnectionStage::Unauthenticated { .. });
            if is_new {
                of.stage = ConnectionStage::Authenticated;
            }
            is_new.then_some(of.client)
        });
        if let Some(client) = authenticated.flatten() {
            self.counts.entry(client).or_default().authenticated += 1;
        }
    }

    /// Removes a closed connection.
    pub(super) fn remove(&mut self, slot: Slot, now: Timestamp) {
        let Some(connection) = self.connections.get_mut(slot as usize).and_then(Option::take) else { return };
        self.unfile(slot, &connection);
        self.free.push(slot);
        if connection.stage == ConnectionStage::Closing {
            self.closing -= 1;
            return;
        }
        self.open -= 1;
        let is_authenticated = connection.stage == ConnectionStage::Authenticated;
        self.uncount(connection.client, is_authenticated);
        let still_open = self.counts.get(&connection.client).map_or(0, |of| of.authenticated);
        if is_authenticated && still_open == 0 {
            self.known.remember(connection.client, now);
        }
    }

    #[cfg(test)]
    pub(super) fn assert_empty(&self) {
        assert_eq!((self.open, self.closing, self.counts.len()), (0, 0, 0));
        assert!(self.evictable.is_empty() && self.evictable_of.is_empty());
        assert_eq!(self.free.len(), self.connections.len());
    }
}
