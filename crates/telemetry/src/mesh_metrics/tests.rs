use super::{MeshMetrics, PeerMetrics};
use crate::exposition::exposition;
use crate::mesh_metrics::Latencies;

fn two_peers() -> MeshMetrics {
    let mut latencies = Latencies { count: 4, sum_us: 203_450, ..Latencies::default() };
    // One of 450 us, two of 1,500 us, and one that is longer than all buckets.
    (latencies.buckets[1], latencies.buckets[3]) = (1, 2);
    let near = PeerMetrics {
        name: "node-1".to_owned(),
        state: "alive",
        transport: "tcp",
        bytes_sent: 11,
        bytes_received: 22,
        messages_sent: 33,
        messages_received: 44,
        frames_lost: 55,
        round_trip_us: Some(1_500),
        latencies,
        clock_offset_us: Some(-2_000_001),
    };
    let gone = PeerMetrics {
        name: "a \"b\"".to_owned(),
        state: "dead",
        transport: "none",
        ..PeerMetrics::default()
    };
    let (certificate_expiry, ca_expiry) = (Some(1_900_000_000), Some(2_000_000_000));
    MeshMetrics { peers: vec![near, gone], certificate_expiry, ca_expiry, ..MeshMetrics::default() }
}

#[test]
fn what_is_counted_of_a_peer_is_on_the_page_under_its_name() {
    let page = exposition(&two_peers().families());
    for line in [
        "ratelimit_mesh_peers_active 1",
        r#"ratelimit_mesh_bytes_sent_total{peer_id="node-1"} 11"#,
        r#"ratelimit_mesh_bytes_received_total{peer_id="node-1"} 22"#,
        r#"ratelimit_mesh_state_updates_total{operation="send",peer_id="node-1"} 33"#,
        r#"ratelimit_mesh_state_updates_total{operation="receive",peer_id="node-1"} 44"#,
        r#"hivemind_mesh_frames_lost_total{peer_id="node-1"} 55"#,
        r#"hivemind_mesh_frames_lost_total{peer_id="a \"b\""} 0"#,
        r#"hivemind_mesh_round_trip_seconds{peer_id="node-1"} 0.0015"#,
        r#"hivemind_mesh_clock_offset_seconds{peer_id="node-1"} -2.000001"#,
        r#"ratelimit_mesh_sync_latency_bucket{operation="round_trip",peer_id="node-1",le="0.1"} 0"#,
        r#"ratelimit_mesh_sync_latency_bucket{operation="round_trip",peer_id="node-1",le="0.5"} 1"#,
        r#"ratelimit_mesh_sync_latency_bucket{operation="round_trip",peer_id="node-1",le="2"} 3"#,
        r#"ratelimit_mesh_sync_latency_bucket{operation="round_trip",peer_id="node-1",le="100"} 3"#,
        r#"ratelimit_mesh_sync_latency_bucket{operation="round_trip",peer_id="node-1",le="+Inf"} 4"#,
        r#"ratelimit_mesh_sync_latency_sum{operation="round_trip",peer_id="node-1"} 203.45"#,
        r#"ratelimit_mesh_sync_latency_count{operation="round_trip",peer_id="node-1"} 4"#,
        r#"hivemind_mesh_peers{state="alive",transport="tcp"} 1"#,
        r#"hivemind_mesh_peers{state="alive",transport="quic"} 0"#,
        r#"hivemind_mesh_peers{state="dead",transport="none"} 1"#,
        "hivemind_mesh_certificate_expiry_seconds 1900000000",
        "hivemind_mesh_ca_expiry_seconds 2000000000",
    ] {
        assert!(page.lines().any(|shown| shown == line), "{line} in {page}");
    }
    // What is not known of a peer is not there, rather than 0.
    assert!(!page.contains(r#"round_trip_seconds{peer_id="a"#), "{page}");
}
