//! Tests of the peer table.

use super::*;

fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([10, 1, 2, 3], port))
}

fn member(name: &str, generation: u64) -> Member {
    Member::new(NodeId::new(name), generation)
}

#[test]
fn table_is_learned_from_a_peer_except_for_the_own_entry() {
    let now = Timestamp::from_millis(1_000_000);
    let mut here = PeerTable::new(NodeId::new("a"), 10);
    assert!(here.record_connection(&member("b", 1), at(1), now));
    assert!(here.record_connection(&member("c", 1), at(2), now));
    let mut there = PeerTable::new(NodeId::new("b"), 10);
    assert!(there.read(&here.write(now), now).unwrap().has_changes);
    assert_eq!(there.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["c"]);
    assert!(!there.read(&here.write(now), now).unwrap().has_changes);
}

#[test]
fn later_generation_replaces_the_address_and_earlier_does_not() {
    let now = Timestamp::from_millis(1_000_000);
    let mut table = PeerTable::new(NodeId::new("a"), 10);
    assert!(table.record_report(&member("b", 5), at(1), now, now));
    assert!(!table.record_report(&member("b", 4), at(9), now, now));
    assert!(table.record_report(&member("b", 6), at(2), now, now));
    assert_eq!(table.iter().next().unwrap().1.address, at(2));
}

#[test]
fn table_is_bounded_and_entries_expire() {
    let now = Timestamp::from_millis(10_000_000);
    let mut table = PeerTable::new(NodeId::new("a"), 2);
    for (name, port) in [("b", 1), ("c", 2), ("d", 3)] {
        table.record_connection(&member(name, 1), at(port), now);
    }
    assert_eq!(table.iter().count(), 2);
    // An expired entry must not return by another node's report.
    let later = now.saturating_add(EXPIRY);
    let message = table.write(later);
    table.remove_expired(later, |_| false);
    assert!(!table.read(&message, later).unwrap().has_changes);
    assert_eq!(table.iter().count(), 0);
}

// Fails when departures are not stored, or when later generations are rejected with the earlier one.
#[test]
fn departed_generation_stays_removed_and_the_next_is_added() {
    let now = Timestamp::from_millis(1_000_000);
    let mut table = PeerTable::new(NodeId::new("a"), 10);
    table.record_connection(&member("b", 5), at(1), now);
    let message = table.write(now);
    table.record_departure(&member("b", 5));
    assert!(!table.contains(&NodeId::new("b")));
    let mut other = PeerTable::new(NodeId::new("c"), 10);
    other.read(&message, now).unwrap();
    assert!(!table.read(&other.write(now), now).unwrap().has_changes);
    assert!(!table.contains(&NodeId::new("b")));
    assert!(table.record_connection(&member("b", 6), at(1), now));
}

// Fails when members expire like other entries.
#[test]
fn members_of_the_view_never_expire() {
    let now = Timestamp::from_millis(1_000_000);
    let mut table = PeerTable::new(NodeId::new("a"), 10);
    table.record_connection(&member("b", 1), at(1), now);
    table.record_connection(&member("c", 1), at(2), now);
    table.remove_expired(now.saturating_add(EXPIRY * 100), |name| name.as_str() == "b");
    assert_eq!(table.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["b"]);
}

// Fails when the whole table is written each time.
#[test]
fn change_is_written_once() {
    let now = Timestamp::from_millis(1_000_000);
    let mut here = PeerTable::new(NodeId::new("a"), 100);
    for port in 1..60 {
        here.record_connection(&member(&format!("node-{port}"), 1), at(port), now);
    }
    let first = here.write_changes(now).unwrap();
    assert_eq!(here.write_changes(now), None);
    here.record_connection(&member("node-7", 1), at(7), now);
    assert_eq!(here.write_changes(now), None, "the address is the same");
    here.record_connection(&member("node-7", 2), at(99), now);
    let changes = here.write_changes(now).unwrap();
    assert!(changes.len() < 60 && first.len() > 1_000, "{} {}", changes.len(), first.len());
    let mut there = PeerTable::new(NodeId::new("b"), 100);
    assert!(there.read(&first, now).unwrap().has_changes);
    assert!(there.read(&changes, now).unwrap().has_changes);
    assert!(!there.read(&here.write(now), now).unwrap().has_changes);
}

// Fails when a reported address overwrites that of a connection: two peers would send each other changes forever.
#[test]
fn two_addresses_of_one_peer_are_gossiped_once() {
    let now = Timestamp::from_millis(1_000_000);
    let (mut here, mut there) = (PeerTable::new(NodeId::new("a"), 10), PeerTable::new(NodeId::new("b"), 10));
    here.record_connection(&member("c", 1), at(1), now);
    there.record_connection(&member("c", 1), at(2), now);
    let message = [here.write(now), there.write(now)];
    for (message, listener) in message.iter().zip([&mut there, &mut here]) {
        listener.write_changes(now);
        assert!(!listener.read(message, now).unwrap().has_changes);
        assert_eq!(listener.write_changes(now), None);
    }
    assert_eq!(here.iter().next().unwrap().1.address, at(1));
    assert_eq!(there.iter().next().unwrap().1.address, at(2));
}

// Fails when a reported generation and its address override a connection.
#[test]
fn false_generation_does_not_survive_a_connection() {
    let now = Timestamp::from_millis(1_000_000);
    let mut false_table = PeerTable::new(NodeId::new("b"), 10);
    false_table.record_report(&member("c", u64::MAX), at(9), now, now);
    let false_report = false_table.write(now);
    let entry = |table: &PeerTable| table.iter().next().map(|(_, known)| (known.generation.0, known.address));

    let mut table = PeerTable::new(NodeId::new("a"), 10);
    assert!(table.read(&false_report, now).unwrap().has_changes);
    assert!(table.record_connection(&member("c", 1), at(1), now));
    assert_eq!(entry(&table), Some((1, at(1))));
    // While the peer is connected, the false address is dialed, but neither stored nor gossiped.
    table.write_changes(now);
    assert!(!table.read(&false_report, now).unwrap().has_changes);
    assert_eq!((entry(&table), table.write_changes(now)), (Some((1, at(1))), None));
    assert_eq!(table.addresses().collect::<Vec<_>>(), [at(1), at(9)]);
    table.record_connection(&member("c", 1), at(1), now);
    assert_eq!(table.addresses().collect::<Vec<_>>(), [at(1)]);
    // A disconnected peer may have moved, so the report counts.
    let later = now.saturating_add(CONNECTION_EXPIRY);
    assert!(table.read(&false_report, later).unwrap().has_changes);
    assert_eq!(entry(&table), Some((u64::MAX, at(9))));
}

// Fails when reports of this node's own name are ignored.
#[test]
fn generation_of_the_own_name_is_returned_and_not_stored() {
    let now = Timestamp::from_millis(1_000_000);
    let mut other = PeerTable::new(NodeId::new("b"), 10);
    other.record_connection(&member("a", 7), at(1), now);
    let mut table = PeerTable::new(NodeId::new("a"), 10);
    let message = table.read(&other.write(now), now).unwrap();
    assert_eq!(message, TableUpdate { has_changes: false, own_generation: Some(Generation(7)), trailing: 0 });
    assert_eq!(table.iter().count(), 0);
}
