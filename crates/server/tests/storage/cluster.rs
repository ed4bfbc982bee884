//! Nodes that share limits in a Redis cluster of three, and nodes with leases.

use crate::nodes::{LONG_TIMEOUT_MS, fallbacks, metric, node, until_metric};
use crate::sharing::passed;
use hivemind_testkit::redis::{Redis, free_port};
use hivemind_testkit::{Server, Setup, within};

/// Three servers that each own a third of the slots and know each other.
async fn cluster() -> Vec<Redis> {
    let mut servers = Vec::new();
    for slots in [["0", "5460"], ["5461", "10922"], ["10923", "16383"]] {
        let bus = free_port().to_string();
        let server = Redis::start_with(&["--cluster-enabled", "yes", "--cluster-port", &bus]).await;
        assert_eq!(server.command(&["cluster", "addslotsrange", slots[0], slots[1]]).await.trim(), "OK");
        let epoch = (servers.len() + 1).to_string();
        assert_eq!(server.command(&["cluster", "set-config-epoch", &epoch]).await.trim(), "OK");
        servers.push((server, bus));
    }
    for (server, bus) in &servers[1..] {
        let port = server.port.to_string();
        let met = servers[0].0.command(&["cluster", "meet", "127.0.0.1", &port, bus]).await;
        assert_eq!(met.trim(), "OK");
    }
    for (server, _) in &servers {
        within("the cluster", async {
            let knows_all = async || {
                let slots = server.command(&["cluster", "slots"]).await;
                let info = server.command(&["cluster", "info"]).await;
                slots.matches("127.0.0.1").count() == 3 && info.contains("cluster_state:ok")
            };
            while !knows_all().await {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    servers.into_iter().map(|(server, _)| server).collect()
}

async fn two(setup: impl Fn() -> Setup) -> Vec<Server> {
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let mut node = setup().with("storage.redis.timeout_ms", LONG_TIMEOUT_MS).start().await;
        node.log.next("shared store connected").await;
        nodes.push(node);
    }
    nodes
}

#[tokio::test]
async fn nodes_share_a_limit_in_a_redis_cluster() {
    let servers = cluster().await;
    for server in &servers {
        // Exactly the permissions that the guide lists.
        let user = ["acl", "setuser", "node", "on", ">hunter2", "~hivemind:ratelimit:*"];
        let may =
            ["+evalsha", "+eval", "+get", "+set", "+pttl", "+del", "+time", "+@connection", "+cluster|slots"];
        assert_eq!(server.command(&[&user[..], &may[..]].concat()).await.trim(), "OK");
    }
    let urls = servers.iter().map(Redis::url).collect::<Vec<_>>().join(",");
    let nodes = two(|| {
        let setup = node(&urls).with("storage.redis.topology", "cluster");
        setup.write("password", "hunter2");
        setup.with("storage.redis.username", "node").with("storage.redis.password_file", "password")
    })
    .await;
    for text in ["plain=a", "bucket=a", "sliding=a"] {
        assert_eq!(passed(&nodes, 128, text).await, 100, "{text}");
    }
    for node in &nodes {
        assert_eq!(fallbacks(node, "open").await, 0);
        assert_eq!(metric(node, "errors_total").await, 0);
    }
    let mut holders = 0;
    for server in &servers {
        let keys = server.command(&["--scan"]).await;
        holders += usize::from(keys.lines().any(|key| !key.contains(":probe:")));
    }
    assert_eq!(holders, 1, "one domain is on one slot");
}

#[tokio::test]
async fn leasing_nodes_hold_the_limit_with_fewer_round_trips() {
    let redis = Redis::start().await;
    let nodes = two(|| {
        let setup = node(&redis.url()).with("storage.redis.lease.enabled", "true");
        // Otherwise hits refused because of another node's lease would count too, and less than the limit would
        // pass.
        setup.with("rate_limiting.on_refusal", "count_none")
    })
    .await;
    // Hits leased by one node are refused elsewhere until they are returned; in the end the whole limit was
    // admitted.
    let mut admitted = 0;
    within("all of the limit", async {
        while admitted < 100 {
            admitted += passed(&nodes, 20, "plain=a").await;
        }
    })
    .await;
    assert_eq!(admitted, 100);
    assert_eq!(passed(&nodes, 50, "plain=a").await, 0);
    for node in &nodes {
        assert_eq!(passed(std::slice::from_ref(node), 500, "endless=a").await, 500);
        until_metric(node, "lease_hits_total", |hits| hits > 0).await;
        assert_eq!(fallbacks(node, "open").await, 0);
    }
}
