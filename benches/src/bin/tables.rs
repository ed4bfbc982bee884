//! Measurement of docs/decisions/002: candidate tables for counters, with the same keys, clock and algorithm.
//!
//!     cargo run --release --bin tables

use dashmap::DashMap;
use hivemind_benches::contenders::{Ours, PLENTY, bucket};
use hivemind_benches::rounds::{Contender, interleave, on_two_threads};
use hivemind_benches::watch::nanos_each;
use hivemind_benches::{keys, resident};
use hivemind_core::algorithm::{Action, State, step};
use hivemind_core::store::Key;
use hivemind_core::{Clock, Cost, Limit, Period, SystemClock, Timestamp};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const MILLION: usize = 1_000_000;
const TURN: usize = 100_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, who] = arguments.as_slice()
        && flag == "--resident"
    {
        let index = who.parse::<usize>().unwrap_or(0);
        let all = key_list();
        println!("{}", resident::added_by(|| filled(index, &all)));
        return;
    }
    let all = key_list();
    let tables: Vec<Box<dyn Table>> = (0..NAMES.len()).map(|index| filled(index, &all)).collect();
    let order = keys::order(MILLION, MILLION);
    let arrivals: Vec<Key> = order.iter().map(|index| all[*index]).collect();

    let hot = measure(&tables, |table, _| nanos_each(TURN, || repeat(table, &all[0])));
    let many = measure(&tables, |table, round| {
        let turn = &arrivals[round % 10 * TURN..][..TURN];
        nanos_each(TURN, || through(table, turn))
    });
    let two_on_one = measure(&tables, |table, _| on_two_threads(TURN, |_| repeat(table, &all[0])).0);
    let two_on_many = measure(&tables, |table, round| {
        let turn = |thread: usize| &arrivals[(round + 5 * thread) % 10 * TURN..][..TURN];
        on_two_threads(TURN, |thread| through(table, turn(thread))).0
    });
    println!(
        "| ns of CPU a decision | one hot key | 1 M keys at random | 2 threads, one key | 2 threads, 1 M keys | bytes a key |"
    );
    println!("|---|---|---|---|---|---|");
    for (index, name) in NAMES.iter().enumerate() {
        let bytes =
            resident::in_own_process(&["--resident", &index.to_string()]).unwrap_or(0) / MILLION as u64;
        println!(
            "| {name} | {:.0} | {:.0} | {:.0} | {:.0} | {bytes} |",
            hot[index], many[index], two_on_one[index], two_on_many[index]
        );
    }
}

fn repeat(table: &dyn Table, key: &Key) {
    for _ in 0..TURN {
        black_box(table.decide(*black_box(key)));
    }
}

fn through(table: &dyn Table, keys: &[Key]) {
    for key in keys {
        black_box(table.decide(*key));
    }
}

fn key_list() -> Vec<Key> {
    let mut random = keys::Random::new(4);
    (0..MILLION).map(|_| Key::from_bits(random.next_u64(), random.next_u64())).collect()
}

fn measure(tables: &[Box<dyn Table>], turn: impl Fn(&dyn Table, usize) -> f64) -> Vec<f64> {
    let turn = &turn;
    let contenders =
        tables.iter().map(|table| Contender::new("", move |round| turn(table.as_ref(), round))).collect();
    interleave(21, contenders).iter().map(|taken| taken.median).collect()
}

trait Table: Sync {
    fn decide(&self, key: Key) -> bool;
}

const NAMES: [&str; 4] = [
    "shards of `Mutex<hashbrown::HashTable>` (the whole `MemoryStore`)",
    "one `Mutex<HashMap>`",
    "`DashMap`, the same algorithm inside its lock",
    "`DashMap` of packed `AtomicU64` (a fixed window only)",
];

fn filled(index: usize, keys: &[Key]) -> Box<dyn Table> {
    let table: Box<dyn Table> = match index {
        0 => Box::new(Ours::new(MILLION, vec![limit()])),
        1 => Box::new(OneLock { limit: limit(), map: Mutex::default() }),
        2 => Box::new(Dash { limit: limit(), map: DashMap::default() }),
        _ => Box::new(Packed { map: DashMap::default() }),
    };
    for key in keys {
        table.decide(*key);
    }
    table
}

fn limit() -> Limit {
    bucket(1_000, Period::SECOND, PLENTY)
}

/// A key is already a hash; hashing it again would only slow the other tables down.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, bytes: &[u8]) {
        self.0 ^= bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Unhashed = BuildHasherDefault<AsItIs>;

/// What `MemoryStore` keeps next to the key: the state, and when it expires.
type Kept = (State, Timestamp);

fn decide_into(limit: &Limit, kept: Option<Kept>) -> (bool, Kept) {
    let action = Action::Spend { count_refusal: true };
    let made = step(limit, kept.map(|kept| kept.0), action, Cost::ONE, SystemClock.now());
    (made.verdict.is_admitted(), (made.state, made.blank_at))
}

impl Table for Ours {
    fn decide(&self, key: Key) -> bool {
        self.decide_by_key(key)
    }
}

struct OneLock {
    limit: Limit,
    map: Mutex<HashMap<Key, Kept, Unhashed>>,
}

impl Table for OneLock {
    fn decide(&self, key: Key) -> bool {
        let mut map = self.map.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(kept) = map.get_mut(&key) {
            let (admitted, made) = decide_into(&self.limit, Some(*kept));
            *kept = made;
            return admitted;
        }
        let (admitted, made) = decide_into(&self.limit, None);
        map.insert(key, made);
        admitted
    }
}

struct Dash {
    limit: Limit,
    map: DashMap<Key, Kept, Unhashed>,
}

impl Table for Dash {
    fn decide(&self, key: Key) -> bool {
        if let Some(mut kept) = self.map.get_mut(&key) {
            let (admitted, made) = decide_into(&self.limit, Some(*kept));
            *kept = made;
            return admitted;
        }
        let (admitted, made) = decide_into(&self.limit, None);
        self.map.insert(key, made);
        admitted
    }
}

/// A packed counter: 32 bits of window number, 32 bits of count, one compare-and-swap.
struct Packed {
    map: DashMap<Key, AtomicU64, Unhashed>,
}

impl Table for Packed {
    fn decide(&self, key: Key) -> bool {
        let window = SystemClock.now().as_nanos() / 1_000_000_000;
        let count_in = |packed: u64| if packed >> 32 == window { packed & u64::from(u32::MAX) } else { 0 };
        if let Some(state) = self.map.get(&key) {
            let counted = state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |packed| {
                let count = count_in(packed);
                (count < u64::from(PLENTY)).then_some(window << 32 | (count + 1))
            });
            return counted.is_ok();
        }
        self.map.insert(key, AtomicU64::new(window << 32 | 1));
        true
    }
}
