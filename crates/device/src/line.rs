//! The line by which a device of the node interrupts, and the guard against one that does so for
//! nothing.
//!
//! A driver polls its device, and has it interrupt only while the core sleeps. So a device whose
//! interrupts bring nothing is broken, or somebody plays with it: its line is masked for a while,
//! which grows as long as it goes on, and the core looks at the device by its timer meanwhile.

use core::fmt;
use core::time::Duration;

use nile_abi::{CoreId, Instant};

/// The most interfaces of a node that have a line, and the most disks.
pub const MOST_OF_A_KIND: usize = 8;

/// Lines of a node: those of its interfaces, then those of its disks.
pub const LINES: usize = 2 * MOST_OF_A_KIND;

/// A line, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Line(u8);

impl Line {
    /// That of the node's interface with this number.
    pub fn interface(number: usize) -> Option<Line> {
        (number < MOST_OF_A_KIND).then_some(Line(number as u8))
    }

    /// That of its disk, or what it has several disks at, with this number.
    pub fn disk(number: usize) -> Option<Line> {
        (number < MOST_OF_A_KIND).then_some(Line((MOST_OF_A_KIND + number) as u8))
    }

    /// Whether it is a disk's.
    pub fn is_disk(self) -> bool {
        self.index() >= MOST_OF_A_KIND
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Line> {
        (0..LINES as u8).map(Line)
    }

    /// Its number, below [`LINES`].
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index().checked_sub(MOST_OF_A_KIND) {
            None => write!(f, "interface{}", self.0),
            Some(disk) => write!(f, "disk{disk}"),
        }
    }
}

/// Whether a line interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gate {
    /// It does.
    Open,
    /// It does not, as the operator has said.
    Masked,
    /// It does not for a while, as it did for nothing.
    Storm,
}

/// What is known of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineState {
    /// Which core it interrupts. If that does not drive the device, it wakes the one that does.
    pub core: CoreId,
    /// Whether it does.
    pub gate: Gate,
    /// How often it was masked for interrupting for nothing.
    pub storms: u32,
}

/// Interrupts in [`SPAN`] that are too many, if fewer than one in [`USEFUL`] brings anything.
pub const MOST: u64 = 100;
const SPAN: Duration = Duration::from_millis(100);
const USEFUL: u64 = 4;

/// For how long a line is masked at first, and at last.
const PAUSE: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(1);

/// After so many times as long without a storm the next one is the first again.
const CALM: u32 = 10;

/// The guard of a line.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    /// What interrupts are counted from: their number, what had been done, and when that was.
    seen: u64,
    done: u64,
    since: Instant,
    /// Until when the line is masked, or was last.
    until: Option<Instant>,
    is_masked: bool,
    pause: Duration,
}

/// What a guard wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The line is to be masked, for so long.
    Mask(Duration),
    /// It is to be open again.
    Open,
}

impl Guard {
    /// A guard that has seen so many interrupts.
    pub fn new(interrupts: u64) -> Guard {
        Guard {
            seen: interrupts,
            done: 0,
            since: Instant::START,
            until: None,
            is_masked: false,
            pause: Duration::ZERO,
        }
    }

    /// Looks at how many interrupts there were and how much the device has done. The core does so
    /// once a pass; the clock is read only if there is a reason.
    pub fn look(
        &mut self,
        interrupts: u64,
        done: impl FnOnce() -> u64,
        now: impl FnOnce() -> Instant,
    ) -> Option<Verdict> {
        if self.is_masked {
            let now = now();
            if self.until.is_some_and(|until| now < until) {
                return None;
            }
            self.is_masked = false;
            self.count_from(interrupts, done(), now);
            return Some(Verdict::Open);
        }
        let came = interrupts.wrapping_sub(self.seen);
        if came < MOST {
            return None;
        }
        let (done, now) = (done(), now());
        let useful = done.saturating_sub(self.done).saturating_mul(USEFUL);
        let is_storm = useful < came && now.since(self.since) <= SPAN;
        self.count_from(interrupts, done, now);
        if !is_storm {
            return None;
        }
        let goes_on = self.until.is_some_and(|until| now.since(until) <= self.pause * CALM);
        self.pause = if goes_on { (2 * self.pause).min(LONGEST) } else { PAUSE };
        self.until = Some(now + self.pause);
        self.is_masked = true;
        Some(Verdict::Mask(self.pause))
    }

    fn count_from(&mut self, interrupts: u64, done: u64, now: Instant) {
        (self.seen, self.done, self.since) = (interrupts, done, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::START + Duration::from_micros(micros)
    }

    /// Interrupts, one a microsecond from a moment on, each with a look: what the guard says first,
    /// and after how many.
    fn storm(guard: &mut Guard, from: u64, begun: u64, useful: u64) -> Option<(u64, Verdict)> {
        (1..=1000).find_map(|number| {
            let done = || number * useful / 100;
            guard.look(begun + number, done, || at(from + number)).map(|verdict| (number, verdict))
        })
    }

    #[test]
    fn names_are_those_of_the_boot_report() {
        let names: alloc::vec::Vec<_> = Line::all().map(|it| alloc::format!("{it}")).collect();
        assert_eq!((&*names[0], &*names[7], &*names[8]), ("interface0", "interface7", "disk0"));
        assert_eq!(Line::disk(7).map(Line::index), Some(LINES - 1));
        assert_eq!((Line::disk(8), Line::interface(8)), (None, None));
    }

    #[test]
    fn what_interrupts_for_nothing_is_masked_for_longer_and_longer() {
        let mut guard = Guard::new(0);
        let (mut now, mut begun, mut pause) = (1_000, 0, PAUSE);
        for _ in 0..12 {
            let (after, verdict) = storm(&mut guard, now, begun, 0).expect("a storm");
            assert!(after <= 2 * MOST, "{after} came through");
            assert_eq!(verdict, Verdict::Mask(pause));
            begun += after;
            now += after + pause.as_micros() as u64 - 1;
            assert_eq!(guard.look(begun, || 0, || at(now)), None, "it is still masked");
            now += 2;
            assert_eq!(guard.look(begun, || 0, || at(now)), Some(Verdict::Open));
            pause = (2 * pause).min(LONGEST);
        }
        assert_eq!(pause, LONGEST);
        // It has been quiet for long enough: the next is a first one.
        now += 20_000_000;
        storm(&mut guard, now, begun, 100);
        let (_, verdict) = storm(&mut guard, now + 1_000, begun + 1_000, 0).expect("a storm");
        assert_eq!(verdict, Verdict::Mask(PAUSE));
    }

    #[test]
    fn what_brings_something_or_comes_seldom_is_let_through() {
        for useful in [30, 100, 10_000] {
            assert_eq!(storm(&mut Guard::new(7), 0, 7, useful), None);
        }
        let mut seldom = Guard::new(0);
        let said = (1..5_000).find_map(|number| seldom.look(number, || 0, || at(number * 1_100)));
        assert_eq!(said, None);
    }
}
