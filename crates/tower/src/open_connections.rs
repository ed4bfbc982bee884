//! How many WebSocket connections each client has open. Bounded by the sockets themselves: who
//! has none open is not in the map.

use hivemind_core::store::Key;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone, Default)]
pub(crate) struct OpenConnections(Arc<Mutex<HashMap<Key, u32>>>);

/// One open connection; it is closed when this is dropped.
pub(crate) struct OpenConnection {
    all: OpenConnections,
    key: Key,
}

impl OpenConnections {
    /// A connection more, if this client has fewer than `most`.
    pub(crate) fn take(&self, key: Key, most: u32) -> Option<OpenConnection> {
        let mut open = self.lock();
        let count = open.get(&key).copied().unwrap_or_default();
        if count >= most {
            return None;
        }
        open.insert(key, count + 1);
        Some(OpenConnection { all: self.clone(), key })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, u32>> {
        // A count is written whole, whatever its thread did afterwards.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut open = self.all.lock();
        match open.get_mut(&self.key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                open.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_opens_so_many_and_one_more_when_one_closes_and_nothing_is_left_behind() {
        let (all, key, other) = (OpenConnections::default(), Key::from_bits(1, 2), Key::from_bits(2, 1));
        let first = all.take(key, 2).unwrap();
        let second = all.take(key, 2).unwrap();
        assert!(all.take(key, 2).is_none());
        assert!(all.take(other, 2).is_some(), "another client's are another's");
        drop(first);
        let third = all.take(key, 2).unwrap();
        drop((second, third));
        assert!(all.lock().is_empty());
    }
}
