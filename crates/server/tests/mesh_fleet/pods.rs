//! Nodes as they are by default: they listen at every address and advertise none, as pods behind a headless service do.

use crate::fleet::Plan;
use crate::moment::until_so;
use crate::rules::RULES;
use crate::small_limits::exactly_the_first_pass;
use hivemind_testkit::within;

/// The name that all nodes are behind.
const NAME: &str = "mesh.test";

#[tokio::test]
async fn nodes_that_listen_everywhere_and_advertise_nothing_find_each_other_by_name_and_bury_who_is_gone_from_it()
 {
    let plan = Plan::new(3, RULES).patient().in_namespaces().behind(NAME);
    let Some(mut fleet) = plan.prepare().await else { return };
    fleet.name(NAME, &[0, 1, 2]);
    for index in 0..3 {
        fleet.start(index).await;
    }
    fleet.settled().await;
    // Each is called where the others saw it call from, at the port that it listens at.
    for (index, node) in fleet.nodes.iter().enumerate() {
        for peer in node.peers().await {
            let other = fleet.nodes.iter().find(|other| peer["name"] == other.name).expect("a node of ours");
            assert_eq!(peer["address"], other.mesh.to_string(), "{peer}");
        }
        let overlaps = fleet.metric(index, "hivemind_mesh_overlaps_total").await;
        assert!(overlaps < 0.5, "one mesh from the start");
    }
    exactly_the_first_pass(&fleet, "pods").await;
    fleet.nodes[2].kill().await;
    fleet.name(NAME, &[0, 1]);
    for index in 0..2 {
        let is_alone = async || (fleet.metric(index, "hivemind_mesh_members").await - 2.0).abs() < 0.5;
        within("a view without who is gone", until_so(is_alone)).await;
    }
}
