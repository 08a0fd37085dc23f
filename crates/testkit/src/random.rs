//! The pseudo-random numbers behind all generated data.
//!
//! Tests and benchmarks compare bytes across machines and years. So the generator is implemented
//! here and pinned by test vectors, instead of taken from a crate whose streams may change.
//!
//! [`SplitMix64`] turns any 64-bit number into a well mixed sequence. It seeds the other generator,
//! and derives keys that must be reproducible from their number alone. [`Random`] is xoshiro256\*\*
//! (Blackman and Vigna), about one nanosecond for eight bytes. Neither is suitable for secrets.

/// splitmix64: one multiply-and-shift mix of a counter.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// Starts the sequence of `seed`. Equal seeds give equal sequences, and every seed is suitable.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next number of the sequence.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// xoshiro256\*\*: the generator behind all content.
///
/// ```
/// use unsnap_testkit::random::Random;
///
/// let mut first = Random::of(&[7, 1, 0]);
/// let mut again = Random::of(&[7, 1, 0]);
/// assert_eq!(first.next_u64(), again.next_u64());
/// ```
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Creates a generator seeded by one number.
    pub fn new(seed: u64) -> Self {
        let mut seeds = SplitMix64::new(seed);
        Self { state: std::array::from_fn(|_| seeds.next_u64()) }
    }

    /// Creates a generator for a place: a seed, a file's number, a segment's number and so on.
    ///
    /// Every sequence of numbers has its own stream, so any part of an archive can be generated
    /// without the parts before it.
    pub fn of(place: &[u64]) -> Self {
        Self::new(place.iter().fold(0, |hash, &part| SplitMix64::new(hash ^ part).next_u64()))
    }

    /// Returns the next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let result = self.state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = self.state[1] << 17;
        self.state[2] ^= self.state[0];
        self.state[3] ^= self.state[1];
        self.state[1] ^= self.state[2];
        self.state[0] ^= self.state[3];
        self.state[2] ^= shifted;
        self.state[3] = self.state[3].rotate_left(45);
        result
    }

    /// Returns a number in `0..limit`, from the high half of a 128-bit product.
    ///
    /// The bias is below `limit / 2^64`. A `limit` of 0 gives 0.
    #[inline]
    pub fn below(&mut self, limit: u64) -> u64 {
        let product = u128::from(self.next_u64()) * u128::from(limit);
        // The high half of a 128-bit number has 64 bits.
        u64::try_from(product >> 64).unwrap_or(u64::MAX)
    }

    /// Returns one of several things.
    ///
    /// # Panics
    ///
    /// If `things` is empty.
    pub fn pick<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        &things[self.index(things.len())]
    }

    /// Returns a number below `limit`, like [`below`](Self::below), for lengths and indices.
    #[inline]
    pub fn index(&mut self, limit: usize) -> usize {
        // The result is below `limit`, which is a usize.
        usize::try_from(self.below(limit as u64)).unwrap_or(usize::MAX)
    }

    /// Returns true in `percent` of 100 cases.
    #[inline]
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// Returns a number in `0..2^bits` whose logarithm is evenly distributed: Zipf's law with
    /// exponent 1, without a table and without floating point. `bits` is at most 48.
    #[inline]
    pub fn log_uniform(&mut self, bits: u32) -> u64 {
        let word = self.next_u64();
        // The low bits choose the magnitude, the high bits the number within it.
        let magnitude = ((word & 0xFFFF) * u64::from(bits + 1)) >> 16;
        (word >> 16) & ((1 << magnitude) - 1)
    }

    /// Fills `bytes` with random bytes.
    #[inline]
    pub fn fill(&mut self, bytes: &mut [u8]) {
        let (words, rest) = bytes.as_chunks_mut::<8>();
        for word in words {
            *word = self.next_u64().to_le_bytes();
        }
        if !rest.is_empty() {
            let last = self.next_u64().to_le_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }

    /// Returns `N` random bytes, such as a public key.
    #[inline]
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_gives_the_published_sequence() {
        let mut numbers = SplitMix64::new(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(expected.map(|_| numbers.next_u64()), expected);
    }

    #[test]
    fn xoshiro256_gives_the_published_sequence() {
        let mut random = Random { state: [1, 2, 3, 4] };
        let expected = [
            11520,
            0,
            1_509_978_240,
            1_215_971_899_390_074_240,
            1_216_172_134_540_287_360,
            607_988_272_756_665_600,
            16_172_922_978_634_559_625,
            8_476_171_486_693_032_832,
            10_595_114_339_597_558_777,
            2_904_607_092_377_533_576,
        ];
        assert_eq!(expected.map(|_| random.next_u64()), expected);
    }

    #[test]
    fn places_have_their_own_streams() {
        let firsts: std::collections::BTreeSet<u64> = (0..8)
            .flat_map(|a| (0..8).map(move |b| Random::of(&[a, b]).next_u64()))
            .chain([Random::of(&[]).next_u64(), Random::of(&[0]).next_u64()])
            .collect();
        assert_eq!(firsts.len(), 66);
    }

    #[test]
    fn numbers_stay_below_their_limit() {
        let mut random = Random::new(1);
        for limit in [1, 2, 3, 100, u64::MAX] {
            assert!((0..1000).all(|_| random.below(limit) < limit));
        }
        assert_eq!(random.below(0), 0);
        assert!((0..1000).all(|_| random.log_uniform(16) < 1 << 16));
        assert_eq!(random.log_uniform(0), 0);
    }

    #[test]
    fn log_uniform_gives_every_magnitude_its_share() {
        let mut random = Random::new(2);
        let small = (0..100_000).filter(|_| random.log_uniform(15) < 256).count();
        // 9 of 16 magnitudes lie wholly below 256, the other 7 hold 1/2 + 1/4 + ... of one.
        assert!((60_000..64_500).contains(&small), "{small}");
    }

    #[test]
    fn filling_is_independent_of_the_machine() {
        let mut bytes = [0; 11];
        Random::new(0).fill(&mut bytes);
        let mut words = Random::new(0);
        assert_eq!(bytes[..8], words.next_u64().to_le_bytes());
        assert_eq!(bytes[8..], words.next_u64().to_le_bytes()[..3]);
    }
}
