//! When something is to happen, as exactly as its owner needs it.

use core::time::Duration;

use crate::Instant;

/// From when on something may happen, and by when it must. What has tolerance can be done together
/// with something else for which a core is awake (Dhara IV.C).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    from: Instant,
    until: Instant,
}

impl Window {
    /// At `moment`, or as soon after it as can be.
    pub const fn at(moment: Instant) -> Window {
        Window { from: moment, until: moment }
    }

    /// At most `tolerance` before `moment` or after it.
    pub fn around(moment: Instant, tolerance: Duration) -> Window {
        let nanos = u64::try_from(tolerance.as_nanos()).unwrap_or(u64::MAX);
        let from = Instant::from_nanos(moment.as_nanos().saturating_sub(nanos));
        Window { from, until: moment + tolerance }
    }

    /// At any time from `moment` on: when the core is awake anyway.
    pub const fn after(moment: Instant) -> Window {
        Window { from: moment, until: Instant::from_nanos(u64::MAX) }
    }

    /// Not before `from`, and at most `slack` after it.
    pub fn within(from: Instant, slack: Duration) -> Window {
        Window { from, until: from + slack }
    }

    /// Not before `from`, and by `until`, which is not before it.
    pub fn between(from: Instant, until: Instant) -> Window {
        Window { from, until: until.max(from) }
    }

    /// The window for whichever of two comes first, that whose end is the sooner: the other one may
    /// be seen to with it, if it has begun.
    pub fn first_of(self, other: Window) -> Window {
        Window { from: self.from.min(other.from), until: self.until.min(other.until) }
    }

    /// Before this, it may not happen.
    pub const fn from(self) -> Instant {
        self.from
    }

    /// By this, it must.
    pub const fn until(self) -> Instant {
        self.until
    }

    /// The same with an end that is at most `longest` after its beginning.
    pub fn bounded(self, longest: Duration) -> Window {
        Window { until: self.until.min(self.from + longest), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_about_their_moment() {
        let (at, ms) = (Instant::from_nanos, Duration::from_millis);
        let ends = |it: Window| (it.from().as_nanos(), it.until().as_nanos());
        assert_eq!(ends(Window::at(at(7))), (7, 7));
        assert_eq!(ends(Window::around(at(3_000_000), ms(2))), (1_000_000, 5_000_000));
        assert_eq!(ends(Window::around(at(7), ms(2))), (0, 2_000_007));
        assert_eq!(ends(Window::after(at(7))), (7, u64::MAX));
        assert_eq!(ends(Window::after(at(7)).bounded(ms(1))), (7, 1_000_007));
        assert_eq!(ends(Window::within(at(7), ms(1)).bounded(Duration::ZERO)), (7, 7));
        assert_eq!(ends(Window::between(at(7), at(3))), (7, 7));
        let (first, second) = (Window::within(at(5), ms(2)), Window::within(at(7), ms(1)));
        assert_eq!(ends(first.first_of(second)), (5, 1_000_007));
        assert_eq!(ends(Window::around(at(u64::MAX), ms(1))).1, u64::MAX);
    }
}
