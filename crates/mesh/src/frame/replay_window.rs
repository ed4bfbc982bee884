//! Replay window: which requests of a peer were served. Its numbers only rise, so the highest number and a
//! window behind it decide. A request behind the window is not served: its sender gave up long ago.

/// How far behind the highest number a request may arrive and still be served for the first time.
const WINDOW: u64 = 4_096;

/// The requests of one generation of a peer.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplayWindow {
    highest: u64,
    /// One bit per number of the window, at its remainder.
    bits: Vec<u64>,
}

impl ReplayWindow {
    /// Whether this number arrives for the first time; records it as served.
    pub(crate) fn mark_served(&mut self, id: u64) -> bool {
        if self.bits.is_empty() {
            self.bits.resize(usize::try_from(WINDOW / 64).unwrap_or(64), 0);
        }
        if id.saturating_add(WINDOW) <= self.highest {
            return false;
        }
        if id > self.highest {
            // Reused bits of the window start cleared.
            if id - self.highest >= WINDOW {
                self.bits.fill(0);
            } else {
                (self.highest + 1..=id).for_each(|number| self.set(number, false));
            }
            self.highest = id;
        }
        let is_first = !self.has(id);
        self.set(id, true);
        is_first
    }

    fn place(id: u64) -> (usize, u64) {
        let place = id % WINDOW;
        (usize::try_from(place / 64).unwrap_or(0), 1 << (place % 64))
    }

    fn has(&self, id: u64) -> bool {
        let (word, bit) = Self::place(id);
        self.bits.get(word).is_some_and(|bits| bits & bit != 0)
    }

    fn set(&mut self, id: u64, is_set: bool) {
        let (word, bit) = Self::place(id);
        if let Some(bits) = self.bits.get_mut(word) {
            *bits = if is_set { *bits | bit } else { *bits & !bit };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ReplayWindow;
    use proptest::prelude::*;

    proptest! {
        /// Fails when reused bits are not cleared, or a leap does not clear the window.
        #[test]
        fn each_recent_number_is_served_exactly_once(
            steps in prop::collection::vec(prop_oneof![8 => 0..40_u64, 1 => 4_000..4_200_u64, 1 => 9_000..20_000_u64], 1..300),
            back in prop::collection::vec(0..5_000_u64, 300),
        ) {
            let (mut replay, mut served, mut highest) = (ReplayWindow::default(), std::collections::BTreeSet::new(), 0_u64);
            for (step, back) in steps.iter().zip(&back) {
                for id in [highest + step, (highest + step).saturating_sub(*back)] {
                    let first = replay.mark_served(id);
                    highest = highest.max(id);
                    prop_assert!(!(first && served.contains(&id)), "{id} again");
                    prop_assert!(first || served.contains(&id) || id + 4_096 <= highest, "{id} is missed");
                    if first {
                        served.insert(id);
                    }
                }
            }
        }
    }

    #[test]
    fn largest_number_is_served_once() {
        let mut replay = ReplayWindow::default();
        assert!(replay.mark_served(u64::MAX) && !replay.mark_served(u64::MAX) && !replay.mark_served(3));
    }
}
