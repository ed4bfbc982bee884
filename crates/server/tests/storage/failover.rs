//! Failover under load: a master dies, and sentinels promote its replica.

use crate::load::Load;
use crate::nodes::{fallbacks, node, until_metric, verdicts};
use hivemind_testkit::redis::{Redis, free_port};
use hivemind_testkit::within;
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

struct Sentinel {
    _folder: tempfile::TempDir,
    _child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    port: u16,
}

impl Sentinel {
    /// One sentinel with a quorum of one, so that a failover needs no vote.
    async fn start(master: &Redis) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let file = folder.path().join("sentinel.conf");
        let configuration = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor mymaster 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds mymaster 300\nsentinel failover-timeout mymaster 2000\n",
            master.port
        );
        std::fs::write(&file, configuration).unwrap();
        let mut command = Command::new("redis-server");
        command.arg(&file).arg("--sentinel").current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut sentinel = Self { _folder: folder, _child: child, lines, port };
        // It has discovered the replica through the master.
        sentinel.next("+slave slave").await;
        sentinel
    }

    async fn next(&mut self, text: &str) {
        within(text, async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                if line.contains(text) {
                    return;
                }
            }
            panic!("the sentinel ended before `{text}`");
        })
        .await;
    }
}

// Seen failing on: sentinels treated as a single server.
#[tokio::test]
async fn nodes_follow_sentinels_to_the_new_master_under_load() {
    let mut master = Redis::start().await;
    let replica = Redis::start_with(&["--replicaof", "127.0.0.1", &master.port.to_string()]).await;
    let mut sentinel = Sentinel::start(&master).await;
    let url = format!("redis://127.0.0.1:{}", sentinel.port);
    let setup = node(&url).with("storage.redis.topology", "sentinel");
    let mut node = setup.with("storage.redis.master_name", "mymaster").start().await;
    node.log.next("shared store connected").await;
    let load = Load::start(&[&node], 4, "endless=a").await;
    load.answered(100).await;
    master.kill().await;
    node.log.next("shared store lost").await;
    assert_eq!(verdicts(&node, "closed=x", 2).await, ["OVER"; 2]);
    sentinel.next("+switch-master").await;
    node.log.next("shared store reconnected").await;
    until_metric(&node, "up", |up| up == 1).await;
    load.answered(100).await;
    assert_eq!(load.end().await.over, 0);
    assert!(fallbacks(&node, "open").await > 0);
    assert_eq!(verdicts(&node, "closed=y", 4).await, ["OK", "OK", "OK", "OVER"]);
    assert!(replica.command(&["--scan"]).await.contains("closed"), "the new master counts");
}
