//! Interned limits: a few rules are shared by many counters, so each counter stores an `Arc<Limit>`.

use hivemind_core::Limit;
use std::sync::Arc;

/// How many recent limits are searched for an equal one.
const MOST: usize = 16;

/// The most recently used limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitInterner(Vec<Arc<Limit>>);

impl LimitInterner {
    /// Returns the shared copy of a limit if it was used recently. A peer that invents a limit for each key
    /// allocates more of them; none stays here.
    pub(crate) fn of(&mut self, limit: &Limit) -> Arc<Limit> {
        if let Some(known) = self.0.iter().find(|known| ***known == *limit) {
            return Arc::clone(known);
        }
        if self.0.len() >= MOST {
            self.0.remove(0);
        }
        let new = Arc::new(*limit);
        self.0.push(Arc::clone(&new));
        new
    }
}
