//! Real sockets on loopback: nodes that find each other, and share a limit.

mod authority;
mod nodes;

use hivemind_core::store::{Charge, Context, Key, Parts, Store};
use hivemind_core::{Clock, Limit, Period, SystemClock};
use nodes::Nodes;

/// Five a day, wherever they come in: the first five and no sixth.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_that_know_one_of_them_share_a_small_limit_exactly() {
    let nodes = Nodes::started(3).await;
    nodes.all_are_members().await;
    let limit = Limit::fixed_window(5, Period::DAY);
    let charge = Charge::spend(Key::from_bits(1, 2), Parts { domain: "test", entries: &[] }, &limit);
    let mut admitted = 0;
    for index in 0..20 {
        let store = nodes.list[index % 3].store();
        let context = Context::at(SystemClock.now());
        let verdicts = store.decide(&[charge], context).await.unwrap();
        admitted += u32::from(verdicts.committed);
        assert_eq!(verdicts.committed, index < 5, "request {index}");
    }
    assert_eq!(admitted, 5);
    nodes.leave().await;
}
