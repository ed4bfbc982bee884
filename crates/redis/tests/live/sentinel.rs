//! A master that is lost, and the replica that sentinels make the next.

use crate::server::Server;
use crate::stores::{charge, comes_up, now, runtime, store};
use hivemind_core::store::{Op, Parts, Store};
use hivemind_core::{Clock, Limit, Period, SystemClock};
use hivemind_redis::{RedisOptions, Topology};
use std::path::Path;

fn on_port(port: u16, more: &[&str]) -> Vec<String> {
    let port = port.to_string();
    ["--port", &port].into_iter().chain(more.iter().copied()).map(str::to_owned).collect()
}

pub(crate) fn sentinel(master: u16) -> Server {
    Server::on_port(|port, folder: &Path| {
        let file = folder.join("sentinel.conf");
        let text = format!(
            "port {port}\nsentinel monitor main 127.0.0.1 {master} 1\nsentinel down-after-milliseconds main 300\n\
             sentinel failover-timeout main 2000\n"
        );
        std::fs::write(&file, text).unwrap();
        vec![file.to_str().unwrap().to_owned(), "--sentinel".to_owned()]
    })
}

#[test]
fn sentinel_failover_is_followed_to_the_new_master() {
    let mut master = Server::on_port(|port, _| on_port(port, &[]));
    let of = master.port().to_string();
    let replica = Server::on_port(|port, _| on_port(port, &["--replicaof", "127.0.0.1", &of]));
    replica.says(&["info", "replication"], |output| output.contains("master_link_status:up"));
    let sentinel = sentinel(master.port());
    sentinel.says(&["sentinel", "replicas", "main"], |output| output.contains("127.0.0.1"));
    let runtime = runtime();
    let mut options = RedisOptions::new(sentinel.url());
    options.topology = Topology::Sentinel { master_name: "main".to_owned(), username: None, password: None };
    options.timeout = std::time::Duration::from_secs(2);
    let store = store(options, &runtime);
    let (limit, entries) = (Limit::fixed_window(100, Period::HOUR), [("client", "one")]);
    let spend = [charge(Parts { domain: "main", entries: &entries }, &limit, Op::Spend, 1)];
    runtime.block_on(async {
        let first = store.decide(&spend, now()).await.unwrap();
        assert_eq!(first.each()[0].remaining, 99);
        // The replica has heard of it.
        replica.says(&["keys", "*:rls:*"], |output| output.contains("{main}"));
        master.kill();
        replica.says(&["role"], |output| output.starts_with("master"));
        let begun = SystemClock.now();
        let next = loop {
            match store.decide(&spend, now()).await {
                Ok(verdicts) => break verdicts,
                Err(_) => comes_up(&store.0).await,
            }
            assert!(SystemClock.now().since(begun) < crate::server::SOON);
        };
        println!("found again: the next master, {:?} after it is one", SystemClock.now().since(begun));
        assert_eq!(next.each()[0].remaining, 98, "the counter has come along");
    });
}
