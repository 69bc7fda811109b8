//! How many primes there are.

use alloc::vec;
use alloc::vec::Vec;

/// The primes from `begin` up to `end`, counted.
pub fn primes(begin: u64, end: u64) -> u64 {
    let begin = begin.max(2);
    if begin >= end {
        return 0;
    }
    let mut is_composite = vec![false; (end - begin) as usize];
    for prime in small_primes(end.isqrt()) {
        let first = (prime * prime).max(begin.next_multiple_of(prime));
        for number in (first..end).step_by(prime as usize) {
            is_composite[(number - begin) as usize] = true;
        }
    }
    is_composite.iter().filter(|is_composite| !**is_composite).count() as u64
}

/// The primes up to and with `most`.
fn small_primes(most: u64) -> Vec<u64> {
    let mut primes = Vec::new();
    for number in 2..=most {
        let root = number.isqrt();
        let divides = |prime: &u64| number.is_multiple_of(*prime);
        if !primes.iter().take_while(|prime| **prime <= root).any(divides) {
            primes.push(number);
        }
    }
    primes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_are_known() {
        for (limit, count) in [(0, 0), (2, 0), (3, 1), (10, 4), (100, 25), (1 << 20, 82_025)] {
            assert_eq!(primes(0, limit), count, "below {limit}");
            let halves = primes(0, limit / 2) + primes(limit / 2, limit);
            assert_eq!(halves, count, "below {limit}, by halves");
        }
    }
}
