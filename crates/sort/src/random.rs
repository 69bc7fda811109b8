//! The Sort Benchmark's random numbers: a linear congruential generator of 128 bits, of which any
//! member can be computed without those before it.

/// A step is `state * MULTIPLIER + INCREMENT`. The multiplier is one of L'Ecuyer's ("Tables of
/// linear congruential generators", 1999); the increment, and so the first number, begins with a
/// name in ASCII.
const MULTIPLIER: u128 = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
const INCREMENT: u128 = 0x4a69_6d47_7261_7952_4950_2020_2020_2001;

/// The sequence of random numbers, from some place on.
#[derive(Clone, Debug)]
pub struct Random(u128);

impl Random {
    /// The sequence without its first `skipped` numbers. Takes a few multiplications, however
    /// many these are.
    pub fn after(skipped: u128) -> Random {
        // A number of steps is itself a step with another multiplier and increment; the powers of
        // two among them follow from each other by doubling.
        let (mut multiplier, mut increment) = (MULTIPLIER, INCREMENT);
        let (mut state, mut left) = (0u128, skipped);
        while left > 0 {
            if left & 1 == 1 {
                state = state.wrapping_mul(multiplier).wrapping_add(increment);
            }
            increment = increment.wrapping_mul(multiplier.wrapping_add(1));
            multiplier = multiplier.wrapping_mul(multiplier);
            left >>= 1;
        }
        Random(state)
    }

    /// The next number.
    #[inline(always)]
    pub fn draw(&mut self) -> u128 {
        self.0 = self.0.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn skipping_is_drawing() {
        let mut drawn = Random::after(0);
        for skipped in 0..1000 {
            assert_eq!(Random::after(skipped).draw(), drawn.draw(), "{skipped}");
        }
        let mut far = Random::after((1 << 100) + 41);
        far.draw();
        assert_eq!(far.draw(), Random::after((1 << 100) + 42).draw());
    }
}
