//! What was offered and what was admitted, by window; for buckets, against one that all
//! admissions go through.

use hivemind_core::algorithm::{Action, State, step};
use hivemind_core::{Cost, Limit, Timestamp};
use hivemind_mesh::window::tag_at;
use std::collections::BTreeMap;

/// The count of one counter over all nodes.
///
/// ```
/// use hivemind_core::{Limit, Period, store::Key};
/// use hivemind_mesh::MeshOptions;
/// use hivemind_mesh_sim::{Network, World};
///
/// let mut world = World::new(1, Network::default(), MeshOptions::default(), 0);
/// world.start_together(3);
/// let counter = world.add_limit(Key::from_bits(7, 11), Limit::fixed_window(2, Period::DAY));
/// (0..9).for_each(|request| world.hit(request % 3, counter, 1));
/// world.run_until(1_000_000);
/// let tally = world.tally(counter).ok_or("no counter")?;
/// assert_eq!((tally.admitted, tally.most_over()), (2, 0));
/// assert!(tally.windows().values().all(|(offered, admitted)| (*offered, *admitted) == (9, 2)));
/// assert_eq!(tally.under(0..u64::MAX), (0, 2)); // Nothing was missed of the two that could pass.
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tally {
    limit: Limit,
    windows: BTreeMap<u64, (u64, u64)>,
    /// For sliding windows: the one counter that everything admitted goes through.
    central: Option<State>,
    /// What was admitted although the one sliding window had no room; clocks that differ may cause some.
    pub beyond_estimate: u64,
    /// For buckets: when each admission was asked for, when it was known, and its cost.
    admissions: Vec<(u64, u64, u64)>,
    /// What one bucket alone would have admitted of the same requests, and what was admitted.
    alone: Option<State>,
    /// Admitted by one bucket alone.
    pub by_one: u64,
    /// Admitted by the mesh.
    pub admitted: u64,
}

impl Tally {
    pub(super) fn new(limit: Limit) -> Self {
        let windows = BTreeMap::new();
        Self {
            limit,
            windows,
            central: None,
            beyond_estimate: 0,
            admissions: Vec::new(),
            alone: None,
            by_one: 0,
            admitted: 0,
        }
    }

    /// A request came; times are the node's for windows, and the true ones for buckets.
    pub(super) fn offer(&mut self, cost: u64, at: Timestamp, truly: Timestamp) {
        self.windows.entry(tag_at(&self.limit, at)).or_default().0 += cost;
        if matches!(self.limit, Limit::TokenBucket(_)) {
            let action = Action::Spend { count_refusal: false };
            let one = step(&self.limit, self.alone, action, Cost::new(cost), truly);
            self.alone = Some(one.state);
            self.by_one += if one.verdict.is_admitted() { cost } else { 0 };
        }
    }

    /// A request was admitted that came at `asked` and was answered at `truly`.
    pub(super) fn admit(&mut self, cost: u64, at: Timestamp, asked: Timestamp, truly: Timestamp) {
        self.windows.entry(tag_at(&self.limit, at)).or_default().1 += cost;
        self.admitted += cost;
        if matches!(self.limit, Limit::TokenBucket(_)) {
            self.admissions.push((asked.as_nanos(), truly.as_nanos(), cost));
        }
        if matches!(self.limit, Limit::SlidingWindow(_)) {
            let action = Action::Spend { count_refusal: false };
            let one = step(&self.limit, self.central, action, Cost::new(cost), truly);
            let passed = one.verdict.is_admitted();
            self.beyond_estimate += if passed { 0 } else { cost };
            let counted = step(&self.limit, self.central, Action::Debit, Cost::new(cost), truly);
            self.central = Some(counted.state);
        }
    }

    /// The most that any span from that moment on admitted beyond a burst and what the span earns. A decision that
    /// was waited for was made somewhere between question and answer, so it counts for the spans that have both.
    pub(super) fn most_over_in_a_span(&self, limit: &Limit, since: u64) -> u64 {
        let mut ends = self.admissions.clone();
        ends.sort_unstable_by_key(|admission| admission.1);
        let period = limit.period().length().as_nanos();
        let mut most = 0;
        for (start, _, _) in self.admissions.iter().filter(|admission| admission.0 >= since) {
            let mut sum = 0;
            for (asked, known, cost) in &ends {
                if asked >= start {
                    sum += cost;
                    let earned = u128::from(known - start) * u128::from(limit.requests()) / period;
                    let fits =
                        u64::from(limit.burst()).saturating_add(u64::try_from(earned).unwrap_or(u64::MAX));
                    most = most.max(sum.saturating_sub(fits));
                }
            }
        }
        most
    }

    /// What a bucket admitted from that moment on.
    pub(super) fn admitted_since(&self, since: u64) -> u64 {
        self.admissions.iter().filter(|admission| admission.0 >= since).map(|admission| admission.2).sum()
    }

    /// The most that any window admitted beyond its limit.
    #[must_use]
    pub fn most_over(&self) -> u64 {
        if matches!(self.limit, Limit::TokenBucket(_)) {
            return self.most_over_in_a_span(&self.limit, 0);
        }
        let limit = u64::from(self.limit.requests());
        self.windows.values().map(|(_, admitted)| admitted.saturating_sub(limit)).max().unwrap_or(0)
    }

    /// Offered and admitted, by window.
    #[must_use]
    pub fn windows(&self) -> &BTreeMap<u64, (u64, u64)> {
        &self.windows
    }

    /// What was missed of what could have been admitted, and that, over these windows.
    #[must_use]
    pub fn under(&self, windows: std::ops::Range<u64>) -> (u64, u64) {
        let limit = u64::from(self.limit.requests());
        let counted = self.windows.range(windows).map(|(_, (offered, admitted))| {
            let could = (*offered).min(limit);
            (could.saturating_sub(*admitted), could)
        });
        counted.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}
