//! What one task of a core does at a time.

use core::cell::Cell;

use crate::Notify;

/// Taken by one task at a time.
#[derive(Default)]
pub struct Lock {
    is_taken: Cell<bool>,
    changes: Notify,
}

/// The right to do it, until this is dropped.
pub struct Turn<'a>(&'a Lock);

impl Lock {
    /// Waits until nobody else has it.
    pub async fn take(&self) -> Turn<'_> {
        self.changes.until(|| (!self.is_taken.replace(true)).then_some(())).await;
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.is_taken.set(false);
        self.0.changes.notify();
    }
}
