//! Tally of offered and admitted requests by window; for buckets, compared with a single bucket.

use hivemind_core::algorithm::{Action, State, step};
use hivemind_core::{Cost, Limit, Timestamp};
use hivemind_mesh::window::tag_at;
use std::collections::BTreeMap;

/// Admissions of one counter over all nodes.
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
/// assert_eq!((tally.admitted, tally.max_excess()), (2, 0));
/// assert!(tally.windows().values().all(|(offered, admitted)| (*offered, *admitted) == (9, 2)));
/// assert_eq!(tally.under(0..u64::MAX), (0, 2)); // Both admissible requests were admitted.
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug)]
pub struct AdmissionTally {
    limit: Limit,
    windows: BTreeMap<u64, (u64, u64)>,
    /// For sliding windows: a single counter of all admissions.
    sliding_state: Option<State>,
    /// Admissions that the single sliding window would have refused; clock offsets cause some.
    pub beyond_estimate: u64,
    /// For buckets: request time, decision time and cost of each admission.
    admissions: Vec<(u64, u64, u64)>,
    /// For buckets: a single bucket with the same requests.
    bucket_state: Option<State>,
    /// Admissions of the single bucket.
    pub single_bucket: u64,
    /// Admissions of the mesh.
    pub admitted: u64,
}

impl AdmissionTally {
    pub(super) fn new(limit: Limit) -> Self {
        let windows = BTreeMap::new();
        Self {
            limit,
            windows,
            sliding_state: None,
            beyond_estimate: 0,
            admissions: Vec::new(),
            bucket_state: None,
            single_bucket: 0,
            admitted: 0,
        }
    }

    /// Records a request: windows use the node's time, buckets the true time.
    pub(super) fn offer(&mut self, cost: u64, at: Timestamp, true_time: Timestamp) {
        self.windows.entry(tag_at(&self.limit, at)).or_default().0 += cost;
        if matches!(self.limit, Limit::TokenBucket(_)) {
            let action = Action::Spend { count_refusal: false };
            let one = step(&self.limit, self.bucket_state, action, Cost::new(cost), true_time);
            self.bucket_state = Some(one.state);
            self.single_bucket += if one.verdict.is_admitted() { cost } else { 0 };
        }
    }

    /// Records an admission of a request received at `asked` and answered at `true_time`.
    pub(super) fn admit(&mut self, cost: u64, at: Timestamp, asked: Timestamp, true_time: Timestamp) {
        self.windows.entry(tag_at(&self.limit, at)).or_default().1 += cost;
        self.admitted += cost;
        if matches!(self.limit, Limit::TokenBucket(_)) {
            self.admissions.push((asked.as_nanos(), true_time.as_nanos(), cost));
        }
        if matches!(self.limit, Limit::SlidingWindow(_)) {
            let action = Action::Spend { count_refusal: false };
            let one = step(&self.limit, self.sliding_state, action, Cost::new(cost), true_time);
            let passed = one.verdict.is_admitted();
            self.beyond_estimate += if passed { 0 } else { cost };
            let counted = step(&self.limit, self.sliding_state, Action::Debit, Cost::new(cost), true_time);
            self.sliding_state = Some(counted.state);
        }
    }

    /// Maximum excess of any span since then over a burst plus its refill. A decision that waited was made between request
    /// and answer, so it counts for the spans that contain both.
    pub(super) fn max_excess_in_span(&self, limit: &Limit, since: u64) -> u64 {
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

    /// Admissions of a bucket since then.
    pub(super) fn admitted_since(&self, since: u64) -> u64 {
        self.admissions.iter().filter(|admission| admission.0 >= since).map(|admission| admission.2).sum()
    }

    /// Maximum excess of a window over its limit.
    #[must_use]
    pub fn max_excess(&self) -> u64 {
        if matches!(self.limit, Limit::TokenBucket(_)) {
            return self.max_excess_in_span(&self.limit, 0);
        }
        let limit = u64::from(self.limit.requests());
        self.windows.values().map(|(_, admitted)| admitted.saturating_sub(limit)).max().unwrap_or(0)
    }

    /// Offered and admitted requests by window.
    #[must_use]
    pub fn windows(&self) -> &BTreeMap<u64, (u64, u64)> {
        &self.windows
    }

    /// Missed and admissible requests of these windows.
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
