//! A task that waits for the next of many deadlines, and is told when one comes up that is sooner.

use core::cell::Cell;
use core::future::poll_fn;
use core::task::{Context, Poll};

use nile_abi::{Instant, Window};
use nile_stl::Stl;
use nile_sync::Waiter;

/// The wait of one task.
#[derive(Default)]
pub struct Alarm {
    /// When it is over at the latest without being told.
    armed: Cell<Option<Instant>>,
    /// Whether it was told since it began.
    told: Cell<bool>,
    waiter: Waiter,
}

impl Alarm {
    /// There is a deadline now: ends the wait if it meant to last longer.
    pub fn plan(&self, due: Option<Window>) {
        let due = due.map(Window::until);
        if due.is_some_and(|due| self.armed.get().is_none_or(|armed| due < armed)) {
            self.ring();
        }
    }

    /// Ends the wait, or the next one at once.
    pub fn ring(&self) {
        self.told.set(true);
        self.waiter.wake();
    }

    /// Waits until the core is awake in the window `due`, until it is told, or until `other` is
    /// ready.
    pub async fn wait(
        &self,
        stl: &Stl,
        due: Option<Window>,
        mut other: impl FnMut(&mut Context<'_>) -> Poll<()>,
    ) {
        self.armed.set(due.map(Window::until));
        let mut timer = due.map(|due| stl.host().sleep_in(due));
        poll_fn(|context| {
            let late = timer.as_mut().is_some_and(|it| it.as_mut().poll(context).is_ready());
            if self.told.replace(false) || late || other(context).is_ready() {
                return Poll::Ready(());
            }
            self.waiter.wait(context.waker());
            Poll::Pending
        })
        .await;
        // Until the next wait begins, whoever plans is not needed: it looks at everything first.
        self.armed.set(Some(Instant::START));
    }
}
