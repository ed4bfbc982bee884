//! Connection states without a connection.

use super::*;

const LIMITS: Limits = Limits { head: Duration::from_secs(5), idle: Duration::from_secs(60) };

fn after(presence: &Presence, seconds: u64) -> Order {
    presence.judge(now().saturating_add(Duration::from_secs(seconds)), LIMITS)
}

/// Fails when the head timeout is counted from the last response.
#[test]
fn incomplete_head_and_idle_connection_time_out() {
    let roll = Roll::default();
    let presence = roll.enter();
    assert_eq!((after(&presence, 4), after(&presence, 6)), (Order::Stay, Order::Cut));
    let visit = presence.visit(false);
    presence.hears();
    assert_eq!(after(&presence, 1_000), Order::Stay);
    drop(visit);
    assert_eq!((after(&presence, 0), after(&presence, 6)), (Order::Stay, Order::Rest));
    assert_eq!(after(&presence, 61), Order::Leave);
    presence.hears();
    assert_eq!((after(&presence, 4), after(&presence, 6)), (Order::Stay, Order::Cut));
}

#[test]
fn idle_http2_connection_drains_before_it_is_closed() {
    let roll = Roll::default();
    let presence = roll.enter();
    presence.speaks_http2();
    assert_eq!((after(&presence, 59), after(&presence, 61)), (Order::Stay, Order::Leave));
    drop(presence.visit(false));
    presence.hears();
    assert_eq!((after(&presence, 59), after(&presence, 61)), (Order::Stay, Order::Leave));
    let late = now().saturating_add(LIMITS.idle);
    roll.look(late, LIMITS);
    assert_eq!(presence.order.get(), Order::Leave);
    roll.look(late, LIMITS);
    assert_eq!(presence.order.get(), Order::Cut);
}

#[test]
fn unread_response_closes_the_connection() {
    let presence = Roll::default().enter();
    let _visit = presence.visit(false);
    presence.takes(true);
    assert_eq!((after(&presence, 59), after(&presence, 61)), (Order::Stay, Order::Cut));
    presence.takes(false);
    assert_eq!(after(&presence, 61), Order::Stay);
}

#[test]
fn unfinished_body_keeps_its_connection_open() {
    let roll = Roll::default();
    let presence = roll.enter();
    let upload = Arc::<Upload>::default();
    let visit = presence.visit(true);
    visit.is_outlasted_by(Arc::clone(&upload));
    drop(visit);
    presence.hears();
    let late = now().saturating_add(LIMITS.idle * 2);
    roll.look(late, LIMITS);
    assert_eq!(presence.order.get(), Order::Stay);
    upload.is_left();
    roll.look(late, LIMITS);
    assert_eq!(presence.order.get(), Order::Stay, "idle from when the body ended");
    roll.look(late.saturating_add(LIMITS.idle), LIMITS);
    assert_eq!(presence.order.get(), Order::Leave);
}

#[test]
fn closed_connections_are_removed_and_new_ones_drain() {
    let roll = Roll::default();
    let (stays, goes) = (roll.enter(), roll.enter());
    drop(goes);
    roll.look(now(), LIMITS);
    assert_eq!(roll.all.borrow().len(), 1);
    roll.is_stopping.set(true);
    assert_eq!(roll.enter().order.get(), Order::Leave);
    assert_eq!(stays.order.get(), Order::Stay);
}
