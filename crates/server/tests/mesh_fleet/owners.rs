//! The owner of a counter: the node that never asks for it.

use crate::fleet::Fleet;
use crate::load::ask;
use crate::window_time::{SECOND, wait_for_room};
use futures_util::future::join_all;
use hivemind_testkit::request;
use std::time::Duration;

/// How often owners were asks, by the nodes' own count.
pub(crate) const ASKS: &str = "hivemind_mesh_asks_total";

/// The owner of a counter with a one-second window, of which a node may spend less than `requests` without
/// asking.
pub(crate) async fn owner(fleet: &Fleet, text: &str, requests: usize) -> usize {
    let mut owners = Vec::new();
    for index in 0..fleet.nodes.len() {
        // Allowance of the previous window is not valid in the next.
        wait_for_room(SECOND, Duration::from_millis(900)).await;
        let before = fleet.metric(index, ASKS).await;
        let client = fleet.nodes[index].client();
        join_all((0..requests).map(|_| ask(client.clone(), request("d", text)))).await;
        let asks = fleet.metric(index, ASKS).await - before;
        if asks < 0.5 {
            owners.push(index);
        }
    }
    let [owner] = owners[..] else { panic!("owners of {text}: {owners:?}") };
    owner
}
