//! Requests with several limits: all or none, and a refused request leaves nothing spent.

use super::*;

fn peek(mesh: &mut Mesh, node: usize, key: Key, limit: &Limit) -> u64 {
    let charge = Charge { op: Op::Peek, ..charge(key, limit) };
    match mesh.ask(node, &[charge]) {
        Ok(verdicts) => verdicts.each()[0].available,
        Err(ticket) => {
            mesh.deliver();
            mesh.decided.remove(&(node, ticket)).expect("an answer").each()[0].available
        }
    }
}

/// Fails when a batch refunds what was refused, or refunds nothing.
#[test]
fn racing_batches_admit_the_last_token_once() {
    let (plenty, few) = (bucket(1, 8), bucket(1, 8));
    let mut mesh = Mesh::new(3, &strict());
    let keys = [mesh.key(0, 1), mesh.key(0, 2)];
    assert_eq!(mesh.passed(0, 7, &[charge(keys[1], &few)]), 7);
    let batch = [charge(keys[0], &plenty), charge(keys[1], &few)];
    // Both peek, both see one token, both spend.
    let tickets = [1, 2].map(|node| (node, mesh.ask(node, &batch).expect_err("it looks first")));
    mesh.deliver();
    mesh.pass(50);
    let passed = tickets.iter().filter(|ticket| mesh.decided[ticket].committed).count();
    assert_eq!(passed, 1);
    assert_eq!(mesh.passed(1, 3, &batch) + mesh.passed(0, 3, &[charge(keys[1], &few)]), 0);
    assert_eq!(peek(&mut mesh, 0, keys[0], &plenty), 7, "what the other one took is given back");
}

/// Fails when a batch that ran out of time is refunded in full.
#[test]
fn lost_batch_refunds_only_confirmed_spending() {
    let limit = bucket(1, 8);
    let mut mesh = Mesh::new(3, &strict());
    let keys = [mesh.key(0, 1), mesh.key(0, 2)];
    assert_eq!(mesh.passed(0, 8, &[charge(keys[1], &limit)]), 8);
    mesh.pass(1_000);
    let batch = [charge(keys[0], &limit), charge(keys[1], &limit)];
    let ticket = mesh.ask(1, &batch).expect_err("it looks first");
    // The peeks and their replies arrive; the following requests are lost.
    let looks = std::mem::take(&mut mesh.mail);
    for letter in &looks {
        mesh.deliver_one(letter);
    }
    let answers = std::mem::take(&mut mesh.mail);
    for letter in &answers {
        mesh.deliver_one(letter);
    }
    mesh.mail.clear();
    mesh.pass(100);
    assert!(!mesh.decided[&(1, ticket)].committed);
    assert_eq!(mesh.passed(0, 5, &[charge(keys[1], &limit)]), 1, "one was earned, and one only");
}

/// Fails when local spending is kept, or the refund leaves the counter frozen.
#[test]
fn remotely_refused_batch_leaves_no_local_spending() {
    let (window, few) = (Limit::fixed_window(100, Period::HOUR), bucket(1, 8));
    for owner in [1, 2] {
        let mut mesh = Mesh::new(3, &strict());
        let (here, there) = (mesh.key(owner, 1), mesh.key(0, 2));
        assert_eq!(mesh.passed(0, 7, &[charge(there, &few)]), 7);
        let batch = [charge(here, &window), charge(there, &few)];
        // It sees the last token, and another node is faster.
        let ticket = mesh.ask(1, &batch).expect_err("it looks first");
        let looks = std::mem::take(&mut mesh.mail);
        for letter in &looks {
            mesh.deliver_one(letter);
        }
        assert!(mesh.passes_now(0, &[charge(there, &few)]));
        mesh.deliver();
        mesh.pass(50);
        assert!(!mesh.decided[&(1, ticket)].committed);
        let still = mesh.nodes[1].table.counters.look(&here, |counter| counter.is_frozen);
        assert_eq!(still, Some(false), "owned by {owner}");
        assert_eq!(mesh.passed(1, 130, &[charge(here, &window)]), 100, "owned by {owner}");
    }
}

/// Fails when a refund lowers a count that contains reserved shares and grants.
#[test]
fn refund_never_returns_allowance_of_others() {
    for limit in [Limit::fixed_window(60, Period::SECOND), Limit::sliding_window(60, Period::SECOND)] {
        for refunder in 0..3 {
            let mut mesh = Mesh::new(3, &strict());
            let key = mesh.key(0, 1);
            mesh.passed(1, 40, &[charge(key, &limit)]);
            // The next window but one: nothing of it is spent, some is held.
            mesh.pass(2_000);
            mesh.passes(2, &[charge(key, &limit)]);
            let refund = Charge { op: Op::Refund, cost: Cost::new(40), ..charge(key, &limit) };
            assert!(mesh.passes(refunder, &[refund]));
            let start = mesh.now;
            let mut passed = 1;
            for round in 0..200 {
                passed += usize::from(mesh.passes(round % 3, &[charge(key, &limit)]));
            }
            assert!(mesh.now.as_nanos() / 1_000_000_000 == start.as_nanos() / 1_000_000_000, "one window");
            // The one that was spent may come back.
            assert!(passed <= 61, "{passed} of {limit}, refunded at {refunder}");
        }
    }
}

/// A reply comes so late that its request was refused, and its spending is undone; meanwhile the bucket was
/// full and was drained.
///
/// Fails when everything is refunded whatever was earned since (6).
#[test]
fn undo_after_a_full_bucket_admits_nothing_twice() {
    let limit = bucket(200, 5);
    let mut mesh = Mesh::new(3, &strict());
    let key = mesh.key(0, 1);
    mesh.pass(100);
    let ticket = mesh.ask(1, &[charge(key, &limit)]).expect_err("its owner decides");
    for letter in &std::mem::take(&mut mesh.mail) {
        mesh.deliver_one(letter);
    }
    let late = std::mem::take(&mut mesh.mail);
    mesh.pass(50);
    assert!(!mesh.decided[&(1, ticket)].committed, "the request timed out");
    let mut passed = (0..9).filter(|_| mesh.passes_now(0, &[charge(key, &limit)])).count();
    for letter in &late {
        mesh.deliver_one(letter);
    }
    mesh.deliver();
    passed += (0..9).filter(|_| mesh.passes_now(0, &[charge(key, &limit)])).count();
    assert_eq!(passed, 5);
}

/// Fails when an undo is applied in whatever window has begun meanwhile.
#[test]
fn undo_after_its_window_lowers_no_other_count() {
    let limit = Limit::fixed_window(5, Period::SECOND);
    let other = bucket(1, 8);
    let mut mesh = Mesh::new(3, &MeshOptions { grant_ahead: false, ..strict() });
    let (key, full) = (mesh.key(0, 1), mesh.key(2, 2));
    assert_eq!(mesh.passed(2, 7, &[charge(full, &other)]), 7);
    // Near the end of a window both are peeked at, and one of them is spent.
    mesh.pass(980);
    mesh.tick(5);
    mesh.mail.clear();
    let ticket = mesh.ask(1, &[charge(key, &limit), charge(full, &other)]).expect_err("it looks first");
    let looks = std::mem::take(&mut mesh.mail);
    for letter in &looks {
        mesh.deliver_one(letter);
    }
    let drained = Charge { cost: Cost::new(8), op: Op::Debit, ..charge(full, &other) };
    let _ = mesh.ask(2, &[drained]);
    let answers: Vec<TransitFrame> = std::mem::take(&mut mesh.mail);
    for letter in &answers {
        mesh.deliver_one(letter);
    }
    let doing: Vec<TransitFrame> = std::mem::take(&mut mesh.mail);
    for letter in &doing {
        mesh.deliver_one(letter);
    }
    let done: Vec<TransitFrame> = std::mem::take(&mut mesh.mail);
    // The next window begins at the owner and is used up; then the undo arrives.
    mesh.now = mesh.now.saturating_add(std::time::Duration::from_millis(20));
    let mut passed = 0;
    for _ in 0..9 {
        passed += usize::from(mesh.passes_now(0, &[charge(key, &limit)]));
    }
    for letter in &done {
        mesh.deliver_one(letter);
    }
    mesh.deliver();
    assert!(!mesh.decided[&(1, ticket)].committed);
    passed += mesh.passed(0, 9, &[charge(key, &limit)]);
    assert_eq!(passed, 5);
}

// Fails when a decision joins a request again and again, so that with sixty counters a node was busy forever.
#[test]
fn request_of_many_counters_waits_once_for_each() {
    let limit = Limit::fixed_window(600, Period::HOUR);
    let mut mesh = Mesh::new(3, &strict());
    let keys: Vec<Key> =
        (0..14_u64).map(|number| mesh.key(if number % 2 == 0 { 0 } else { 2 }, number)).collect();
    // This node has no allowance of them left.
    for key in &keys {
        while mesh.passes_now(1, &[charge(*key, &limit)]) {}
    }
    mesh.mail.clear();
    mesh.pass(2_000);
    let batch: Vec<Charge<'_>> = keys.iter().map(|key| charge(*key, &limit)).collect();
    let ticket = mesh.ask(1, &batch).expect_err("owners are asked");
    let mut most = 0;
    while !mesh.mail.is_empty() {
        most = mesh.nodes[1].asks.values().map(|ask| ask.tickets.len()).max().unwrap_or(0).max(most);
        let letter = mesh.mail.remove(0);
        mesh.deliver_one(&letter);
    }
    assert_eq!(most, 1);
    assert!(mesh.decided.contains_key(&(1, ticket)));
}

// Fails when an owner or a member counts a refused cost above the limit.
#[test]
fn oversized_cost_bars_no_client_of_mesh_with_room() {
    for burst in [5, 1_000] {
        let limits = [Limit::fixed_window(burst, Period::DAY), Limit::sliding_window(burst, Period::DAY)];
        for limit in limits.into_iter().chain([bucket(1, burst)]) {
            let mut mesh = Mesh::new(3, &MeshOptions::default());
            mesh.on_refusal = OnRefusal::CountRefusing;
            let key = mesh.key(0, 1);
            for (node, cost) in (0..6).zip([u64::from(burst) + 1, 10_000, u64::MAX].into_iter().cycle()) {
                let oversized = Charge { cost: Cost::new(cost), ..charge(key, &limit) };
                assert!(!mesh.passes(node % 3, &[oversized]), "{limit}, {cost}");
            }
            mesh.pass(100);
            let fifth = Charge { cost: Cost::new(u64::from(burst) / 5), ..charge(key, &limit) };
            assert_eq!([1, 2, 0].map(|node| mesh.passed(node, 2, &[fifth])), [2, 2, 1], "{limit}");
        }
    }
}
