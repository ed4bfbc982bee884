//! Limits that counters have in common: rules are few and counters many, so a book names its limit by a pointer.

use hivemind_core::Limit;
use std::sync::Arc;

/// So many are looked at for one that is there already.
const MOST: usize = 16;

/// The limits that were last met.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits(Vec<Arc<Limit>>);

impl Limits {
    /// A limit as others have it, if one of them was met lately. A peer that makes up a limit for each key
    /// brings more of them, and none of them stays here.
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
