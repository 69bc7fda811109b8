//! Calls of a package that one of its threads waits for while the others go on: they are begun by
//! one system call, and their ends are among what the package waits for.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use nile_abi::Status;
use nile_abi::call::Event;

/// Calls that a package may have begun at once.
const MOST_BEGUN: usize = 64;

/// What gives a call's end, in as many bytes as there is room for.
type Call = Pin<Box<dyn Future<Output = Vec<u8>>>>;

/// The calls that a package has begun. They get on whenever it waits, and end with it.
#[derive(Default)]
pub(super) struct Begun {
    calls: RefCell<Vec<(u64, Call)>>,
    last: Cell<u64>,
}

impl Begun {
    /// Begins a call, which gets on at once as far as it can: what names it. `Busy` if there are
    /// too many.
    pub fn begin(&self, mut call: Call, context: &mut Context<'_>) -> Result<u64, Status> {
        if self.calls.borrow().len() >= MOST_BEGUN {
            return Err(Status::Busy);
        }
        let number = self.last.get() + 1;
        self.last.set(number);
        // A call that is over is not polled again.
        if let Poll::Ready(end) = call.as_mut().poll(context) {
            call = Box::pin(core::future::ready(end));
        }
        self.calls.borrow_mut().push((number, call));
        Ok(number)
    }

    /// A call that has ended, as an event.
    pub fn next_end(&self, context: &mut Context<'_>) -> Option<Vec<u8>> {
        // A call may have this package's services called, and these begin others.
        let mut calls = self.calls.take();
        let mut ended = None;
        calls.retain_mut(|(number, call)| match ended {
            Some(_) => true,
            None => match call.as_mut().poll(context) {
                Poll::Ready(end) => {
                    ended = Some([&Event::end_head(*number)[..], &end].concat());
                    false
                }
                Poll::Pending => true,
            },
        });
        calls.append(&mut self.calls.borrow_mut());
        *self.calls.borrow_mut() = calls;
        ended
    }

    /// Whether none is begun.
    pub fn is_empty(&self) -> bool {
        self.calls.borrow().is_empty()
    }

    /// The package has ended, and waits for none.
    pub fn end(&self) {
        self.calls.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::rc::Rc;
    use core::task::Waker;
    use nile_sync::Flag;

    #[test]
    fn each_end_comes_once_whenever_its_call_ends() {
        let begun = Begun::default();
        let context = &mut Context::from_waker(Waker::noop());
        let flag = Rc::new(Flag::default());
        let late = flag.clone();
        let first = begun.begin(
            Box::pin(async move {
                late.raised().await;
                Vec::from([1])
            }),
            context,
        );
        let second = begun.begin(Box::pin(async { Vec::from([2]) }), context);
        let (first, second) = (first.unwrap(), second.unwrap());
        let event = |number, end| Some([&Event::end_head(number)[..], &[end]].concat());
        assert_eq!(begun.next_end(context), event(second, 2));
        assert_eq!(begun.next_end(context), None);
        flag.raise();
        assert_eq!(begun.next_end(context), event(first, 1));
        assert_eq!(begun.next_end(context), None);
        let many = |_| begun.begin(Box::pin(core::future::pending()), context);
        let results: Vec<_> = (0..=MOST_BEGUN).map(many).collect();
        assert_eq!(results.iter().filter(|it| it.is_ok()).count(), MOST_BEGUN);
        assert_eq!(results.last(), Some(&Err(Status::Busy)));
        begun.end();
        assert!(begun.begin(Box::pin(core::future::pending()), context).is_ok());
    }
}
