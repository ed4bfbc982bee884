//! Requests and replies: who may reply, and the effect of duplicates.

use super::*;
use crate::frame::{OwnerReply, OwnerUpdate};
use hivemind_core::store::{Outcome, Verdict};

/// Fails when a reply is accepted from any peer that names the request.
#[test]
fn reply_counts_only_from_the_asked_peer() {
    let limit = Limit::fixed_window(5, Period::HOUR);
    let small = bucket(1, 3);
    let mut mesh = Mesh::new(3, &strict());
    let (window, key) = (mesh.key(0, 1), mesh.key(0, 2));
    let granted = OwnerUpdate { granted: 5, left: 5, ..OwnerUpdate::default() };
    let admitted = Verdict {
        outcome: Outcome::Admitted,
        available: 3,
        remaining: 2,
        reset_after: Period::SECOND.length(),
    };
    // Ids are guessed: they count up from one.
    for (key, limit, reply) in
        [(window, limit, OwnerReply::Granted), (key, small, OwnerReply::Done(admitted))]
    {
        let ticket = mesh.ask(1, &[charge(key, &limit)]).expect_err("it waits for the owner");
        mesh.mail.clear();
        let window_ref = mesh.window_ref(key, &limit);
        let items: Vec<Item> = (1..20)
            .map(|id| Item::Answer { id, window_ref, update: granted, reply: reply.clone() })
            .collect();
        mesh.forge((2, 1), None, &items);
        assert!(mesh.decided.get(&(1, ticket)).is_none_or(|verdicts| !verdicts.committed), "{limit}");
        mesh.pass(100);
        assert!(!mesh.decided[&(1, ticket)].committed, "{limit}");
    }
}

/// Fails when only 32 requests are remembered per member, so that a late repetition of a refund is applied
/// twice.
#[test]
fn late_duplicate_of_a_request_is_ignored() {
    let limit = bucket(1, 8);
    let mut mesh = Mesh::new(3, &MeshOptions { grant_ahead: false, ..strict() });
    let key = mesh.key(0, 1);
    assert_eq!(mesh.passed(1, 10, &[charge(key, &limit)]), 8);
    // Two are refunded, and the network keeps that frame.
    let refund = Charge { op: Op::Refund, cost: Cost::new(2), ..charge(key, &limit) };
    let _ = mesh.ask(1, &[refund]);
    let kept: Vec<TransitFrame> = mesh.mail.clone();
    mesh.deliver();
    assert_eq!(mesh.passed(1, 60, &[charge(key, &limit)]), 2);
    for letter in &kept {
        mesh.deliver_one(letter);
    }
    mesh.deliver();
    assert_eq!(mesh.passed(1, 5, &[charge(key, &limit)]), 0);
}

/// The owner did not have four; it has two.
///
/// Fails when a request's cost is compared with the amount that another one lacked.
#[test]
fn smaller_request_follows_an_exhausted_larger_one() {
    let limit = Limit::fixed_window(20, Period::HOUR);
    let mut mesh = Mesh::new(3, &MeshOptions { recall: false, ..strict() });
    let key = mesh.key(0, 1);
    let costs = |cost| Charge { cost: Cost::new(cost), ..charge(key, &limit) };
    let other = mesh.key(2, 2);
    let five = Limit::fixed_window(5, Period::HOUR);
    assert_eq!(mesh.passed(2, 9, &[charge(other, &five)]), 5);
    // Three are requested and not spent.
    assert!(!mesh.passes(1, &[costs(3), charge(other, &five)]));
    assert_eq!(mesh.passed(0, 15, &[charge(key, &limit)]), 15);
    assert!(!mesh.passes(1, &[costs(7)]), "there are five");
    assert!(mesh.passes(1, &[costs(5)]), "it has three, and the owner two");
}

/// The owner has granted its own, recalls the rest, and a second request waits for that; its sender crashes and
/// comes back.
///
/// Fails when the reply to the previous generation, with all its grants, goes to the new one (found by the deep
/// model: 4 of 3).
#[test]
fn grant_to_an_earlier_generation_is_not_delivered() {
    let limit = Limit::fixed_window(3, Period::MINUTE);
    let mut mesh = Mesh::new(3, &MeshOptions { split_from: 1, ..strict() });
    let view = mesh.nodes[1].view().expect("in a view").clone();
    let key = (0..).map(|bits| Key::from_bits(bits, bits.wrapping_mul(SECRET)));
    let key =
        key.into_iter().find(|key| view.owner(*key) == Some(mesh.nodes[1].member())).expect("one of them");
    let charge = [Charge::spend(key, Parts { domain: "", entries: &[] }, &limit)];
    assert!(mesh.passes(0, &charge), "by its own share");
    assert!(mesh.passes(0, &charge), "by a grant of the owner");
    mesh.cut = vec![2];
    assert!(mesh.ask(0, &charge).is_err(), "it waits for what the third has");
    mesh.deliver();
    // The same name in a new generation; it asks before the owner gives up.
    let (name, run) = (mesh.nodes[0].member().id.clone(), mesh.nodes[0].member().generation.0 + 1);
    let mut again = Node::new(name, run, MeshOptions { split_from: 1, ..strict() }, mesh.now);
    again.join_view(
        mesh.nodes[1].membership.view_log().expect("in a view").clone(),
        view.members(),
        mesh.now,
    );
    mesh.nodes[0] = again;
    let ticket = mesh.ask(0, &charge).expect_err("it has no share");
    mesh.deliver();
    mesh.pass(2_000);
    let tag = crate::window::tag_at(&limit, mesh.now);
    let held: u64 = mesh.nodes.iter().map(|node| node.spendable((key, &limit, tag), mesh.now)).sum();
    let more = mesh.decided.get(&(0, ticket)).is_some_and(|verdicts| verdicts.committed);
    let admitted = 2 + u64::from(more);
    assert!(admitted + held <= 3, "{admitted} were admitted, and {held} can be spent");
}
