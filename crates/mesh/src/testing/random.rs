//! Random numbers that a seed decides: the same run again, bit for bit.

/// A source of numbers (`SplitMix64`): small, and good enough to choose schedules with.
///
/// ```
/// use hivemind_mesh::testing::Random;
///
/// let (mut one, mut same) = (Random::new(7), Random::new(7));
/// assert_eq!(one.draw(), same.draw());
/// assert!(one.below(10) < 10 && one.unit() < 1.0 && one.chance(1_000));
/// ```
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xd1b5_4a32_d192_ed03)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let scaled = u128::from(self.draw()) * u128::from(bound);
        u64::try_from(scaled >> 64).unwrap_or(0)
    }

    /// A number from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are all that a float holds")]
    pub fn unit(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True so often out of a thousand times.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        per_mille > 0 && self.below(1_000) < per_mille
    }
}
