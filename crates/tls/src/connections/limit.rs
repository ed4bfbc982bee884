//! Connection limit of a listener: its table behind a lock, and the notification of closed connections.

use super::permit::ConnectionPermit;
use super::permit_state::PermitState;
use super::table::{
    ConnectionLimits, ConnectionRefusal, ConnectionTable, NewConnection, Slot, TableAdmission,
};
use hivemind_core::{Clock, MonotonicClock};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The connections of one listener.
#[derive(Debug)]
pub struct ConnectionLimit {
    table: Mutex<ConnectionTable>,
    /// Notified when a connection has closed.
    closed: Notify,
}

/// The result of an admission.
#[derive(Debug)]
pub enum ConnectionAdmission {
    /// `has_evicted`: another connection closes for it.
    Admitted {
        permit: ConnectionPermit,
        has_evicted: bool,
    },
    /// All places are taken; ask again when a connection has closed.
    Full {
        has_evicted: bool,
    },
    Refused(ConnectionRefusal),
}

impl ConnectionLimit {
    #[must_use]
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { table: Mutex::new(ConnectionTable::new(limits)), closed: Notify::new() })
    }

    /// Admits a connection, or returns why not.
    pub fn admit(self: &Arc<Self>, new: &NewConnection) -> ConnectionAdmission {
        let admission = self.table().admit(new, MonotonicClock.now());
        match admission {
            TableAdmission::Admitted { slot, state, evicted } => ConnectionAdmission::Admitted {
                permit: ConnectionPermit::new(Arc::clone(self), slot, state),
                has_evicted: evict(evicted),
            },
            TableAdmission::Full { evicted } => ConnectionAdmission::Full { has_evicted: evict(evicted) },
            TableAdmission::Refused(refusal) => ConnectionAdmission::Refused(refusal),
        }
    }

    /// Waits until a connection has closed since the last wait.
    pub async fn closed(&self) {
        self.closed.notified().await;
    }

    /// The number of open connections.
    pub fn open_count(&self) -> usize {
        self.table().len()
    }

    pub(super) fn record_idle(&self, slot: Slot) {
        self.table().record_idle(slot);
    }

    pub(super) fn record_authenticated(&self, slot: Slot) {
        self.table().record_authenticated(slot);
    }

    pub(super) fn release(&self, slot: Slot) {
        self.table().remove(slot, MonotonicClock.now());
        self.closed.notify_one();
    }

    fn table(&self) -> MutexGuard<'_, ConnectionTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn evict(connection: Option<Arc<PermitState>>) -> bool {
    connection.inspect(|state| state.evict()).is_some()
}
