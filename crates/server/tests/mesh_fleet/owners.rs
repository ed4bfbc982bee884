//! Which node owns a counter: the one that never asks for it.

use crate::fleet::Fleet;
use crate::load::ask;
use crate::moment::{SECOND, with_room};
use futures_util::future::join_all;
use hivemind_testkit::request;
use std::time::Duration;

/// How often owners were asked, by the nodes' own count.
pub(crate) const ASKED: &str = "hivemind_mesh_asks_total";

/// The owner of a counter with a window of a second, of which a node may spend less than `requests` without asking.
pub(crate) async fn owner(fleet: &Fleet, text: &str, requests: usize) -> usize {
    let mut owners = Vec::new();
    for index in 0..fleet.nodes.len() {
        // Rights of the last window are not spent in the next.
        with_room(SECOND, Duration::from_millis(900)).await;
        let before = fleet.metric(index, ASKED).await;
        let client = fleet.nodes[index].client();
        join_all((0..requests).map(|_| ask(client.clone(), request("d", text)))).await;
        let asked = fleet.metric(index, ASKED).await - before;
        if asked < 0.5 {
            owners.push(index);
        }
    }
    let [owner] = owners[..] else { panic!("owners of {text}: {owners:?}") };
    owner
}
