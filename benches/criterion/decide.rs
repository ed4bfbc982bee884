//! The comparisons of `ratios` with criterion, which adds confidence intervals and a history of runs. It measures wall
//! time, so run it on an idle machine.

use criterion::{Criterion, criterion_group, criterion_main};
use hivemind_benches::contenders::{Ours, PLENTY, bucket, governor, stingy_governor};
use hivemind_benches::keys;
use hivemind_core::{IpLimiter, Limit, Period, Rate};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const MILLION: usize = 1_000_000;

fn hot_key(criterion: &mut Criterion) {
    let name = String::from("client-0123456789abcdef");
    let mut group = criterion.benchmark_group("one hot key");
    let theirs = governor::<String>(1_000, PLENTY);
    group.bench_function("governor, pass", |b| b.iter(|| theirs.check_key(black_box(&name)).is_ok()));
    let theirs = stingy_governor::<String>();
    group.bench_function("governor, refusal", |b| b.iter(|| theirs.check_key(black_box(&name)).is_ok()));
    for (what, limit) in [
        ("token bucket, pass", bucket(1_000, Period::SECOND, PLENTY)),
        ("token bucket, refusal", bucket(7, Period::DAY, 1)),
        ("fixed window, pass", Limit::fixed_window(PLENTY, Period::DAY)),
        ("fixed window, refusal", Limit::fixed_window(1, Period::DAY)),
        ("sliding window, pass", Limit::sliding_window(PLENTY, Period::DAY)),
        ("sliding window, refusal", Limit::sliding_window(1, Period::DAY)),
    ] {
        let ours = Ours::new(MILLION, vec![limit]);
        group.bench_function(what, |b| b.iter(|| ours.decide(black_box(&name))));
    }
    let pair = Ours::new(
        MILLION,
        vec![bucket(1_000, Period::SECOND, PLENTY), Limit::fixed_window(PLENTY, Period::DAY)],
    );
    group.bench_function("a batch of 2", |b| b.iter(|| pair.decide_batch::<2>(black_box(&name))));
}

fn addresses(criterion: &mut Criterion) {
    let address = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9));
    let mut group = criterion.benchmark_group("one hot address");
    let theirs = governor::<IpAddr>(1_000, PLENTY);
    group.bench_function("governor", |b| b.iter(|| theirs.check_key(black_box(&address)).is_ok()));
    let rate = Rate::per_second(1_000).expect("above zero");
    let ours = IpLimiter::new(rate, PLENTY, Duration::from_secs(60)).expect("a thread starts");
    group.bench_function("IpLimiter", |b| b.iter(|| ours.allow(black_box(address))));
}

fn million_keys(criterion: &mut Criterion) {
    let names = keys::names(MILLION);
    let arrivals: Vec<&String> =
        keys::order(MILLION, MILLION).into_iter().map(|index| &names[index]).collect();
    let arrivals: Vec<String> = arrivals.into_iter().cloned().collect();
    let ours = Ours::new(MILLION, vec![bucket(1_000, Period::SECOND, PLENTY)]);
    let theirs = governor::<String>(1_000, PLENTY);
    for name in &names {
        ours.decide(name);
        theirs.check_key(name).ok();
    }
    let mut group = criterion.benchmark_group("a million String keys at random");
    let mut coming = arrivals.iter().cycle();
    group.bench_function("ours", |b| b.iter(|| coming.next().is_some_and(|name| ours.decide(name))));
    let mut coming = arrivals.iter().cycle();
    group.bench_function("governor", |b| {
        b.iter(|| coming.next().is_some_and(|name| theirs.check_key(name).is_ok()))
    });
}

criterion_group! {
    name = decide;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = hot_key, addresses, million_keys
}
criterion_main!(decide);
