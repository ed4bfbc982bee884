//! Real sockets on loopback: nodes that find each other, and share a limit.

mod authority;
mod nodes;

use hivemind_core::store::{Charge, Context, Key, Mode, Op, Parts, Sharing, Store};
use hivemind_core::{Clock, Cost, Limit, Period, SystemClock};
use nodes::Nodes;

fn charge<'a>(limit: &'a Limit, parts: Parts<'a>) -> Charge<'a> {
    let key = Key::from_bits(1, 2);
    Charge { key, parts, limit, ordinal: 0, sharing: Sharing::default(), cost: Cost::ONE, op: Op::Spend, mode: Mode::Enforce }
}

/// Five a day, wherever they come in: the first five and no sixth.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_that_know_one_of_them_share_a_small_limit_exactly() {
    let nodes = Nodes::started(3).await;
    nodes.all_are_members().await;
    let limit = Limit::fixed_window(5, Period::DAY);
    let parts = Parts { domain: "test", entries: &[] };
    let mut admitted = 0;
    for index in 0..20 {
        let store = nodes.list[index % 3].store();
        let context = Context::at(SystemClock.now());
        let verdicts = store.decide(&[charge(&limit, parts)], context).await.unwrap();
        admitted += u32::from(verdicts.committed);
        assert_eq!(verdicts.committed, index < 5, "request {index}");
    }
    assert_eq!(admitted, 5);
    nodes.leave().await;
}
