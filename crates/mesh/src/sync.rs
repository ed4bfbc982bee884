//! Locks and atomics of the counter table, replaced by loom's in model tests that try every interleaving
//! (`src/interleavings.rs`).

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering},
};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering},
};

/// Locks a mutex even if a thread panicked while it held it: the data is still consistent.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
