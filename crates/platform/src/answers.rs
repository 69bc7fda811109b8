//! How long calls took that a core has answered: a histogram in the core's record, which everybody
//! may read without asking the core.
//!
//! A bucket is an eighth to a quarter of the time that it is for, so a percentile is right to that.

use core::time::Duration;

/// Buckets: up to 17 s, and all that took longer in the last.
pub const BUCKETS: usize = 96;

/// Buckets of an octave.
const PARTS: u64 = 4;

/// Nanoseconds of the first bucket.
const LEAST: u64 = 1024;

/// The bucket of an answer that took so long.
pub fn bucket(took: Duration) -> usize {
    let spans = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX) / LEAST;
    if spans < PARTS {
        return spans as usize;
    }
    let octave = u64::from(spans.ilog2());
    let bucket = PARTS * (octave - 1) + (spans >> (octave - 2)) % PARTS;
    (bucket as usize).min(BUCKETS - 1)
}

/// What took less is in this bucket or one before it.
pub fn bound(bucket: usize) -> Duration {
    let next = bucket as u64 + 1;
    let spans = match next {
        ..PARTS => next,
        _ => (PARTS + next % PARTS) << (next / PARTS - 1),
    };
    Duration::from_nanos(spans * LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_is_in_the_bucket_whose_bound_is_next_above_it() {
        let mut least = Duration::ZERO;
        for at in 0..BUCKETS - 1 {
            let most = bound(at);
            assert!(least < most, "bucket {at}");
            assert_eq!(bucket(least), at);
            assert_eq!(bucket(most - Duration::from_nanos(1)), at);
            // What is not told apart differs by a quarter at most, from 4 µs on.
            let is_narrow = (most - least) * 4 <= least;
            assert!(is_narrow || at < PARTS as usize, "{least:?} to {most:?}");
            least = most;
        }
        assert_eq!(bucket(least), BUCKETS - 1);
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
    }
}
