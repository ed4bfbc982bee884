//! Open WebSocket connections per client and per address.
//!
//! The map is bounded by the sockets: a client without an open connection has no entry. A client identified by
//! something else than its address is counted for its address as well; otherwise it could open any number of
//! connections under made-up names.

use crate::bucket::Bucket;
use crate::charge_plan::ChargePlan;
use hivemind_core::store::Key;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

impl ChargePlan {
    /// The counters of a new connection with their limits: one for the client, and one for its address if the
    /// client is not identified by it.
    pub(crate) fn slots(
        &self,
        limit: &Bucket,
        address_limit: Option<u32>,
    ) -> impl Iterator<Item = (Key, u32)> {
        // The keys come from this limit, since the upgrade itself may be charged to another one.
        let own = (limit.prefix.key([&*self.service, self.client.name()]), limit.limit.requests());
        let address = self.client.address().filter(|_| !self.client.is_by_address());
        let address = address_limit.zip(address).map(|(address_limit, address)| {
            (limit.prefix.key([&*self.service, &*address.to_string()]), address_limit)
        });
        std::iter::once(own).chain(address)
    }
}

#[derive(Clone, Default)]
pub(crate) struct OpenConnections(Arc<Mutex<HashMap<Key, u32>>>);

/// One open connection. Dropping it releases its slots.
pub(crate) struct OpenConnection {
    all: OpenConnections,
    keys: SmallVec<[Key; 2]>,
}

impl OpenConnections {
    /// Counts one more connection, unless one of these counters has reached its limit.
    pub(crate) fn acquire(&self, slots: impl IntoIterator<Item = (Key, u32)>) -> Option<OpenConnection> {
        let slots: SmallVec<[_; 2]> = slots.into_iter().collect();
        let mut open = self.lock();
        if slots.iter().any(|(key, limit)| open.get(key).copied().unwrap_or_default() >= *limit) {
            return None;
        }
        for (key, _) in &slots {
            *open.entry(*key).or_default() += 1;
        }
        Some(OpenConnection { all: self.clone(), keys: slots.into_iter().map(|(key, _)| key).collect() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, u32>> {
        // Each update is complete, so a panic elsewhere does not invalidate the counts.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut open = self.all.lock();
        for key in &self.keys {
            match open.get_mut(key) {
                Some(count) if *count > 1 => *count -= 1,
                _ => {
                    open.remove(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_connections_are_bounded_and_released_on_drop() {
        let (all, key, other) = (OpenConnections::default(), Key::from_bits(1, 2), Key::from_bits(2, 1));
        let first = all.acquire([(key, 2)]).unwrap();
        let second = all.acquire([(key, 2)]).unwrap();
        assert!(all.acquire([(key, 2)]).is_none());
        assert!(all.acquire([(other, 1)]).is_some(), "another client has its own count");
        assert!(all.acquire([(other, 1), (key, 2)]).is_none(), "its address has reached its limit");
        drop(first);
        let third = all.acquire([(other, 1), (key, 2)]).unwrap();
        drop((second, third));
        assert!(all.lock().is_empty());
    }
}
