//! The locks and counters of the shelf, so that loom can stand in for them and try every
//! interleaving (`src/interleavings.rs`).

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

/// Locks, whatever happened to an earlier holder: what a panicking thread held is still good.
#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
