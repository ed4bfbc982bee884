//! Connection states without a connection.

use super::*;

const TIMEOUTS: ConnectionTimeouts =
    ConnectionTimeouts { head: Duration::from_secs(5), idle: Duration::from_secs(60) };

fn after(activity: &ConnectionActivity, seconds: u64) -> Order {
    activity.judge(now().saturating_add(Duration::from_secs(seconds)), TIMEOUTS)
}

/// Fails when the head timeout is counted from the last response.
#[test]
fn incomplete_head_and_idle_connection_time_out() {
    let registry = ConnectionRegistry::default();
    let activity = registry.enter(Weak::new());
    assert_eq!((after(&activity, 4), after(&activity, 6)), (Order::Stay, Order::Abort));
    let request = activity.begin_request(false);
    activity.record_received();
    assert_eq!(after(&activity, 1_000), Order::Stay);
    drop(request);
    assert_eq!((after(&activity, 0), after(&activity, 6)), (Order::Stay, Order::Rest));
    assert_eq!(after(&activity, 61), Order::Drain);
    activity.record_received();
    assert_eq!((after(&activity, 4), after(&activity, 6)), (Order::Stay, Order::Abort));
}

#[test]
fn idle_http2_connection_drains_before_it_is_closed() {
    let registry = ConnectionRegistry::default();
    let activity = registry.enter(Weak::new());
    activity.set_http2();
    assert_eq!((after(&activity, 59), after(&activity, 61)), (Order::Stay, Order::Drain));
    drop(activity.begin_request(false));
    activity.record_received();
    assert_eq!((after(&activity, 59), after(&activity, 61)), (Order::Stay, Order::Drain));
    let late = now().saturating_add(TIMEOUTS.idle);
    registry.check(late, TIMEOUTS);
    assert_eq!(activity.order.get(), Order::Drain);
    registry.check(late, TIMEOUTS);
    assert_eq!(activity.order.get(), Order::Abort);
}

#[test]
fn unread_response_closes_the_connection() {
    let activity = ConnectionRegistry::default().enter(Weak::new());
    let _visit = activity.begin_request(false);
    activity.record_write(true);
    assert_eq!((after(&activity, 59), after(&activity, 61)), (Order::Stay, Order::Abort));
    activity.record_write(false);
    assert_eq!(after(&activity, 61), Order::Stay);
}

#[test]
fn unfinished_body_keeps_its_connection_open() {
    let registry = ConnectionRegistry::default();
    let activity = registry.enter(Weak::new());
    let upload = Arc::<Upload>::default();
    let request = activity.begin_request(true);
    request.record_upload(Arc::clone(&upload));
    drop(request);
    activity.record_received();
    let late = now().saturating_add(TIMEOUTS.idle * 2);
    registry.check(late, TIMEOUTS);
    assert_eq!(activity.order.get(), Order::Stay);
    upload.mark_abandoned();
    registry.check(late, TIMEOUTS);
    assert_eq!(activity.order.get(), Order::Stay, "idle from when the body ended");
    registry.check(late.saturating_add(TIMEOUTS.idle), TIMEOUTS);
    assert_eq!(activity.order.get(), Order::Drain);
}

#[test]
fn closed_connections_are_removed_and_new_ones_drain() {
    let registry = ConnectionRegistry::default();
    let (stays, goes) = (registry.enter(Weak::new()), registry.enter(Weak::new()));
    drop(goes);
    registry.check(now(), TIMEOUTS);
    assert_eq!(registry.all.borrow().len(), 1);
    registry.is_stopping.set(true);
    assert_eq!(registry.enter(Weak::new()).order.get(), Order::Drain);
    assert_eq!(stays.order.get(), Order::Stay);
}
