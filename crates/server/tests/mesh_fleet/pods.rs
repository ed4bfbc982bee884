//! Nodes with the default addresses: they listen at every address and advertise none, like pods behind a
//! headless service.

use crate::fleet::Plan;
use crate::rules::RULES;
use crate::small_limits::assert_exactly_the_first_pass;
use crate::window_time::until_true;
use hivemind_testkit::within;

/// The DNS name of all nodes.
const NAME: &str = "mesh.test";

#[tokio::test]
async fn nodes_with_default_addresses_join_by_name_and_drop_removed() {
    let plan = Plan::new(3, RULES).with_long_timeouts().in_namespaces().with_dns_name(NAME);
    let Some(mut fleet) = plan.prepare().await else { return };
    fleet.name(NAME, &[0, 1, 2]);
    for index in 0..3 {
        fleet.start(index).await;
    }
    fleet.settled().await;
    // Each is called at the address that the others saw, with the port that it listens at.
    for (index, node) in fleet.nodes.iter().enumerate() {
        for peer in node.peers().await {
            let other = fleet.nodes.iter().find(|other| peer["name"] == other.name).expect("a node of ours");
            assert_eq!(peer["address"], other.mesh.to_string(), "{peer}");
        }
        let overlaps = fleet.metric(index, "hivemind_mesh_overlaps_total").await;
        assert!(overlaps < 0.5, "one mesh from the start");
    }
    assert_exactly_the_first_pass(&fleet, "pods").await;
    fleet.nodes[2].kill().await;
    fleet.name(NAME, &[0, 1]);
    for index in 0..2 {
        let is_removed = async || (fleet.metric(index, "hivemind_mesh_members").await - 2.0).abs() < 0.5;
        within("a view without the dead node", until_true(is_removed)).await;
    }
}
