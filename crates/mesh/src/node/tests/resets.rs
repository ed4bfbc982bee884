//! A reset allows one limit more, once, for all nodes.

use super::*;
use crate::node::Reset;
use std::time::Duration;

fn windows_and_buckets() -> [Limit; 4] {
    let hour = Period::HOUR;
    [
        Limit::fixed_window(5, hour),
        Limit::fixed_window(60, hour),
        Limit::sliding_window(20, hour),
        bucket(1, 30),
    ]
}

/// Fails when a duplicated reset counts twice, or members keep allowance in addition to a whole new limit.
#[test]
fn repeated_reset_allows_one_more_limit() {
    for limit in windows_and_buckets() {
        for who in 0..3 {
            let mut mesh = Mesh::new(3, &strict());
            let key = mesh.key(0, 1);
            let burst = usize::try_from(limit.burst()).expect("small");
            // Some of it is granted and unspent.
            let mut before = 0;
            for request in 0..burst / 2 {
                before += usize::from(mesh.passes(request % 3, &[charge(key, &limit)]));
            }
            mesh.pass(100); // Unreported spending stays counted.
            let now = mesh.now;
            mesh.nodes[who].forget(key, &limit, now);
            mesh.collect();
            let kept = mesh.mail.clone();
            mesh.deliver();
            let mut after = 0;
            for round in 0..3 * burst {
                after += usize::from(mesh.passes(round % 3, &[charge(key, &limit)]));
                if round % burst == burst - 1 {
                    for letter in &kept {
                        mesh.deliver_one(letter);
                    }
                    mesh.deliver();
                }
            }
            let waited = usize::try_from(mesh.now.since(now).as_secs()).expect("small");
            let earned = if matches!(limit, Limit::TokenBucket(_)) { waited + 1 } else { 0 };
            assert!(after <= burst + earned, "{after} after {before} of {limit}, reset by {who}");
            assert!(after + burst / 10 + 1 >= burst, "only {after} of {limit}, reset by {who}");
        }
    }
}

/// Fails when totals restart at the owner while members keep the larger ones.
#[test]
fn every_node_can_use_the_whole_limit_after_a_reset() {
    for limit in windows_and_buckets() {
        for (spender, forgetter) in [(0, 1), (1, 0), (1, 1), (1, 2), (2, 1)] {
            let mut mesh = Mesh::new(3, &strict());
            let key = mesh.key(0, 1);
            let burst = usize::try_from(limit.burst()).expect("small");
            mesh.passed(spender, 2 * burst, &[charge(key, &limit)]);
            mesh.pass(200);
            let now = mesh.now;
            mesh.nodes[forgetter].forget(key, &limit, now);
            mesh.deliver();
            mesh.pass(50);
            let after = mesh.passed(1, 2 * burst, &[charge(key, &limit)]);
            assert!(after + 1 >= burst, "{after} of {limit}, spent by {spender}, reset by {forgetter}");
        }
    }
}

/// Fails when a reset matches any counter by its key, whatever its view and window.
#[test]
fn reset_of_another_window_does_nothing() {
    use crate::frame::{MemberReport, Want};
    let limit = Limit::fixed_window(5, Period::HOUR);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    assert_eq!(mesh.passed(0, 9, &[charge(key, &limit)]), 5);
    let window_ref = mesh.window_ref(key, &limit);
    for window_ref in [
        WindowRef { tag: window_ref.tag - 1, ..window_ref },
        WindowRef { view: crate::view::ViewId(9), ..window_ref },
    ] {
        let item = Item::Ask { id: 900, window_ref, report: MemberReport::default(), want: Want::Forget };
        mesh.forge((1, 0), None, &[item]);
        assert_eq!(mesh.passed(0, 9, &[charge(key, &limit)]), 0);
    }
}

/// Spending before a reset is forgotten: a refund of it brings nothing.
///
/// Fails when a member refunds spending from before the reset.
#[test]
fn refund_of_spending_before_a_reset_adds_nothing() {
    for limit in windows_and_buckets().into_iter().take(3) {
        for who in 0..3 {
            let mut mesh = Mesh::new(3, &strict());
            let key = mesh.key(0, 1);
            let burst = usize::try_from(limit.burst()).expect("small");
            let spent = mesh.passed(who, burst / 4 + 1, &[charge(key, &limit)]);
            mesh.pass(200);
            let now = mesh.now;
            mesh.nodes[0].forget(key, &limit, now);
            mesh.pass(200);
            let cost = Cost::new(u64::try_from(spent).expect("small"));
            mesh.passes(who, &[Charge { op: Op::Refund, cost, ..charge(key, &limit) }]);
            mesh.pass(200);
            let after = (0..4 * burst).filter(|n| mesh.passes(n % 3, &[charge(key, &limit)])).count();
            assert!(after <= burst, "{after} of {limit}, {spent} given back by {who}");
        }
    }
}

/// A refund before a reset stays with its member, and counts as a part of the limit after it.
///
/// Fails when an owner treats a member that has spent all of its allowance as one that holds nothing.
#[test]
fn refund_before_a_reset_adds_nothing_to_the_new_limit() {
    for limit in windows_and_buckets() {
        for who in 0..3 {
            let mut mesh = Mesh::new(3, &strict());
            let key = mesh.key(0, 1);
            let burst = usize::try_from(limit.burst()).expect("small");
            mesh.passed(who, burst, &[charge(key, &limit)]);
            let cost = Cost::new(u64::from(limit.burst()) / 2);
            mesh.passes(who, &[Charge { op: Op::Refund, cost, ..charge(key, &limit) }]);
            mesh.pass(200);
            let now = mesh.now;
            mesh.nodes[0].forget(key, &limit, now);
            mesh.pass(200);
            let after = (0..4 * burst).filter(|n| mesh.passes(n % 3, &[charge(key, &limit)])).count();
            let waited = usize::try_from(mesh.now.since(now).as_secs()).expect("small");
            let earned = if matches!(limit, Limit::TokenBucket(_)) { waited + 1 } else { 0 };
            assert!(after <= burst + earned, "{after} of {limit}, given back by {who}");
            assert!(after + 1 >= burst, "only {after} of {limit}, given back by {who}");
        }
    }
}

/// A member refunds itself while a reset is on its way to it.
///
/// Fails when its refund is spent in addition to the whole new limit (as before duplicates of refunds were
/// deducted).
#[test]
fn refund_during_a_reset_adds_nothing_to_the_new_limit() {
    for limit in windows_and_buckets().into_iter().take(3) {
        let mut mesh = Mesh::new(3, &strict());
        let key = mesh.key(0, 1);
        let burst = usize::try_from(limit.burst()).expect("small");
        mesh.passed(1, burst, &[charge(key, &limit)]);
        mesh.pass(200);
        let cost = Cost::new(u64::from(limit.burst()) / 2);
        let refund = mesh.ask(1, &[Charge { op: Op::Refund, cost, ..charge(key, &limit) }]);
        assert!(refund.is_ok(), "{limit}: it does that itself");
        let now = mesh.now;
        mesh.nodes[0].forget(key, &limit, now);
        mesh.pass(200);
        let after = (0..4 * burst).filter(|n| mesh.passes(n % 3, &[charge(key, &limit)])).count();
        assert!(after <= burst, "{after} of {limit}");
    }
}

/// Spending is refunded once, even if both its owner and the spender refund it.
///
/// Fails when a member refunds what its owner has refunded for it (37 of 30).
#[test]
fn refund_by_owner_and_member_counts_once() {
    for limit in windows_and_buckets() {
        for (first, second) in [(0, 1), (1, 0), (2, 1), (0, 2)] {
            let mut mesh = Mesh::new(3, &strict());
            let key = mesh.key(0, 1);
            let burst = usize::try_from(limit.burst()).expect("small");
            mesh.passed(1, burst, &[charge(key, &limit)]);
            let now = mesh.now;
            mesh.pass(200);
            for (who, cost) in [(first, u64::from(limit.burst()) / 4 + 1), (second, u64::from(limit.burst()))]
            {
                let cost = Cost::new(cost);
                mesh.passes(who, &[Charge { op: Op::Refund, cost, ..charge(key, &limit) }]);
                mesh.pass(200);
            }
            let after = (0..4 * burst).filter(|n| mesh.passes(n % 3, &[charge(key, &limit)])).count();
            let waited = usize::try_from(mesh.now.since(now).as_secs()).expect("small");
            let earned = if matches!(limit, Limit::TokenBucket(_)) { waited + 1 } else { 0 };
            assert!(after <= burst + earned, "{after} of {limit}, given back by {first} and {second}");
        }
    }
}

/// Spending between a reset and its repetition stays.
///
/// Fails when each repetition has its own number, and is applied every time.
#[test]
fn reset_with_a_lost_reply_is_applied_once() {
    for limit in windows_and_buckets() {
        let mut mesh = Mesh::new(3, &strict());
        let key = mesh.key(0, 1);
        let burst = usize::try_from(limit.burst()).expect("small");
        mesh.passed(0, burst / 2, &[charge(key, &limit)]);
        mesh.pass(100);
        let now = mesh.now;
        let Reset::Later(ticket) = mesh.nodes[1].reset(key, &limit, Duration::from_secs(1), now) else {
            panic!("not its own")
        };
        // It reaches the owner, and the owner's replies are lost for a while.
        mesh.collect();
        for letter in std::mem::take(&mut mesh.mail) {
            mesh.deliver_one(&letter);
        }
        mesh.mail.clear();
        assert!(mesh.reset.is_empty(), "{limit}");
        let spent = mesh.ask(0, &[Charge { cost: Cost::new(3), ..charge(key, &limit) }]);
        assert!(spent.is_ok_and(|verdicts| verdicts.committed), "{limit}");
        mesh.pass(100);
        assert_eq!(mesh.reset, [(1, ticket)], "{limit}: it is confirmed");
        let left = mesh.look(0, (key, &limit)).verdict.remaining;
        assert_eq!(left, u64::from(limit.burst()) - 3, "{limit}");
    }
}
