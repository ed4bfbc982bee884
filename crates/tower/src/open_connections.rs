//! How many WebSocket connections each client has open. Bounded by the sockets themselves: who
//! has none open is not in the map. A client that names itself is counted for its address as
//! well, or names that it makes up would open as many as it likes.

use crate::bucket::Bucket;
use crate::order::Order;
use hivemind_core::store::Key;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

impl Order {
    /// What a connection is counted for: its client, which may have `most` open, and, where it names
    /// itself, its address.
    pub(crate) fn slots(&self, most: &Bucket, at_address: Option<u32>) -> impl Iterator<Item = (Key, u32)> {
        // By a name of their own: what an upgrade is charged to may be another limit than connections'.
        let own = (most.prefix.key([&*self.service, self.client.name()]), most.limit.requests());
        let address = self.client.address().filter(|_| !self.client.is_by_address());
        let address = at_address.zip(address).map(|(at_address, address)| {
            (most.prefix.key([&*self.service, &*address.to_string()]), at_address)
        });
        std::iter::once(own).chain(address)
    }
}

#[derive(Clone, Default)]
pub(crate) struct OpenConnections(Arc<Mutex<HashMap<Key, u32>>>);

/// One open connection; it is closed when this is dropped.
pub(crate) struct OpenConnection {
    all: OpenConnections,
    keys: SmallVec<[Key; 2]>,
}

impl OpenConnections {
    /// A connection more, if each of these has fewer than its most.
    pub(crate) fn take(&self, of: impl IntoIterator<Item = (Key, u32)>) -> Option<OpenConnection> {
        let of: SmallVec<[_; 2]> = of.into_iter().collect();
        let mut open = self.lock();
        if of.iter().any(|(key, most)| open.get(key).copied().unwrap_or_default() >= *most) {
            return None;
        }
        for (key, _) in &of {
            *open.entry(*key).or_default() += 1;
        }
        Some(OpenConnection { all: self.clone(), keys: of.into_iter().map(|(key, _)| key).collect() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, u32>> {
        // A count is written whole, whatever its thread did afterwards.
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
        let first = all.take([(key, 2)]).unwrap();
        let second = all.take([(key, 2)]).unwrap();
        assert!(all.take([(key, 2)]).is_none());
        assert!(all.take([(other, 1)]).is_some(), "another client's are another's");
        assert!(all.take([(other, 1), (key, 2)]).is_none(), "of its address there are enough");
        drop(first);
        let third = all.take([(other, 1), (key, 2)]).unwrap();
        drop((second, third));
        assert!(all.lock().is_empty());
    }
}
