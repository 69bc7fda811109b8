//! The calls of other cores that go on here: each is a task that can be cancelled, and whoever
//! it works for is known to the core while it works.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use nile_abi::CoreId;
use nile_order::SortedMap;
use nile_sync::Waiter;

use crate::frame::CallId;
use crate::host::Host;
use crate::{CallResult, LocalFuture};

/// The method's future, until it is over or cancelled, and who polls it.
struct Work {
    future: Option<LocalFuture<'static, CallResult<Vec<u8>>>>,
    poller: Waiter,
}

/// Calls of other cores that may go on at once.
pub(crate) const MOST_SERVED: usize = 1 << 14;

type Shared = Rc<RefCell<Work>>;

/// The calls that go on.
#[derive(Default)]
pub(crate) struct Serving(RefCell<SortedMap<(CoreId, CallId), Shared>>);

impl Serving {
    /// Runs a method for another core. Gives `None` if the call was cancelled.
    pub(crate) fn run(
        self: &Rc<Self>,
        host: &Rc<dyn Host>,
        call: (CoreId, CallId),
        future: LocalFuture<'static, CallResult<Vec<u8>>>,
    ) -> impl Future<Output = Option<CallResult<Vec<u8>>>> + 'static {
        let work = Rc::new(RefCell::new(Work { future: Some(future), poller: Waiter::default() }));
        self.0.borrow_mut().insert(call, work.clone());
        Served { serving: self.clone(), host: host.clone(), call, work }
    }

    /// How many calls go on.
    pub(crate) fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Whether as many calls go on as may.
    pub(crate) fn is_full(&self) -> bool {
        self.0.borrow().len() >= MOST_SERVED
    }

    /// The caller does not wait any more.
    pub(crate) fn cancel(&self, call: (CoreId, CallId)) {
        let work = self.0.borrow_mut().remove(&call);
        if let Some(work) = work {
            cancel(&work);
        }
    }

    /// The end of the core: what goes on holds the services, and those hold this.
    pub(crate) fn close(&self) {
        let all = core::mem::take(&mut *self.0.borrow_mut());
        all.into_values().for_each(|work| cancel(&work));
    }

    /// No call of this core waits any more.
    pub(crate) fn cancel_all(&self, caller: CoreId) {
        let range = (caller, CallId(0))..=(caller, CallId(u64::MAX));
        let calls: Vec<_> = self.0.borrow().range(range).map(|(call, _)| *call).collect();
        for call in calls {
            self.cancel(call);
        }
    }
}

/// Drops the method's future outside of the borrow: what it holds may call back.
fn cancel(work: &Shared) {
    let future = work.borrow_mut().future.take();
    drop(future);
    work.borrow().poller.wake();
}

struct Served {
    serving: Rc<Serving>,
    host: Rc<dyn Host>,
    call: (CoreId, CallId),
    work: Shared,
}

impl Future for Served {
    type Output = Option<CallResult<Vec<u8>>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Taken out while it is polled: it may cancel itself.
        let Some(mut future) = self.work.borrow_mut().future.take() else {
            return Poll::Ready(None);
        };
        self.host.working_for(Some(self.call));
        let polled = future.as_mut().poll(context);
        self.host.working_for(None);
        if let Poll::Ready(result) = polled {
            self.serving.0.borrow_mut().remove(&self.call);
            return Poll::Ready(Some(result));
        }
        if !self.serving.0.borrow().contains_key(&self.call) {
            return Poll::Ready(None);
        }
        let mut work = self.work.borrow_mut();
        work.future = Some(future);
        work.poller.wait(context.waker());
        Poll::Pending
    }
}
