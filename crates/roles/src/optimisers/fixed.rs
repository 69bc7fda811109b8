//! Numbers with 16 bits behind the point. A kernel has no floating point to spare, and these are
//! the same on every machine. Functions are as exact as a random search can tell: to 1%.

use crate::Random;

/// One.
pub(crate) const ONE: i64 = 1 << 16;

/// The product.
pub(crate) fn times(a: i64, b: i64) -> i64 {
    a * b / ONE
}

/// A number from 0 to [`ONE`], without it.
pub(crate) fn unit(random: &mut Random) -> i64 {
    random.below(ONE as usize) as i64
}

/// The square root of a number that is not negative.
pub(crate) fn root(x: i64) -> i64 {
    ((x.max(0) as u64) << 16).isqrt() as i64
}

/// e to the power of `x`, for `x` of 20 at most.
pub(crate) fn exp(x: i64) -> i64 {
    // 2 to the power of the whole part, times a parabola for what is behind the point.
    const LOG2_E: i64 = 94_548;
    let x = times(x, LOG2_E);
    let (whole, part) = (x.div_euclid(ONE), x.rem_euclid(ONE));
    let of_part = ONE + times(part, 43_024 + times(part, 22_512));
    if whole < 0 {
        of_part.checked_shr(whole.unsigned_abs() as u32).unwrap_or(0)
    } else {
        of_part << whole.min(30)
    }
}

/// The cosine of so many turns (Bhaskara's approximation).
pub(crate) fn cos_turns(t: i64) -> i64 {
    let t = t.rem_euclid(ONE);
    // Its distance to the nearest of the turn's two ends; beyond a quarter the sign changes.
    let near = t.min(ONE - t);
    let (sign, near) = if near > ONE / 4 { (-1, ONE / 2 - near) } else { (1, near) };
    let square = times(near, near);
    sign * (ONE - 16 * square) * ONE / (ONE + 4 * square)
}

/// A step of a Lévy flight: short most times, and long at times; its density falls with the power
/// of 1.5 (Wang 2018 gives the factor: half Γ(1/2) sin(π/4) over π, which is 0.2).
pub(crate) fn levy(random: &mut Random) -> i64 {
    const FACTOR: i64 = 13_072;
    let s = unit(random).max(1);
    let length = FACTOR * ONE / times(s, root(s)).max(1);
    if random.happens(1, 2) { length } else { -length }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use alloc::vec::Vec;

    use super::*;

    fn close(found: i64, expected: f64) -> bool {
        (found as f64 / ONE as f64 - expected).abs() <= 0.01 * expected.abs().max(1.0)
    }

    #[test]
    fn functions_are_close_to_the_true_ones() {
        for x in (-12 * ONE..3 * ONE).step_by(1777) {
            let real = x as f64 / ONE as f64;
            assert!(close(exp(x), real.exp()), "exp {real}");
            let cosine = (real * core::f64::consts::TAU).cos();
            assert!(close(cos_turns(x), cosine), "cos {real}");
        }
        assert!(close(root(2 * ONE), core::f64::consts::SQRT_2));
        assert_eq!((exp(-100 * ONE), root(-5)), (0, 0));
    }

    #[test]
    fn flights_are_short_most_times_and_long_at_times() {
        let mut random = Random::new(1);
        let lengths: Vec<i64> = (0..10_000).map(|_| levy(&mut random).abs()).collect();
        let long = lengths.iter().filter(|length| **length > 4 * ONE).count();
        let short = lengths.iter().filter(|length| **length < ONE).count();
        assert!((500..2_500).contains(&long) && short > 5_000, "{long} {short}");
    }
}
