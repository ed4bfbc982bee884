//! One limit at several nodes: the nodes together admit exactly the limit.

use hivemind_core::{Clock, SystemClock};
use hivemind_testkit::mesh::{MeshAuthority, RULES, peers, until};
use hivemind_testkit::{Setup, get, overall, request};

/// The number of the current minute.
fn minute() -> u64 {
    SystemClock.now().as_nanos() / 60_000_000_000
}

#[tokio::test]
async fn first_calls_up_to_the_limit_pass_at_any_node() {
    let authority = MeshAuthority::new();
    let nodes = authority.nodes(3).await;
    let mut attempt = 0;
    let verdicts = loop {
        // If the minute ends meanwhile, the next one has another counter.
        attempt += 1;
        let began = minute();
        let mut verdicts = Vec::new();
        for key in ["five", "ten"] {
            for index in 0..15 {
                let answer = nodes[index % 3].ask("d", &format!("{key}={attempt}")).await;
                verdicts.push(overall(&answer));
            }
        }
        if minute() == began {
            break verdicts;
        }
    };
    let expected: Vec<&str> = [(5, 10), (10, 5)]
        .iter()
        .flat_map(|(ok, over)| [vec!["OK"; *ok], vec!["OVER"; *over]].concat())
        .collect();
    assert_eq!(verdicts, expected);
}

#[tokio::test]
async fn peer_list_shows_every_node_except_itself() {
    let authority = MeshAuthority::new();
    let nodes = authority.nodes(3).await;
    for (index, node) in nodes.iter().enumerate() {
        // Clock offsets are measured by a message and its reply, shortly after a peer joined.
        until("clocks to be compared", async || {
            peers(node).await.iter().all(|peer| peer["clock_offset_ms"].is_number())
        })
        .await;
        let listed = peers(node).await;
        let others: Vec<String> =
            (0..3).filter(|other| *other != index).map(|other| format!("node-{other}")).collect();
        let names: Vec<&str> = listed.iter().map(|peer| peer["name"].as_str().unwrap()).collect();
        assert_eq!(names, others);
        for peer in &listed {
            let other: usize = peer["name"].as_str().unwrap().trim_start_matches("node-").parse().unwrap();
            assert_eq!(peer["address"], nodes[other].mesh.to_string());
            assert_eq!((&peer["state"], &peer["transport"]), (&"alive".into(), &"quic".into()), "{peer}");
            for number in [
                "generation",
                "rtt_ms",
                "clock_offset_ms",
                "staleness_ms",
                "rights_held",
                "bytes_in",
                "bytes_out",
            ] {
                assert!(peer[number].is_number(), "{number} in {peer}");
            }
            assert!(
                peer["bytes_in"].as_u64().unwrap() > 0 && peer["bytes_out"].as_u64().unwrap() > 0,
                "{peer}"
            );
        }
    }
    let page = nodes[0].metrics().await;
    assert_eq!(page.metric("ratelimit_mesh_peers_active"), Some(2));
    assert_eq!(page.metric("hivemind_mesh_members"), Some(3));
    assert_eq!(page.metric("hivemind_mesh_overadmission_total"), Some(0));
    assert!(page.metric("ratelimit_mesh_bytes_sent_total{peer_id=\"node-1\"}").unwrap() > 0);
    assert!(page.metric("hivemind_mesh_certificate_expiry_seconds").unwrap() > 1_700_000_000);
}

#[tokio::test]
async fn peer_list_without_a_mesh_is_empty() {
    let server = Setup::rules(RULES).start().await;
    let page = get(server.admin, "/api/v1/peers").await;
    assert_eq!((page.code, page.body.trim()), (200, r#"{"peers":[]}"#));
    assert_eq!(page.header("content-type"), Some("application/json"));
    assert_eq!(server.metrics().await.metric("ratelimit_mesh_peers_active"), Some(0));
}

// Seen failing on: an owner that does not add up over-admission (the metric stays 0).
#[tokio::test]
async fn over_admission_is_counted_when_the_window_ends() {
    let authority = MeshAuthority::new();
    let nodes = authority.nodes(3).await;
    let mut clients = Vec::new();
    for node in &nodes {
        clients.push(node.client().await);
    }
    // At once and at all nodes: an `eventual` limit learns of other nodes' hits later.
    until("more than the limit to be counted", async || {
        let calls = (0..30).map(|call| {
            let mut client = clients[call % 3].clone();
            async move { client.should_rate_limit(request("d", "loose=v")).await.unwrap() }
        });
        futures_util::future::join_all(calls).await;
        let mut beyond = 0;
        for node in &nodes {
            beyond += node.metrics().await.metric("hivemind_mesh_overadmission_total").unwrap();
        }
        beyond >= 5
    })
    .await;
}
