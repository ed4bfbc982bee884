//! first look
use hivemind_benches::{contenders::*, keys, rounds::*, watch::nanos_each};
use hivemind_core::*;
use std::hint::black_box;
fn main() {
    const N: usize = 100_000;
    let name = String::from("client-0123456789abcdef");
    let mk = |l| Ours::new(1_000_000, vec![l]);
    let cold = mk(bucket(1000, Period::SECOND, PLENTY));
    let full = mk(bucket(100_000_000, Period::SECOND, 100_000_000));
    let earn = mk(bucket(70_000_001, Period::SECOND, 2_000_000_000));
    { let entries=[("api_key", name.as_str())]; let parts=Parts{domain:"api",entries:&entries}; let l=bucket(70_000_001, Period::SECOND, 2_000_000_000); let key=earn.key(&name);
      earn.store.decide_now(&[Charge{key,parts,limit:&l,cost:Cost::new(4_000_000_000),op:Op::Debit,mode:Mode::Enforce}], Context::at(SystemClock.now())); }
    let refb = mk(bucket(1, Period::HOUR, 1));
    let refb7 = mk(bucket(7, Period::HOUR, 1));
    let fw = mk(Limit::fixed_window(PLENTY, Period::MINUTE));
    let fwr = mk(Limit::fixed_window(1, Period::YEAR));
    let sw = mk(Limit::sliding_window(PLENTY, Period::HOUR));
    let swr = mk(Limit::sliding_window(1, Period::YEAR));
    let gs = governor::<String>(1000, PLENTY);
    let gr = stingy_governor::<String>();
    let g64 = governor::<u64>(1000, PLENTY);
    let mut c = vec![];
    for (n, o) in [("cold", &cold), ("full", &full), ("earn", &earn), ("refuse", &refb), ("refuse7", &refb7), ("fixed", &fw), ("fixed ref", &fwr), ("sliding", &sw), ("sliding ref", &swr)] {
        let name = &name;
        c.push(Contender::new(n, move |_| nanos_each(N, || for _ in 0..N { black_box(o.decide(black_box(name))); })));
    }
    let k = cold.key(&name);
    c.push(Contender::new("cold by key", |_| nanos_each(N, || for _ in 0..N { black_box(cold.decide_by_key(black_box(k))); })));
    c.push(Contender::new("key only", |_| nanos_each(N, || for _ in 0..N { black_box(cold.key(black_box(&name))); })));
    c.push(Contender::new("clock only", |_| nanos_each(N, || for _ in 0..N { black_box(SystemClock.now()); })));
    c.push(Contender::new("gov string", |_| nanos_each(N, || for _ in 0..N { black_box(gs.check_key(black_box(&name)).is_ok()); })));
    c.push(Contender::new("gov string ref", |_| nanos_each(N, || for _ in 0..N { black_box(gr.check_key(black_box(&name)).is_ok()); })));
    c.push(Contender::new("gov u64", |_| nanos_each(N, || for _ in 0..N { black_box(g64.check_key(black_box(&77)).is_ok()); })));
    for r in interleave(31, c) { println!("{:20} {:8.1} {:8.1}", r.name, r.median, r.least); }
    const M: usize = 1_000_000;
    let names = keys::names(M);
    let order = keys::order(M, M);
    let many = mk(bucket(1000, Period::SECOND, PLENTY));
    for n in &names { many.decide(n); gs.check_key(n).ok(); }
    println!("{:?}", many.store.occupancy());
    let c = vec![
      Contender::new("many", |r| { let o=&order[(r%10)*N..][..N]; nanos_each(N, || for i in o { black_box(many.decide(&names[*i])); }) }),
      Contender::new("gov many", |r| { let o=&order[(r%10)*N..][..N]; nanos_each(N, || for i in o { black_box(gs.check_key(&names[*i]).is_ok()); }) }),
    ];
    for r in interleave(31, c) { println!("{:20} {:8.1} {:8.1}", r.name, r.median, r.least); }
}
