//! The codec compared with prost: both accept and reject the same messages and decode the same values; prost decodes
//! our output and encodes it to the same bytes.

use super::RateLimitService;
use crate::testing::{rls_codec, rls_request};
use hivemind_engine::rule_files::parse_rules;
use hivemind_engine::service::Options;
use hivemind_engine::testing::{options, service};

/// A random generator: the same on each run, except in the long tier.
struct TestRng(u64);

impl TestRng {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
}

/// Fields of a message: mostly those of a request, in any order and number, with wrong types, wrong lengths,
/// truncations, groups and unknown fields.
fn message(rng: &mut TestRng, depth: u32, out: &mut Vec<u8>) {
    const ODD_NUMBERS: [u64; 6] = [0, 15, 16, 2_047, (1 << 29) - 1, 1 << 29];
    for _ in 0..rng.below(6) {
        let number = if rng.one_in(8) {
            ODD_NUMBERS[usize::try_from(rng.below(6)).unwrap()]
        } else {
            1 + rng.below(4)
        };
        let wire = match depth {
            _ if rng.one_in(6) => rng.below(8),
            0 if number == 3 => 0,
            1 if number == 4 => 0,
            2.. if rng.one_in(2) => 0,
            _ => 2,
        };
        varint(number << 3 | wire, out);
        match wire {
            0 => {
                let more = if rng.one_in(3) { rng.below(11) } else { 0 };
                (0..more).for_each(|_| out.push(rng.byte() | 0x80));
                out.push(u8::try_from(rng.below(if more >= 9 { 3 } else { 128 })).unwrap());
            }
            1 => out.extend([1; 8]),
            2 => delimited(rng, depth, out),
            3 => {
                message(rng, depth + 1, out);
                varint(number << 3 | 4, out);
            }
            5 => out.extend([1; 4]),
            _ => {}
        }
    }
}

fn delimited(rng: &mut TestRng, depth: u32, out: &mut Vec<u8>) {
    let mut inner = Vec::new();
    if depth < 3 && !rng.one_in(4) {
        message(rng, depth + 1, &mut inner);
    } else {
        for _ in 0..rng.below(6) {
            inner.push(if rng.one_in(12) { rng.byte() } else { b'a' });
        }
    }
    varint(inner.len() as u64 + u64::from(rng.one_in(40)), out);
    out.extend(inner);
}

/// Fails when wire types are not compared, the tenth byte of a varint is ignored, field 0 is accepted, a second limit
/// replaces the first, UTF-8 is not checked, or groups may be one level deeper.
#[test]
fn codec_accepts_and_rejects_the_same_as_prost() {
    let long = std::env::var_os("HIVEMIND_LONG").is_some();
    let seed = if long { u64::from(std::process::id()) << 20 | 1 } else { 0x4856_4d44 };
    let (messages, mut rng) = (if long { 20_000_000 } else { 1_000_000 }, TestRng(seed));
    let (mut bytes, mut accepted) = (Vec::new(), 0_u64);
    for index in 0..messages {
        bytes.clear();
        message(&mut rng, 0, &mut bytes);
        if index % 5 == 0 && !bytes.is_empty() {
            let place = usize::try_from(rng.below(bytes.len() as u64)).unwrap();
            bytes[place] ^= 1 << rng.below(8);
        }
        accepted += u64::from(rls_codec(&bytes));
    }
    // A generator that creates only noise would prove nothing.
    assert!((messages / 10..messages * 9 / 10).contains(&accepted), "{accepted} of {messages} accepted");
}

#[test]
fn nesting_limit_equals_that_of_prost() {
    for inside in [&[][..], &[0x12], &[0x12, 0x0a], &[0x12, 0x12], &[0x12, 0x1a]] {
        let verdicts: Vec<bool> = (95..105).map(|depth| rls_codec(&nested(inside, depth))).collect();
        assert!(verdicts.contains(&true) && verdicts.contains(&false), "{verdicts:?}");
    }
}

/// `depth` groups within fields with these tags.
fn nested(tags: &[u8], depth: usize) -> Vec<u8> {
    let groups = [vec![0x7b; depth], vec![0x7c; depth]].concat();
    tags.iter().rev().fold(groups, |inner, tag| {
        let mut outer = vec![*tag];
        varint(inner.len() as u64, &mut outer);
        outer.extend(inner);
        outer
    })
}

#[test]
fn responses_are_encoded_like_prost() {
    let mut rng = TestRng(7);
    let values = ["", "a", "long", "quota", "body"];
    for _ in 0..500 {
        let mut request = Vec::new();
        bytes(1, b"d", &mut request);
        for _ in 0..=rng.below(3) {
            let mut descriptor = Vec::new();
            for _ in 0..=rng.below(2) {
                let mut entry = Vec::new();
                bytes(1, b"key", &mut entry);
                bytes(2, values[usize::try_from(rng.below(5)).unwrap()].as_bytes(), &mut entry);
                bytes(1, &entry, &mut descriptor);
            }
            bytes(2, &descriptor, &mut request);
        }
        // The response is compared there.
        assert!(rls_request(&request), "{request:02x?} is rejected");
    }
}

/// A request of up to two descriptors, each under one limit, for a known key.
///
/// Fails when the name of a status is cloned.
#[test]
fn ordinary_call_does_not_allocate() {
    let ruleset = parse_rules("rules", RULES).unwrap().ruleset;
    let options = Options { response_headers: None, dynamic_metadata: false, ..options() };
    let service = RateLimitService(service(ruleset, options));
    for values in [&["a"][..], &["a", "b"]] {
        let mut request = Vec::new();
        bytes(1, b"d", &mut request);
        for value in values {
            let (mut entry, mut descriptor) = (Vec::new(), Vec::new());
            bytes(1, b"key", &mut entry);
            bytes(2, value.as_bytes(), &mut entry);
            bytes(1, &entry, &mut descriptor);
            bytes(2, &descriptor, &mut request);
        }
        let mut out = Vec::with_capacity(1_000);
        // Also once over its limit: the first spend and the first refusal of a key are recorded with allocations.
        for _ in 0..8 {
            service.try_should_rate_limit(&request, None, None, &mut out).unwrap().unwrap();
        }
        out.clear();
        let allocations = allocation_counter::measure(|| {
            for _ in 0..10 {
                service.try_should_rate_limit(&request, None, None, &mut out).unwrap().unwrap();
            }
        });
        assert_eq!(allocations.count_total, 0, "{values:?}");
        assert!(!out.is_empty());
    }
}

const RULES: &str = "domain: d
descriptors:
- {key: key, rate_limit: {name: of_each, unit: day, requests_per_unit: 5}}
";

fn bytes(field: u8, value: &[u8], out: &mut Vec<u8>) {
    out.push(field << 3 | 2);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}
