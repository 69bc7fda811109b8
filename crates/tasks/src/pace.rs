//! How often a stage that goes record by record lets others have their turn, and so says that it
//! goes on: about ten times a second where records are slow, seldom where they are quick, since
//! each look is two calls.

use core::cell::Cell;
use core::time::Duration;

use nile_abi::Instant;

/// The most records between two looks.
const MOST: u32 = 1024;

/// More than this between two looks is long, and less is short.
const LONG: Duration = Duration::from_millis(100);
const SHORT: Duration = Duration::from_millis(25);

/// The records of a task between two looks.
#[derive(Debug)]
pub(crate) struct Pace {
    stride: Cell<u32>,
    left: Cell<u32>,
    looked: Cell<Option<Instant>>,
}

impl Pace {
    /// Looks after the first record.
    pub fn new() -> Pace {
        Pace { stride: Cell::new(1), left: Cell::new(1), looked: Cell::new(None) }
    }

    /// A record more; whether it is time to look.
    #[inline]
    pub fn step(&self) -> bool {
        let left = self.left.get() - 1;
        self.left.set(left);
        left == 0
    }

    /// It has looked, at `now`.
    pub fn looked(&self, now: Instant) {
        let took = self.looked.replace(Some(now)).map(|last| now.since(last));
        let stride = match self.stride.get() {
            stride if took.is_some_and(|took| took > LONG) => stride.div_ceil(2),
            stride if took.is_none_or(|took| took < SHORT) => (2 * stride).min(MOST),
            stride => stride,
        };
        self.stride.set(stride);
        self.left.set(stride);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many records are between the looks of a stage that needs so long for each.
    fn strides(each: Duration, looks: usize) -> alloc::vec::Vec<u32> {
        let (pace, mut now) = (Pace::new(), Instant::START);
        let stride = |_| {
            let mut records = 1;
            now = now + each;
            while !pace.step() {
                records += 1;
                now = now + each;
            }
            pace.looked(now);
            records
        };
        (0..looks).map(stride).collect()
    }

    #[test]
    fn slow_records_are_told_of_ten_times_a_second() {
        assert_eq!(strides(Duration::from_secs(9), 4), [1, 2, 1, 1]);
        let slow = strides(Duration::from_millis(10), 20);
        assert!(slow.iter().all(|it| *it <= 16), "{slow:?}");
        assert!(slow[4..].iter().all(|it| *it >= 4), "{slow:?}");
    }

    #[test]
    fn quick_records_are_told_of_seldom() {
        let quick = strides(Duration::from_micros(1), 20);
        assert_eq!(quick[..4], [1, 2, 4, 8]);
        assert_eq!(quick[15..], [MOST; 5]);
    }
}
