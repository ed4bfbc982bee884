//! Runs all contenders and compares them with the targets. See `--help`.

use hivemind_benches::rounds::interleave;
use hivemind_tower_bench::{asking, contenders, report::Report};
use std::process::ExitCode;

const HELP: &str = "\
What Hivemind's tower layer costs a request: CPU time of the thread, without a socket and with one.

    cargo run --release                      61 rounds, about half a minute
    cargo run --release -- --rounds 301      more rounds; at most 500
    cargo run --release -- --only NAME 3     three rounds of one contender alone, for a profiler
    cargo run --release -- --list            the names of all contenders

Prints Markdown: CPU nanoseconds per request, median and minimum over the rounds, compared with a
baseline of the same run. Only differences and ratios within one run are meaningful.
Exit status: 1 if a target is missed, 2 for unknown arguments.";

/// The maximum number of rounds, for a run within two minutes.
const MOST_ROUNDS: usize = 500;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let rounds = |text: &str| text.parse().ok().filter(|rounds| (1..=MOST_ROUNDS).contains(rounds));
    match arguments.as_slice() {
        [] => judge(61),
        ["--help" | "-h"] => print(HELP),
        ["--list"] => print(&contenders::NAMES.join("\n")),
        ["--rounds", text] => rounds(text).map_or_else(misunderstood, judge),
        ["--only", name, text] => rounds(text).map_or_else(misunderstood, |rounds| only(name, rounds)),
        _ => misunderstood(),
    }
}

fn print(text: &str) -> ExitCode {
    println!("{text}");
    ExitCode::SUCCESS
}

fn misunderstood() -> ExitCode {
    eprintln!("{HELP}");
    ExitCode::from(2)
}

/// Runs one contender alone, for a profiler.
fn only(name: &str, rounds: usize) -> ExitCode {
    let Some(contender) = contenders::of(name) else { return misunderstood() };
    for taken in interleave(rounds, vec![contender]) {
        println!("{name}: {:.0} ns ({:.0}) a request, {} a round", taken.median, taken.least, asking::TURN);
    }
    ExitCode::SUCCESS
}

fn judge(rounds: usize) -> ExitCode {
    let (served, called): (Vec<_>, Vec<_>) =
        contenders::NAMES.iter().partition(|name| name.starts_with("served-"));
    let all = |names: Vec<&&str>| names.into_iter().filter_map(|name| contenders::of(name)).collect();
    let mut report = Report::new(interleave(rounds, all(called)));
    println!(
        "| ns of CPU a request, median of {rounds} rounds (least) | it | floor | adds | ratio | target | |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (where_, suffix) in [("inside the router", ""), ("before the router", "-before")] {
        let ours = |what: &str| format!("ours-{what}{suffix}");
        let theirs = |what: &str| format!("governor-{what}{suffix}");
        let mut over = |what: &str, who: &str, floor: &str, adds, times| {
            report.over(&format!("{where_}: {what}"), [who, floor], adds, times);
        };
        over("ours passes; bare 200", &ours("pass"), "bare", Some(1_500.0), None);
        over("ours refuses; bare 200", &ours("refused"), "bare", None, Some(1.0));
        over("ours refuses; tower_governor refuses", &ours("refused"), &theirs("refused"), None, Some(0.25));
        over("ours passes; tower_governor passes", &ours("pass"), &theirs("pass"), None, None);
        over("ours switched off; bare 200", &ours("off"), "bare", None, None);
        over("tower_governor passes; bare 200", &theirs("pass"), "bare", None, None);
        over("tower_governor refuses; bare 200", &theirs("refused"), "bare", None, None);
    }
    report.over("by a token, with the guard; bare 200", ["ours-token", "bare-token"], None, None);
    report.over("100,000 clients, ours; bare 200", ["ours-many", "bare-many"], None, None);
    let many = ["ours-many", "governor-many"];
    report.over("100,000 clients, ours; tower_governor", many, None, None);
    println!(
        "\n| the same over sockets, ns of the server thread's CPU | it | floor | adds | ratio | target | |"
    );
    println!("|---|---|---|---|---|---|---|");
    let missed = report.missed();
    let mut report = Report::new(interleave(rounds, all(served)));
    let mut over = |what: &str, who: &str, floor: &str, adds, times| {
        report.over(what, [&format!("served-{who}"), &format!("served-{floor}")], adds, times);
    };
    over("inside the router: ours passes; bare 200", "ours-pass", "bare", Some(1_500.0), None);
    over("before the router: ours passes; bare 200", "ours-pass-before", "bare", Some(1_500.0), None);
    over("inside the router: ours refuses; bare 200", "ours-refused", "bare", None, Some(1.0));
    over("before the router: ours refuses; bare 200", "ours-refused-before", "bare", None, Some(1.0));
    over("ours refuses; tower_governor refuses", "ours-refused", "governor-refused", None, Some(0.25));
    over("ours passes; tower_governor passes", "ours-pass", "governor-pass", None, None);
    over("tower_governor refuses; bare 200", "governor-refused", "bare", None, None);
    if missed + report.missed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
