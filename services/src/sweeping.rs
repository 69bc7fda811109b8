//! A sweep that goes on in one task, and is done once more if somebody asks for it meanwhile.

use core::cell::Cell;

/// Whether a sweep goes on, and whether another is wanted.
#[derive(Default)]
pub struct Sweeping {
    goes_on: Cell<bool>,
    is_asked: Cell<bool>,
}

impl Sweeping {
    /// Asks for a sweep. Whether the caller has to begin it: no task does.
    pub fn ask(&self) -> bool {
        self.is_asked.set(true);
        !self.goes_on.replace(true)
    }

    /// It is looked from now on: whoever asks after this may have something that it does not see.
    pub fn begin(&self) {
        self.is_asked.set(false);
    }

    /// It was looked. Whether nothing is left to do: it `is_clean`, and nobody has asked meanwhile.
    pub fn is_over(&self, is_clean: bool) -> bool {
        let is_over = is_clean && !self.is_asked.get();
        if is_over {
            self.goes_on.set(false);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_meanwhile_is_done_once_more() {
        let sweeping = Sweeping::default();
        assert!(sweeping.ask() && !sweeping.ask(), "one task");
        sweeping.begin();
        assert!(!sweeping.is_over(false), "something is left");
        sweeping.begin();
        assert!(!sweeping.ask());
        assert!(!sweeping.is_over(true), "somebody has asked since it began");
        sweeping.begin();
        assert!(sweeping.is_over(true) && sweeping.ask(), "the next begins anew");
    }
}
