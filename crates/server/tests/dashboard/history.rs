//! Rates that the page makes of counters.

use crate::page::Dashboard;
use crate::scene::RULES;
use crate::support::Server;
use serde_json::json;

/// What a server may tell, one after the other, and what is drawn of it: requests a second that passed and that did not.
const TOLD: &str = "(async () => {
    const history = await import('/assets/history.js?alone');
    const tell = (t_ms, started, ok, over_limit, ofRule) => history.record({t_ms, uptime_ms: t_ms - started,
        totals: {ok, over_limit, errors: 0}, rules: [{domain: 'd', key: 'k', ok: 0, over_limit: ofRule}]});
    tell(1000, 0, 0, 0, 0);
    tell(2000, 0, 10, 1, 1);
    // The laptop slept.
    tell(60000, 0, 5800, 2, 2);
    tell(61000, 0, 5810, 2, 2);
    // Started anew, and busier since than it was before.
    tell(62000, 61500, 9000, 5, 3);
    tell(63000, 61500, 9010, 6, 4);
    // A rule that went and came back.
    tell(64000, 61500, 9020, 7, 0);
    tell(65000, 61500, 9030, 8, 1);
    // The clock was set back.
    tell(64500, 61500, 9040, 8, 1);
    tell(65500, 61500, 9050, 8, 1);
    const least = Math.min(...history.refusalsOf(history.nameOf('d', 'k')).map(point => point.refused));
    return [least, ...history.minutes().map(point => point.isGap ? 'gap' : [point.ok, point.refused])];
})()";

// Seen failing on: one line across a minute in which nothing was heard; refusals below zero where a counter fell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_rate_reaches_across_a_gap_a_restart_or_a_counter_that_fell() {
    let server = Server::with_rules(RULES).await;
    let mut page = Dashboard::live(server.admin).await;
    let drawn = page.value(TOLD).await;
    let expected = json!([0, "gap", [10, 1], "gap", [10, 0], "gap", [10, 1], "gap", "gap", [10, 0]]);
    assert_eq!(drawn, expected);
    page.is_clean().await;
}
