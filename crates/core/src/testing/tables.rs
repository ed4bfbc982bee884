//! Decision tables of the conformance suite: the expected verdicts are written out, so
//! that a mistake shared by the algorithms and the model still fails.

use super::block_on;
use crate::key::{Key, KeySeed, Parts};
use crate::limit::{Limit, Period, Rate};
use crate::store::{Charge, Context, Mode, OnRefusal, Op, Store};
use crate::time::Timestamp;
use crate::verdict::{Cost, Outcome, Verdict};
use Mode::{Enforce, Quota, Shadow};
use OnRefusal::{CountAll, CountNone, CountRefusing};
use Op::{Debit, Peek, Refund, Spend};

/// The counter's index, the operation, the mode and the cost.
type ChargeRow = (usize, Op, Mode, u64);
/// A charge that passes, with the remaining budget.
const fn left(remaining: u64) -> ExpectedVerdict {
    ExpectedVerdict { remaining, passes: Passes::Now }
}
/// A refused charge, with the remaining budget and the wait in milliseconds.
const fn wait(remaining: u64, millis: u64) -> ExpectedVerdict {
    ExpectedVerdict { remaining, passes: Passes::After(millis) }
}
/// A refused charge that can never pass, with the remaining budget.
const fn never(remaining: u64) -> ExpectedVerdict {
    ExpectedVerdict { remaining, passes: Passes::Never }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExpectedVerdict {
    remaining: u64,
    passes: Passes,
}

/// When a charge passes; the wait is in milliseconds, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passes {
    Now,
    After(u64),
    Never,
}

pub(super) struct DecisionTable {
    name: &'static str,
    limits: Vec<Limit>,
    on_refusal: OnRefusal,
    /// The time in ms, the charges, whether the batch commits, and the verdicts.
    rows: Vec<(u64, Vec<ChargeRow>, bool, Vec<ExpectedVerdict>)>,
}

#[expect(clippy::expect_used, reason = "the limits of the tables are valid")]
fn bucket(per_second: u32, burst: u32) -> Limit {
    let rate = Rate::per_second(per_second).expect("a rate");
    Limit::token_bucket(rate, burst).expect("a burst")
}

fn fixed(requests: u32) -> Limit {
    Limit::fixed_window(requests, Period::SECOND)
}

pub(super) fn all() -> Vec<DecisionTable> {
    let mut tables = vec![one_bucket(), sliding(), twice(), modes(), quotas()];
    tables.extend([CountRefusing, CountAll, CountNone].map(refusal));
    tables.extend(oversized());
    tables.push(oversized_and_counted());
    tables
}

/// Tables that also hold in a full store, and in a mesh whose nodes then count separately.
pub(super) fn oversized() -> Vec<DecisionTable> {
    [CountRefusing, CountNone].map(oversized_without_effect).into()
}

fn one_bucket() -> DecisionTable {
    let one = |op, units| vec![(0, op, Enforce, units)];
    let rows = vec![
        (0, vec![], true, vec![]),
        (0, one(Peek, 2), true, vec![left(2)]),
        (0, one(Peek, 3), false, vec![never(2)]),
        (0, one(Spend, u64::MAX), false, vec![never(2)]),
        (0, one(Spend, 0), true, vec![left(2)]),
        (0, one(Spend, 2), true, vec![left(0)]),
        (0, one(Spend, 1), false, vec![wait(0, 100)]),
        (99, one(Spend, 1), false, vec![wait(0, 1)]),
        (100, one(Spend, 1), true, vec![left(0)]),
        (150, one(Spend, 2), false, vec![wait(0, 150)]),
        (150, one(Refund, 1), true, vec![left(1)]),
        (150, one(Refund, u64::MAX), true, vec![left(2)]),
        // A debit is taken and never stops a batch, but its verdict reports that it did not fit.
        (150, one(Debit, 3), true, vec![never(0)]),
        (150, one(Spend, 0), false, vec![wait(0, 100)]),
        (150, one(Debit, u64::MAX), true, vec![never(0)]),
        (150, one(Spend, 1), false, vec![wait(0, 300)]),
        (450, one(Spend, 1), true, vec![left(0)]),
        (9_000, one(Spend, 1), true, vec![left(1)]),
    ];
    DecisionTable {
        name: "a token bucket of 2 at 10/s",
        limits: vec![bucket(10, 2)],
        on_refusal: CountRefusing,
        rows,
    }
}

fn sliding() -> DecisionTable {
    let one = |op, units| vec![(0, op, Enforce, units)];
    let rows = vec![
        (500, one(Spend, 4), true, vec![left(0)]),
        (500, one(Spend, 1), false, vec![wait(0, 750)]),
        // A window ending now covers three quarters of the previous window's 4: 3.
        (1_249, one(Peek, 1), false, vec![wait(0, 1)]),
        (1_250, one(Spend, 1), true, vec![left(0)]),
        (1_500, one(Peek, 1), true, vec![left(1)]),
        (2_000, one(Spend, 4), false, vec![wait(3, 1_000)]),
        (3_000, one(Spend, 4), true, vec![left(0)]),
    ];
    let limits = vec![Limit::sliding_window(4, Period::SECOND)];
    DecisionTable { name: "a sliding window of 4 in 1 s", limits, on_refusal: CountNone, rows }
}

fn twice() -> DecisionTable {
    let rows = vec![
        (0, vec![(0, Spend, Enforce, 2), (0, Spend, Enforce, 2)], false, vec![left(3), wait(3, 100)]),
        (0, vec![(0, Spend, Enforce, 2), (0, Spend, Enforce, 1)], true, vec![left(1), left(0)]),
        (0, vec![(0, Refund, Enforce, 1), (0, Spend, Enforce, 1)], true, vec![left(1), left(0)]),
        (0, vec![(0, Spend, Enforce, 1), (0, Refund, Enforce, 2)], false, vec![wait(0, 100), left(2)]),
        (0, vec![(0, Spend, Enforce, 2), (0, Peek, Shadow, 1)], true, vec![left(0), wait(0, 100)]),
    ];
    DecisionTable {
        name: "one counter twice in a batch",
        limits: vec![bucket(10, 3)],
        on_refusal: CountRefusing,
        rows,
    }
}

fn modes() -> DecisionTable {
    let both = |first, second| vec![(0, Spend, first, 1), (1, Spend, second, 1)];
    let rows = vec![
        (0, both(Enforce, Enforce), true, vec![left(4), left(0)]),
        (0, both(Enforce, Enforce), false, vec![left(4), wait(0, 100)]),
        (0, both(Enforce, Shadow), true, vec![left(3), wait(0, 100)]),
        (0, both(Shadow, Enforce), false, vec![left(3), wait(0, 100)]),
        (0, both(Shadow, Quota), false, vec![left(3), wait(0, 100)]),
        (0, both(Quota, Quota), true, vec![left(2), wait(0, 100)]),
        (0, both(Quota, Enforce), false, vec![left(2), wait(0, 100)]),
        (0, vec![(0, Spend, Enforce, 1), (1, Debit, Enforce, 1)], true, vec![left(1), wait(0, 200)]),
        (0, vec![(0, Refund, Enforce, 1), (1, Spend, Enforce, 1)], false, vec![left(2), wait(0, 200)]),
        (0, vec![(0, Debit, Enforce, 4), (1, Peek, Enforce, 1)], false, vec![wait(0, 600), wait(0, 200)]),
        (0, vec![(1, Spend, Shadow, 1)], true, vec![wait(0, 200)]),
        (0, vec![(1, Spend, Quota, 1)], false, vec![wait(0, 200)]),
    ];
    let limits = vec![bucket(10, 5), bucket(10, 1)];
    DecisionTable { name: "effect of a refusal in each mode", limits, on_refusal: CountRefusing, rows }
}

fn quotas() -> DecisionTable {
    let rows = vec![
        (0, vec![(0, Spend, Quota, 1), (1, Spend, Quota, 1)], true, vec![left(0), left(1)]),
        (0, vec![(0, Spend, Quota, 1), (1, Spend, Quota, 1)], true, vec![wait(0, 100), left(0)]),
        (0, vec![(0, Spend, Quota, 1), (1, Spend, Quota, 1)], false, vec![wait(0, 100), wait(0, 100)]),
        (0, vec![(0, Spend, Quota, 1), (1, Debit, Quota, 1)], true, vec![wait(0, 100), wait(0, 200)]),
    ];
    let limits = vec![bucket(10, 1), bucket(10, 2)];
    DecisionTable { name: "quotas refuse together or not at all", limits, on_refusal: CountRefusing, rows }
}

/// Two windows, of 2 and of 5: their state after a refused batch.
fn refusal(on_refusal: OnRefusal) -> DecisionTable {
    let both = |units| vec![(0, Spend, Enforce, units), (1, Spend, Enforce, units)];
    let look = vec![(0, Peek, Shadow, 1), (1, Peek, Shadow, 1)];
    let after = match on_refusal {
        CountRefusing => [vec![wait(0, 1_000), left(4)], vec![wait(0, 1_000), left(4)]],
        CountAll => [vec![wait(0, 1_000), left(2)], vec![wait(0, 1_000), left(2)]],
        CountNone => [vec![wait(1, 1_000), left(4)], vec![left(1), left(4)]],
    };
    let [refused, looked] = after;
    let rows = vec![
        (0, both(1), true, vec![left(1), left(4)]),
        (0, both(2), false, refused),
        (0, look, true, looked),
        (1_000, both(2), true, vec![left(0), left(3)]),
    ];
    DecisionTable { name: "state after a refused batch", limits: vec![fixed(2), fixed(5)], on_refusal, rows }
}

fn each_algorithm() -> Vec<Limit> {
    vec![fixed(5), Limit::sliding_window(5, Period::SECOND), bucket(10, 5)]
}

fn on_each(mode: Mode, units: u64) -> Vec<ChargeRow> {
    (0..3).map(|counter| (counter, Spend, mode, units)).collect()
}

/// More than a limit can ever admit: refused, and the whole limit stays available.
fn oversized_without_effect(on_refusal: OnRefusal) -> DecisionTable {
    let all = |mode, units, committed, verdict| (0, on_each(mode, units), committed, vec![verdict; 3]);
    let mixed = vec![(0, Spend, Enforce, 5), (1, Spend, Enforce, 6), (2, Spend, Enforce, 5)];
    let mut rows = vec![all(Enforce, 10, false, never(5)); 3];
    rows.extend([all(Shadow, 10, true, never(5)), all(Quota, 6, false, never(5))]);
    rows.extend([
        all(Enforce, u64::MAX, false, never(5)),
        all(Enforce, u64::from(u32::MAX), false, never(5)),
    ]);
    rows.push((0, mixed, false, vec![left(5), never(5), left(5)]));
    rows.push(all(Enforce, 5, true, left(0)));
    DecisionTable {
        name: "a cost above the limit bars no client",
        limits: each_algorithm(),
        on_refusal,
        rows,
    }
}

/// The exception: every limit counts every refusal, as the reference service does.
fn oversized_and_counted() -> DecisionTable {
    let rows = vec![
        (0, on_each(Enforce, 10), false, vec![never(0), never(0), never(5)]),
        (0, on_each(Enforce, 5), false, vec![wait(0, 1_000), wait(0, 2_000), left(5)]),
    ];
    let name = "a cost above the limit, counted by `count_all`";
    DecisionTable { name, limits: each_algorithm(), on_refusal: CountAll, rows }
}

/// Spends from `others` counters, in windows that do not end during a table.
///
/// # Panics
/// If the store fails.
pub(super) fn fill<S: Store>(store: &S, others: u32) {
    let (seed, limit) = (KeySeed::from_cluster_id("conformance"), Limit::fixed_window(5, Period::DAY));
    let domain = super::fresh_domain();
    for other in 0..others {
        let name = other.to_string();
        let entries = [("other", name.as_str())];
        let parts = Parts { domain: &domain, entries: &entries };
        let charge = Charge::spend(Key::new(&seed, parts, &limit, 0), parts, &limit);
        let decided = block_on(store.decide(&[charge], Context::at(Timestamp::EPOCH)));
        assert!(decided.is_ok(), "{decided:?}");
    }
}

/// # Panics
/// If the store decides one row otherwise.
pub(super) fn check<S: Store>(store: &S, table: &DecisionTable) {
    let seed = KeySeed::from_cluster_id("conformance");
    let domain = super::fresh_domain();
    for (row, (at_ms, charges, committed, verdicts)) in table.rows.iter().enumerate() {
        let names: Vec<String> = charges.iter().map(|(counter, ..)| counter.to_string()).collect();
        let entries: Vec<_> = names.iter().map(|name| [("counter", name.as_str())]).collect();
        let batch = charges.iter().zip(&entries).filter_map(|(&(counter, op, mode, units), entries)| {
            let (parts, limit) = (Parts { domain: &domain, entries }, table.limits.get(counter)?);
            let key = Key::new(&seed, parts, limit, 0);
            Some(Charge { cost: Cost::new(units), op, mode, ..Charge::spend(key, parts, limit) })
        });
        let context = Context { on_refusal: table.on_refusal, ..Context::at(Timestamp::from_millis(*at_ms)) };
        let decided = block_on(store.decide(&batch.collect::<Vec<_>>(), context));
        let actual =
            decided.map(|verdicts| (verdicts.committed, verdicts.each().iter().map(expected_form).collect()));
        let place = format!("{} ({:?}), row {row}: {charges:?}", table.name, table.on_refusal);
        assert_eq!(actual, Ok((*committed, verdicts.clone())), "{place}");
    }
}

fn expected_form(verdict: &Verdict) -> ExpectedVerdict {
    let passes = match verdict.outcome {
        Outcome::Admitted => Passes::Now,
        Outcome::Refused { retry_after: None } => Passes::Never,
        Outcome::Refused { retry_after: Some(wait) } => {
            Passes::After(u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
        }
    };
    ExpectedVerdict { remaining: verdict.remaining, passes }
}
