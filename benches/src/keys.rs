//! Realistic keys and their order: random, but the same in every run and for every contender.

/// SplitMix64: random enough for cache misses, without a dependency.
pub struct Random(u64);

impl Random {
    /// A generator that always gives the same numbers for one seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, evenly spread.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// `count` names of 23 bytes, similar to API keys and session ids.
#[must_use]
pub fn names(count: usize) -> Vec<String> {
    let mut random = Random::new(1);
    (0..count).map(|_| format!("client-{:016x}", random.next_u64())).collect()
}

/// `count` distinct numbers.
#[must_use]
pub fn numbers(count: usize) -> Vec<u64> {
    let mut random = Random::new(2);
    (0..count).map(|_| random.next_u64()).collect()
}

/// `length` indices below `below`, at random.
#[must_use]
pub fn order(length: usize, below: usize) -> Vec<usize> {
    let mut random = Random::new(3);
    (0..length).map(|_| (random.next_u64() % below as u64) as usize).collect()
}
