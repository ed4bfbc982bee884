//! Benchmark of the engine against governor: alternating, CPU time of the thread, ratios of the medians, and targets.
//!
//!     cargo run --release                 everything, as markdown; exit 1 if a target is missed
//!     cargo run --release -- --rounds 9   shorter
//!     cargo run --release -- --hot 31     the hot key only

use hivemind_benches::contenders::{Governor, Ours, PLENTY, bucket, governor, per_second, stingy_governor};
use hivemind_benches::rounds::{Contender, TURN, Taken, hot, interleave, on_two_threads, through};
use hivemind_benches::{keys, resident};
use hivemind_core::store::Key;
use hivemind_core::{IpLimiter, Limit, Limiter, Matcher, Period, Rule, Rules};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const MILLION: usize = 1_000_000;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let rounds = match arguments.as_slice() {
        ["--resident", who] => {
            println!("{}", resident_of(who));
            return ExitCode::SUCCESS;
        }
        ["--hot", rounds] => {
            let mut report = Report::default();
            one_hot_key(rounds.parse().unwrap_or(31), &mut report);
            refusals(rounds.parse().unwrap_or(31), &mut report);
            return ExitCode::from(u8::from(report.missed > 0));
        }
        ["--rounds", rounds] => rounds.parse().unwrap_or(31),
        _ => 31,
    };
    let mut report = Report::default();
    println!(
        "| ns of CPU a decision, median of {rounds} rounds (least) | ours | governor | ratio | target | |"
    );
    println!("|---|---|---|---|---|---|");
    one_hot_key(rounds, &mut report);
    a_million_keys(rounds, &mut report);
    batches(rounds, &mut report);
    two_threads(rounds, &mut report);
    println!("\n| ns of CPU a decision, one hot key | pass | refusal | ratio | target | |");
    println!("|---|---|---|---|---|---|");
    refusals(rounds, &mut report);
    println!("\n| memory | ours | governor | target | |");
    println!("|---|---|---|---|---|");
    memory(&mut report);
    allocations(&mut report);
    if report.missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[derive(Default)]
struct Report {
    missed: usize,
}

impl Report {
    /// Prints a line: the first of `taken` divided by the second, compared with `target`.
    fn ratio(&mut self, what: &str, taken: &[Taken], target: Option<f64>) {
        let [ours, theirs] = taken else { return };
        let ratio = ours.median / theirs.median;
        let format_time = |taken: &Taken| format!("{:.0} ({:.0})", taken.median, taken.least);
        let (limit, mark) = match target {
            Some(target) => (format!("≤ {target}"), self.mark(ratio <= target)),
            None => (String::from("-"), ""),
        };
        println!(
            "| {what} | {} | {} | {ratio:.2} | {limit} | {mark} |",
            format_time(ours),
            format_time(theirs)
        );
    }

    fn mark(&mut self, holds: bool) -> &'static str {
        self.missed += usize::from(!holds);
        if holds { "PASS" } else { "FAIL" }
    }
}

fn plenty() -> Limit {
    bucket(1_000, Period::SECOND, PLENTY)
}

/// Both sides start from what their callers have.
fn one_hot_key(rounds: usize, report: &mut Report) {
    let name = String::from("client-0123456789abcdef");
    let ours = Ours::new(MILLION, vec![plenty()]);
    let by_name = governor::<String>(1_000, PLENTY);
    let mut by_name = |what: &str, target, ours: &dyn Fn(&str) -> bool| {
        let taken = interleave(
            rounds,
            vec![
                hot("ours", || ours(black_box(&name))),
                hot("governor", || by_name.check_key(black_box(&name)).is_ok()),
            ],
        );
        report.ratio(what, &taken, target);
    };
    by_name("one hot key, pass: ours by a rule and a name, governor by String", Some(1.2), &|name| {
        ours.decide(name)
    });
    by_name("the same, ours with remaining hits and reset time", None, &|name| {
        black_box(ours.verdict(name)).0
    });
    by_name("the same, ours without a prepared prefix (`Key::new`)", None, &|name| {
        ours.decide_by_parts(name)
    });
    let rules = Rules::new().with("api", &[Matcher::any("api_key")], Rule::limit(plenty())).expect("a rule");
    let limiter = Limiter::new(rules).expect("a thread starts");
    by_name("the same, ours with rule matching (`Limiter::allow`)", None, &|name| {
        limiter.allow("api", &[("api_key", name)])
    });
    one_hot_address(rounds, report);
    let (key, by_number) = (ours.key(&name), governor::<u64>(1_000, PLENTY));
    let taken = interleave(
        rounds,
        vec![
            hot("ours", || ours.decide_by_key(black_box(key))),
            hot("governor", || by_number.check_key(black_box(&1)).is_ok()),
        ],
    );
    report.ratio("one hot key: ours by a prepared key, governor by u64, which it hashes", &taken, Some(1.2));
    let (ours, theirs) = (Ours::new(MILLION, vec![bucket(1, Period::HOUR, 1)]), stingy_governor::<String>());
    let taken = interleave(
        rounds,
        vec![
            hot("ours", || ours.decide(black_box(&name))),
            hot("governor", || theirs.check_key(black_box(&name)).is_ok()),
        ],
    );
    report.ratio("one hot key, refusal: ours by a rule and a name, governor by String", &taken, None);
}

fn one_hot_address(rounds: usize, report: &mut Report) {
    let address = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9));
    let by_address = governor::<IpAddr>(1_000, PLENTY);
    let limiter =
        IpLimiter::new(per_second(1_000), PLENTY, Duration::from_secs(60)).expect("a thread starts");
    let taken = interleave(
        rounds,
        vec![
            hot("ours", || limiter.allow(black_box(address))),
            hot("governor", || by_address.check_key(black_box(&address)).is_ok()),
        ],
    );
    report.ratio("one hot address: `IpLimiter`, governor by IpAddr", &taken, Some(1.2));
}

fn a_million_keys(rounds: usize, report: &mut Report) {
    let names = keys::names(MILLION);
    let order = keys::order(MILLION, MILLION);
    let (ours, theirs) = (Ours::new(MILLION, vec![plenty()]), governor::<String>(1_000, PLENTY));
    for name in &names {
        ours.decide(name);
        theirs.check_key(name).ok();
    }
    // Names are contiguous in order of arrival, as if just read from a socket.
    let arrivals: Vec<String> = order.iter().map(|index| names[*index].clone()).collect();
    let taken = interleave(
        rounds,
        vec![
            through("ours", &arrivals, |name| ours.decide(name)),
            through("governor", &arrivals, |name| theirs.check_key(name).is_ok()),
        ],
    );
    report.ratio("1 M String keys at random, each name just read", &taken, Some(0.7));
    let taken = interleave(
        rounds,
        vec![
            through("ours", &order, |index| ours.decide(&names[*index])),
            through("governor", &order, |index| theirs.check_key(&names[*index]).is_ok()),
        ],
    );
    report.ratio("1 M String keys at random, the names scattered in memory too", &taken, None);
    drop((names, arrivals, ours, theirs));

    let numbers = keys::numbers(MILLION);
    let arrivals: Vec<u64> = order.iter().map(|index| numbers[*index]).collect();
    let (ours, theirs) = (Ours::new(MILLION, vec![plenty()]), governor::<u64>(1_000, PLENTY));
    for number in &numbers {
        ours.decide_by_key(key_of(*number));
        theirs.check_key(number).ok();
    }
    let taken = interleave(
        rounds,
        vec![
            through("ours", &arrivals, |number| ours.decide_by_key(key_of(*number))),
            through("governor", &arrivals, |number| theirs.check_key(number).is_ok()),
        ],
    );
    report.ratio("1 M keys at random: ours by a prepared key, governor by u64", &taken, None);
}

fn key_of(number: u64) -> Key {
    Key::from_bits(number, number.rotate_left(32))
}

fn limits() -> Vec<Limit> {
    vec![
        plenty(),
        Limit::fixed_window(PLENTY, Period::DAY),
        Limit::sliding_window(PLENTY, Period::DAY),
        Limit::fixed_window(PLENTY, Period::YEAR),
    ]
}

fn batches(rounds: usize, report: &mut Report) {
    let name = String::from("client-0123456789abcdef");
    let ours = Ours::new(MILLION, limits());
    let theirs: [Governor<String>; 4] = std::array::from_fn(|_| governor(1_000, PLENTY));
    let all = |count: usize| theirs[..count].iter().all(|one| one.check_key(black_box(&name)).is_ok());
    let taken = interleave(
        rounds,
        vec![hot("ours", || ours.decide_batch::<2>(black_box(&name))), hot("governor", || all(2))],
    );
    report.ratio("2 limits, ours in one atomic step, governor one by one", &taken, None);
    let taken = interleave(
        rounds,
        vec![hot("ours", || ours.decide_batch::<4>(black_box(&name))), hot("governor", || all(4))],
    );
    report.ratio("4 limits, likewise", &taken, None);
}

fn two_threads(rounds: usize, report: &mut Report) {
    let names = keys::names(MILLION);
    let (ours, theirs) = (Ours::new(MILLION, vec![plenty()]), governor::<String>(1_000, PLENTY));
    for name in &names {
        ours.decide(name);
        theirs.check_key(name).ok();
    }
    let orders = keys::order(2 * TURN, MILLION);
    for (what, many) in [("2 threads on one key", false), ("2 threads on 1 M keys", true)] {
        let name_at = |thread: usize, turn: usize| {
            if many { &names[orders[thread * TURN + turn]] } else { &names[0] }
        };
        let pair = |decide: &(dyn Fn(&String) -> bool + Sync)| {
            let work = |thread| {
                for turn in 0..TURN {
                    black_box(decide(name_at(thread, turn)));
                }
            };
            on_two_threads(TURN, work).0
        };
        let taken = interleave(
            rounds,
            vec![
                Contender::new("ours", |_| pair(&|name| ours.decide(name))),
                Contender::new("governor", |_| pair(&|name| theirs.check_key(name).is_ok())),
            ],
        );
        report.ratio(what, &taken, None);
    }
}

fn refusals(rounds: usize, report: &mut Report) {
    let name = "client-0123456789abcdef";
    // The same limit on both sides except for its budget, with the whole verdict.
    let limits = |burst| {
        [
            ("token bucket", bucket(1_000, Period::HOUR, burst)),
            ("token bucket of an odd rate, 7 a day", bucket(7, Period::DAY, burst)),
            ("fixed window", Limit::fixed_window(burst, Period::DAY)),
            ("sliding window", Limit::sliding_window(burst, Period::DAY)),
        ]
    };
    for ((what, passing), (_, refusing)) in limits(PLENTY).into_iter().zip(limits(10)) {
        let (pass, refuse) = (Ours::new(MILLION, vec![passing]), Ours::new(MILLION, vec![refusing]));
        let taken = interleave(
            rounds,
            vec![
                hot("refusal", || black_box(refuse.verdict(black_box(name))).0),
                hot("pass", || black_box(pass.verdict(black_box(name))).0),
            ],
        );
        // Printed as pass and refusal; compared as refusal divided by pass, with a tolerance of 5 %.
        let [refusal, pass] = taken.as_slice() else { return };
        let ratio = refusal.median / pass.median;
        let mark = report.mark(ratio <= 1.05);
        let format_time = |taken: &Taken| format!("{:.0} ({:.0})", taken.median, taken.least);
        println!(
            "| {what} | {} | {} | {ratio:.2} | ≤ 1 (± 0.05) | {mark} |",
            format_time(pass),
            format_time(refusal)
        );
    }
}

fn resident_of(who: &str) -> u64 {
    let names = keys::names(MILLION);
    match who {
        "ours" => resident::added_by(|| {
            let ours = Ours::new(MILLION, vec![plenty()]);
            names.iter().for_each(|name| assert!(ours.decide(name)));
            assert_eq!(ours.store.occupancy().keys, MILLION, "every key has its own entry");
            ours
        }),
        _ => resident::added_by(|| {
            let theirs = governor::<String>(1_000, PLENTY);
            names.iter().for_each(|name| assert!(theirs.check_key(name).is_ok()));
            theirs
        }),
    }
}

fn memory(report: &mut Report) {
    let megabytes = |who| resident::in_own_process(&["--resident", who]).unwrap_or(u64::MAX) as f64 / 1e6;
    let (ours, theirs) = (megabytes("ours"), megabytes("governor"));
    let mark = report.mark(ours <= 80.0);
    println!("| 1 M String keys, MB resident above start | {ours:.1} | {theirs:.1} | ≤ 80 | {mark} |");
}

fn allocations(report: &mut Report) {
    let ours = Ours::new(MILLION, limits());
    let name = "client-0123456789abcdef";
    ours.decide_batch::<4>(name);
    let region = Region::new(ALLOCATOR);
    for _ in 0..TURN {
        black_box(ours.decide(name));
        black_box(ours.decide_batch::<2>(name));
    }
    let made = region.change().allocations;
    let mark = report.mark(made == 0);
    println!(
        "| allocations in {} decisions on known keys, alone and in twos | {made} | - | 0 | {mark} |",
        2 * TURN
    );
}
