//! The only source of randomness: SplitMix64, so that a seed means the same history everywhere and for ever.

#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
}

impl Dice {
    pub fn new(seed: u64) -> Dice {
        // Neighbouring seeds must not have similar histories.
        let mut dice = Dice { state: seed.wrapping_mul(0xd129_0d3a_35c8_57f5) ^ 0x5851_f42d_4c95_7f2d };
        dice.roll();
        dice
    }

    pub fn roll(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.roll() % end as u64).unwrap_or_default()
    }

    pub fn ms(&mut self, from: i64, to: i64) -> i64 {
        from + i64::try_from(self.roll() % u64::try_from(to - from).unwrap_or(1)).unwrap_or_default()
    }

    pub fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        if of.is_empty() { None } else { of.get(self.below(of.len())) }
    }

    /// A random index, with these weights.
    pub fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut at = self.below(weights.iter().sum::<usize>().max(1));
        for (index, weight) in weights.iter().enumerate() {
            if at < *weight {
                return index;
            }
            at -= weight;
        }
        0
    }
}
