//! One rate as a multiple of another: multiply and shift, no division where time is read.

/// A factor with 32 bits before the point and 32 behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scale(u64);

impl Scale {
    /// `numerator / denominator`, rounded to the nearest; as much as fits, if that is too much.
    pub fn ratio(numerator: u64, denominator: u64) -> Scale {
        let denominator = u128::from(denominator.max(1));
        let factor = ((u128::from(numerator) << 32) + denominator / 2) / denominator;
        Scale(u64::try_from(factor).unwrap_or(u64::MAX))
    }

    /// `value` times the factor, rounded down; as much as fits, if that is too much.
    pub fn of(self, value: u64) -> u64 {
        let product = (u128::from(value) * u128::from(self.0)) >> 32;
        u64::try_from(product).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_scales_and_saturates() {
        assert_eq!(Scale::ratio(3, 2).of(10), 15);
        assert_eq!(Scale::ratio(1, 3).of(3_000_000), 999_999);
        assert_eq!(Scale::ratio(1, 4).of(u64::MAX), u64::MAX / 4);
        assert_eq!(Scale::ratio(u64::MAX, 1).of(1), u32::MAX.into());
        assert_eq!(Scale::ratio(2, 1).of(u64::MAX), u64::MAX);
        assert_eq!(Scale::ratio(0, 7).of(u64::MAX), 0);
        assert_eq!(Scale::ratio(7, 0).of(1), 7);
    }
}
