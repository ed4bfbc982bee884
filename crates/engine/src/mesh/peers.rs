//! Peers and shared counters in API responses.

use hivemind_mesh::Holding;
use hivemind_mesh_net::{Peer, Transport};
use serde_json::{Value, json};
use std::time::Duration;

/// All peers, sorted by name.
pub(super) fn shown(peers: &[Peer]) -> Value {
    json!({"peers": peers.iter().map(shown_one).collect::<Vec<_>>()})
}

/// The distribution of one counter over the nodes.
pub fn shown_holding(holding: &Holding) -> Value {
    let each = holding.each.as_ref().map(|each| {
        each.iter().map(|(node, held)| (node.to_string(), json!(held))).collect::<serde_json::Map<_, _>>()
    });
    json!({
        "owner": holding.owner.as_str(),
        "is_owner": holding.is_owner,
        "held_here": holding.here,
        "held": each,
        "held_by_others": holding.others,
        "unaccounted": holding.unaccounted,
    })
}

fn shown_one(peer: &Peer) -> Value {
    json!({
        "name": peer.name.as_str(),
        "address": peer.address.to_string(),
        "generation": peer.generation,
        "state": peer.state.as_str(),
        "member": peer.is_member,
        "transport": peer.transport.map(Transport::as_str),
        "rtt_ms": peer.round_trip.map(millis),
        "clock_offset_ms": peer.clock_offset_us.map(offset),
        "staleness_ms": peer.silence.map(millis),
        "rights_held": peer.rights_held,
        "bytes_in": peer.bytes_in,
        "bytes_out": peer.bytes_out,
        "frames_lost": peer.frames_lost,
        "connections": peer.connections,
    })
}

fn offset(micros: i64) -> f64 {
    let millis = millis(Duration::from_micros(micros.unsigned_abs()));
    if micros < 0 { -millis } else { millis }
}

/// Milliseconds with microsecond precision.
fn millis(span: Duration) -> f64 {
    (span.as_secs_f64() * 1_000_000.0).round() / 1_000.0
}
