//! Bodies and rule files that are small and expensive: rejected at a bound, in bounded memory.

use hivemind_testkit::{Server, post, statuses};
use serde_json::json;

const RULES: &str = "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: 2}}\n";

/// `VmHWM` or `VmRSS` of a process, in bytes.
fn memory(process: u32, field: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("its size");
    line.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<usize>().unwrap() * 1024
}

fn simulation(rules: &str) -> String {
    let files = json!([{"name": "a.yaml", "text": rules}]);
    json!({"rules": files, "source": {"log": "", "format": "jsonl"}}).to_string()
}

// Seen failing on: 1,293 MB for the first body, 205 MB for the second, 114 MB for the third.
#[tokio::test]
async fn hostile_bodies_take_at_most_eight_times_their_size() {
    let lists = simulation(&format!("domain: d\ndescriptors: [{}]", "[],".repeat(2_430_000)));
    let values =
        format!(r#"{{"rules": [{{"name": "a", "text": [{}0]}}], "source": {{}}}}"#, "[],".repeat(2_600_000));
    let call = format!(r#"{{"domain": "d", "descriptors": [{}{{}}]}}"#, "{},".repeat(340_000));
    for (path, body, code, expected) in [
        ("/api/v1/simulate", lists, 422, "more than 120000 values"),
        ("/api/v1/simulate", values, 400, "more than 10000 values"),
        ("/json", call, 400, ""),
    ] {
        let server = Server::with_rules(RULES).await;
        // Code that runs for the first time takes memory once.
        for (path, body) in [("/api/v1/simulate", simulation(RULES)), ("/json", "{}".to_owned())] {
            post(server.admin, path, &body).await;
        }
        let before = memory(server.process(), "VmRSS");
        let page = post(server.admin, path, &body).await;
        assert_eq!(page.code, code, "{page:?}");
        assert!(page.body.contains(expected), "{page:?}");
        let peak = memory(server.process(), "VmHWM").saturating_sub(before);
        // The buffers of connections and of the allocator do not shrink with the body.
        assert!(peak <= 8 * body.len().max(4 << 20), "{path}: {peak} bytes for {}", body.len());
        // The process decides as before.
        assert_eq!(statuses(&server.ask("d", "k=x").await), "OK 2/DAY, 1 left");
    }
}

// Seen failing on: 1,547 MB for 12 MB of rules, of which 877 MB stayed.
#[tokio::test]
async fn large_rule_file_is_rejected_in_eight_times_its_size() {
    let mut server = Server::with_rules(RULES).await;
    let before = memory(server.process(), "VmRSS");
    let rule = |number| {
        format!("- {{key: k, value: v{number}, rate_limit: {{unit: second, requests_per_unit: 1}}}}\n")
    };
    let large: String = (0..160_000).map(rule).collect();
    let large = format!("domain: d\ndescriptors:\n{large}");
    std::fs::write(server.path().join("rules.yaml"), &large).unwrap();
    server.log.next("more than 800000 values").await;
    let peak = memory(server.process(), "VmHWM").saturating_sub(before);
    assert!(peak <= 8 * large.len(), "{peak} bytes for {}", large.len());
    std::fs::write(server.path().join("rules.yaml"), RULES.replace('2', "3")).unwrap();
    server.log.next("rules loaded").await;
    assert_eq!(statuses(&server.ask("d", "k=x").await), "OK 3/DAY, 2 left");
    // The allocator keeps the pages of the parser for the next load.
    let kept = memory(server.process(), "VmRSS").saturating_sub(before);
    assert!(kept <= 8 * large.len(), "{kept} bytes stay");
}

// Seen failing on: the first call after a load built an index for 0.7 s.
#[tokio::test]
async fn rules_with_20000_patterns_load_with_a_warning_and_decide() {
    let mut server = Server::with_rules(RULES).await;
    let rule = |number| {
        format!("- {{key: k, value: \"*v{number}*\", rate_limit: {{unit: day, requests_per_unit: 9}}}}\n")
    };
    let patterns: String = (0..20_000).map(rule).collect();
    std::fs::write(server.path().join("rules.yaml"), format!("domain: d\ndescriptors:\n{patterns}")).unwrap();
    server.log.next("costly: the key `k` has 20000 patterns").await;
    server.log.next("rules loaded").await;
    assert_eq!(statuses(&server.ask("d", "k=a-v19999").await), "OK 9/DAY, 8 left");
}
