//! `hivemind demo mesh`: three nodes, one limit, and nothing left behind.

use crate::support::{Log, within};
use std::path::Path;
use std::process::Stdio;
use tokio::process::{Child, Command};

fn demo(folder: &Path, arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hivemind"));
    command.args(["demo", "mesh"]).args(arguments).env_clear().env("TMPDIR", folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command.spawn().unwrap()
}

/// Waits until nobody listens where a node did.
async fn is_gone(line: &str) {
    let address = line.rsplit("http://").next().unwrap().to_owned();
    within("the end of a node", async {
        while tokio::net::TcpStream::connect(&address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

fn left_behind(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}

#[tokio::test]
async fn three_nodes_hold_one_limit_second_by_second_and_end_by_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = demo(folder.path(), &["--limit", "30", "--rate", "120", "--seconds", "3"]);
    let mut out = Log::of(demo.stdout.take().unwrap());
    let node = out.next("node-1  mesh ").await;
    for _ in 0..3 {
        let line = out.next("together").await;
        assert!(
            line.contains("node-1 ") && line.contains("node-3 ") && line.ends_with("limit 30: held"),
            "{line}"
        );
    }
    out.next("never exceeded in 3 seconds").await;
    assert_eq!(within("its end", demo.wait()).await.unwrap().code(), Some(0));
    is_gone(&node).await;
    assert_eq!(left_behind(folder.path()), Vec::<String>::new());
}

#[tokio::test]
async fn ctrl_c_ends_the_nodes_and_removes_everything() {
    let folder = tempfile::tempdir().unwrap();
    let mut demo = demo(folder.path(), &[]);
    let mut out = Log::of(demo.stdout.take().unwrap());
    let nodes = [out.next("node-1  mesh ").await, out.next("node-2  mesh ").await];
    out.next("together").await;
    assert_eq!(left_behind(folder.path()).len(), 1);
    let command = format!("kill -INT {}", demo.id().unwrap());
    assert!(Command::new("sh").args(["-c", &command]).status().await.unwrap().success());
    assert_eq!(within("its end", demo.wait()).await.unwrap().code(), Some(0));
    for node in &nodes {
        is_gone(node).await;
    }
    assert_eq!(left_behind(folder.path()), Vec::<String>::new());
}
