//! How much of something may be had in a second: bytes of a log, by those who cannot be trusted
//! with it.

use core::cell::Cell;

use nile_abi::Instant;

/// So many bytes in a second, and so many at once at first. Whoever has had all of them gets the
/// next when half of them have come back, so that what is told of those who were refused is told
/// once in a while.
#[derive(Debug)]
pub struct Allowance {
    most: u32,
    left: Cell<u64>,
    since: Cell<Instant>,
    refused: Cell<u64>,
}

/// What became of a wish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admitted {
    /// Granted.
    Yes,
    /// Granted, and so many before it were not.
    After(u64),
    /// Refused, and counted.
    No,
}

impl Allowance {
    /// `most` bytes a second.
    pub fn new(most: u32) -> Allowance {
        let (left, since) = (Cell::new(most.into()), Cell::new(Instant::START));
        Allowance { most, left, since, refused: Cell::new(0) }
    }

    /// Takes so many bytes, if they are there.
    pub fn take(&self, now: Instant, bytes: usize) -> Admitted {
        let most = u64::from(self.most);
        let passed = now.since(self.since.get()).as_micros().min(1_000_000) as u64;
        self.since.set(now);
        let left = (self.left.get() + most * passed / 1_000_000).min(most);
        let bytes = bytes as u64;
        let refused = self.refused.get();
        let least = if refused > 0 { bytes.max(most / 2) } else { bytes };
        if left < least {
            self.left.set(left);
            self.refused.set(refused + 1);
            return Admitted::No;
        }
        self.left.set(left - bytes);
        match self.refused.take() {
            0 => Admitted::Yes,
            refused => Admitted::After(refused),
        }
    }

    /// How many were refused since the last one was granted; told once.
    pub fn refused(&self) -> u64 {
        self.refused.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn a_flood_gets_what_it_may_and_what_it_did_not_get_is_told() {
        let allowance = Allowance::new(1000);
        let (mut now, mut had, mut refused) = (Instant::START, 0, 0);
        for _ in 0..10_000 {
            now = now + Duration::from_millis(1);
            match allowance.take(now, 100) {
                Admitted::Yes => had += 100,
                Admitted::After(count) => {
                    had += 100;
                    refused += count;
                }
                Admitted::No => {}
            }
        }
        assert!((9_000..=11_000).contains(&had), "{had}");
        assert_eq!(refused + allowance.refused() + had / 100, 10_000);
    }

    #[test]
    fn whoever_keeps_to_it_gets_all() {
        let allowance = Allowance::new(1000);
        let mut now = Instant::START;
        for _ in 0..100 {
            now = now + Duration::from_millis(100);
            assert_eq!(allowance.take(now, 100), Admitted::Yes);
        }
        assert_eq!(allowance.refused(), 0);
        assert_eq!(Allowance::new(0).take(now, 1), Admitted::No);
    }
}
