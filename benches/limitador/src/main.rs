//! Benchmark of Hivemind against Limitador: alternating in one process, CPU time of the thread, ratios of the
//! medians, and targets. See `--help`.

mod contenders;
mod racing;
mod report;

use contenders::{MOST_KEYS, Ours, Theirs, Window, context_of};
use hivemind_benches::contenders::PLENTY;
use hivemind_benches::rounds::{Contender, Taken, hot, interleave, through};
use hivemind_benches::watch::nanos_each;
use hivemind_benches::{keys, resident};
use hivemind_core::Period;
use report::Report;
use std::hint::black_box;
use std::process::ExitCode;

const HELP: &str = "\
Cost of a decision compared with the library of Kuadrant's Limitador: CPU time of the thread.

    cargo run --release                    15 rounds, a few minutes
    cargo run --release -- --rounds 5      fewer; at most 100
    cargo run --release -- --hot 15        only one key: no million keys, no memory, no race
    cargo run --release -- --race          only two concurrent threads

Prints Markdown. Only ratios within one run are meaningful.
Exit status: 1 if a target is missed, 2 for unknown arguments.";

/// The maximum number of rounds, for a run within an hour.
const MOST_ROUNDS: usize = 100;
/// Target of our CPU time and memory divided by theirs, set before any measurement.
const TARGET: f64 = 0.2;
/// A long period, so that no window ends during a measurement.
const YEAR: Period = Period::YEAR;
const NAME: &str = "client-0123456789abcdef";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let rounds = |text: &str| text.parse().ok().filter(|rounds| (1..=MOST_ROUNDS).contains(rounds));
    match arguments.as_slice() {
        [] => judge(15, true),
        ["--help" | "-h"] => print(HELP),
        // Used by this program to start itself.
        ["--resident", who] => print(&resident_of(who).to_string()),
        ["--race"] => {
            let mut report = Report::default();
            beyond_the_limit(&mut report);
            ExitCode::from(u8::from(report.missed() > 0))
        }
        ["--rounds", text] => rounds(text).map_or_else(misunderstood, |rounds| judge(rounds, true)),
        ["--hot", text] => rounds(text).map_or_else(misunderstood, |rounds| judge(rounds, false)),
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

fn judge(rounds: usize, everything: bool) -> ExitCode {
    let mut report = Report::default();
    println!(
        "| ns of CPU a decision, median of {rounds} rounds (least) | ours | Limitador | ratio | target | |"
    );
    println!("|---|---|---|---|---|---|");
    one_hot_key(rounds, &mut report);
    several_limits(rounds, &mut report);
    one_rule_of_ten(rounds, &mut report);
    if everything {
        let forgotten = a_million_keys(rounds, &mut report);
        println!("\n| | ours | Limitador | target | |");
        println!("|---|---|---|---|---|");
        memory(&mut report);
        let mark = report.mark(forgotten.0 == 0);
        println!(
            "| clients forgotten, of 1 M with room for 1 M | {} | {} | ours 0 | {mark} |",
            forgotten.0, forgotten.1
        );
        beyond_the_limit(&mut report);
    }
    if report.missed() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Both decide the same requests in turns.
fn compared(rounds: usize, ours: impl Fn() -> bool, theirs: impl Fn() -> bool) -> Vec<Taken> {
    interleave(rounds, vec![hot("ours", ours), hot("Limitador", theirs)])
}

fn one_hot_key(rounds: usize, report: &mut Report) {
    for (what, requests) in [("pass", PLENTY), ("refusal", 10)] {
        let windows: [Window; 1] = [(requests, YEAR)];
        let (ours, theirs) = (Ours::new(&windows), Theirs::new(&windows));
        let taken = compared(rounds, || ours.admits(black_box(NAME)), || theirs.admits(black_box(NAME)));
        report.ratio(&format!("one hot key, {what}"), &taken, TARGET);
        let context = context_of(NAME);
        let taken =
            compared(rounds, || ours.admits(black_box(NAME)), || theirs.admits_in(black_box(&context)));
        report.ratio(&format!("the same {what}, Limitador with a prepared context"), &taken, TARGET);
        let passes = requests == PLENTY;
        assert_eq!((ours.admits(NAME), theirs.admits(NAME)), (passes, passes), "a {what} was measured");
    }
}

fn several_limits(rounds: usize, report: &mut Report) {
    let windows = [Period::DAY, YEAR, Period::HOUR, Period::MINUTE].map(|period| (PLENTY, period));
    for count in [2, 4] {
        let (ours, theirs) = (Ours::new(&windows[..count]), Theirs::new(&windows[..count]));
        let taken = compared(rounds, || ours.admits(black_box(NAME)), || theirs.admits(black_box(NAME)));
        report.ratio(&format!("{count} limits of one request, pass"), &taken, TARGET);
    }
}

fn one_rule_of_ten(rounds: usize, report: &mut Report) {
    let plans: Vec<String> = (0..10).map(|number| format!("plan-{number}")).collect();
    let (ours, theirs) = (Ours::of_plans(&plans, (PLENTY, YEAR)), Theirs::of_plans(&plans, (PLENTY, YEAR)));
    let plan = &plans[7];
    let contenders = vec![
        turns("ours", plan, |plan, name| ours.admits_of(plan, name)),
        turns("Limitador", plan, |plan, name| theirs.admits_of(plan, name)),
    ];
    let taken = interleave(rounds, contenders);
    report.ratio("10 rules, one of which matches, pass", &taken, TARGET);
}

/// Turns are shorter, because Limitador evaluates every limit of the domain.
fn turns<'a>(who: &str, plan: &'a str, admits: impl Fn(&str, &str) -> bool + 'a) -> Contender<'a> {
    const TURN: usize = 10_000;
    Contender::new(who, move |_| {
        nanos_each(TURN, || {
            for _ in 0..TURN {
                assert!(admits(black_box(plan), black_box(NAME)));
            }
        })
    })
}

/// Returns how many clients of a million each has forgotten.
fn a_million_keys(rounds: usize, report: &mut Report) -> (usize, usize) {
    let names = keys::names(MOST_KEYS);
    let windows = [(PLENTY, YEAR)];
    let (ours, theirs) = (Ours::new(&windows), Theirs::new(&windows));
    for name in &names {
        assert!(ours.admits(name) && theirs.admits(name), "no request is refused");
    }
    let known = Some(u64::from(PLENTY) - 2);
    let forgotten = (
        names.iter().filter(|name| ours.left_to(name) != known).count(),
        names.iter().filter(|name| theirs.left_to(name) != known).count(),
    );
    // Names are contiguous in order of arrival, as if just read from a socket.
    let order = keys::order(MOST_KEYS, MOST_KEYS);
    let arrivals: Vec<String> = order.iter().map(|index| names[*index].clone()).collect();
    let contenders = vec![
        through("ours", &arrivals, |name| ours.admits(name)),
        through("Limitador", &arrivals, |name| theirs.admits(name)),
    ];
    let taken = interleave(rounds, contenders);
    report.ratio("1 M keys at random, each name just read, pass", &taken, TARGET);
    forgotten
}

fn resident_of(who: &str) -> u64 {
    let names = keys::names(MOST_KEYS);
    let windows = [(PLENTY, YEAR)];
    match who {
        "ours" => resident::added_by(|| {
            let ours = Ours::new(&windows);
            for name in &names {
                assert!(ours.admits(name));
            }
            ours
        }),
        _ => resident::added_by(|| {
            let theirs = Theirs::new(&windows);
            for name in &names {
                assert!(theirs.admits(name));
            }
            theirs
        }),
    }
}

fn memory(report: &mut Report) {
    let each = |who| {
        let bytes = resident::in_own_process(&["--resident", who]).expect("the program prints a number");
        bytes as f64 / MOST_KEYS as f64
    };
    let (ours, theirs) = (each("ours"), each("Limitador"));
    let mark = report.mark(ours <= TARGET * theirs);
    println!(
        "| bytes resident a key, of 1 M | {ours:.0} | {theirs:.0} | ratio {:.3}, ≤ {TARGET} | {mark} |",
        ours / theirs
    );
}

fn beyond_the_limit(report: &mut Report) {
    const LIMIT: u32 = 500;
    const CLIENTS: usize = 10_000;
    let clients = keys::names(CLIENTS);
    let windows = [(LIMIT, YEAR)];
    let (ours, theirs) = (Ours::new(&windows), Theirs::new(&windows));
    let ours = racing::beyond(&clients, LIMIT as usize, |name| ours.admits(name));
    let theirs = racing::beyond(&clients, LIMIT as usize, |name| theirs.admits(name));
    println!(
        "| 2 concurrent threads, a limit of {LIMIT}, {CLIENTS} clients: contended | {} | {} | - | |",
        ours.raced, theirs.raced
    );
    let mark = report.mark(ours.requests == 0);
    println!("| clients over the limit | {} | {} | ours 0 | {mark} |", ours.clients, theirs.clients);
    println!("| requests over the limit, in total | {} | {} | - | |", ours.requests, theirs.requests);
}
