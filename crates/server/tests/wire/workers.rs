//! Several threads answer, and a limit still holds to the last request.

use crate::rules::body;
use hivemind_testkit::http2::{Connection, Headers};
use hivemind_testkit::{Server, Setup};

const RULES: &str = "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: 100}}\n";

/// Sends a hundred calls at once, and counts those that passed.
async fn passed(server: &Server) -> usize {
    let mut connection = Connection::open(server).await;
    let mut streams = Vec::new();
    for _ in 0..100 {
        streams.push(connection.start(&Headers::call(), &body("k=x")).await);
    }
    let mut passed = 0;
    for stream in streams {
        let answer = connection.answer(stream).await.summary();
        passed += usize::from(answer.starts_with("OK 100/DAY"));
        assert!(answer.starts_with("OK 100/DAY") || answer == "OVER 100/DAY", "{answer}");
    }
    passed
}

#[tokio::test]
async fn a_limit_holds_exactly_over_connections_that_several_threads_answer() {
    for workers in ["1", "2", "4"] {
        let server = Setup::rules(RULES).with("server.workers", workers).start().await;
        let four = tokio::join!(passed(&server), passed(&server), passed(&server), passed(&server));
        assert_eq!(four.0 + four.1 + four.2 + four.3, 100, "{workers} workers: {four:?}");
    }
}

#[tokio::test]
async fn there_are_as_many_threads_to_answer_as_asked_for() {
    // Seen failing on: one thread, whatever was asked for.
    for workers in [1, 3, 5] {
        let server = Setup::rules(RULES).with("server.workers", &workers.to_string()).start().await;
        passed(&server).await;
        // Linux shows each thread of a process as a folder, with its name in it.
        let threads = std::fs::read_dir(format!("/proc/{}/task", server.process())).unwrap();
        let name = |path: std::path::PathBuf| std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        let names: Vec<_> = threads.map(|thread| name(thread.unwrap().path())).collect();
        let answering = names.iter().filter(|name| name.starts_with("calls-")).count();
        assert_eq!(answering, workers, "{names:?}");
    }
}
