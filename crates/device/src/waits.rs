//! A word in memory that two cores share, in which one says that it waits for the other, which
//! interrupts it then, and not a core that looks anyway.

use core::sync::atomic::{AtomicU64, Ordering, fence};

/// The word: the name in the machine of the core that waits, plus one.
pub(crate) struct Waits<'a>(pub &'a AtomicU64);

impl Waits<'_> {
    /// Says that the core of this name waits, unless there is something for it: whether there is.
    /// What comes from then on interrupts it.
    pub fn begin(&self, own: u32, is_ready: impl FnOnce() -> bool) -> bool {
        self.0.store(u64::from(own) + 1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_ready = is_ready();
        if is_ready {
            self.end();
        }
        is_ready
    }

    /// Says that it looks by itself.
    pub fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Who is to be interrupted, after something was left for it. It is named until it looks: who
    /// ends before it has interrupted is followed by one that does.
    pub fn name(&self) -> Option<u32> {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed).checked_sub(1).map(|name| name as u32)
    }

    /// The same, once: who is the next to ask hears of nobody.
    pub fn take(&self) -> Option<u32> {
        fence(Ordering::SeqCst);
        let is_waiting = self.0.load(Ordering::Relaxed) != 0;
        let name = if is_waiting { self.0.swap(0, Ordering::AcqRel) } else { 0 };
        name.checked_sub(1).map(|name| name as u32)
    }
}
