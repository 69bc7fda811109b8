//! Calls that a thread has begun and waits for, while the others go on.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::RefCell;

use nile_abi::Status;
use nile_abi::call::{Event, System, SystemCall};

use super::{Runtime, Thread};

/// The calls, by what the kernel names them.
#[derive(Default)]
pub(super) struct Begun(RefCell<BTreeMap<u64, Waiting>>);

/// A call that a thread waits for.
struct Waiting {
    thread: Thread,
    /// Its end, if it is over.
    end: Option<Vec<u8>>,
}

impl Begun {
    /// Takes an event, if it is the end of a call.
    pub fn happened(&self, runtime: &Runtime<'_>, event: Event<'_>) -> bool {
        let Event::Ended(number, end) = event else { return false };
        if let Some(waiting) = self.0.borrow_mut().get_mut(&number) {
            waiting.end = Some(end.into());
            runtime.unpark(&waiting.thread);
        }
        true
    }
}

impl Runtime<'_> {
    /// Makes a call as [`SystemCall::Invoke`] does, for which the calling thread alone waits: its
    /// end. `Busy` if too many threads do so.
    pub(crate) fn invoke_alone(&self, patience: u64, input: &[u8]) -> Result<Vec<u8>, Status> {
        let number = self.call(SystemCall::Begin, patience, input, &mut []).result()?;
        let begun = &self.0.begun.0;
        begun.borrow_mut().insert(number, Waiting { thread: self.current(), end: None });
        // Somebody else may unpark this thread meanwhile.
        while begun.borrow().get(&number).is_some_and(|it| it.end.is_none()) {
            self.park();
        }
        let ended = begun.borrow_mut().remove(&number);
        ended.and_then(|it| it.end).ok_or(Status::Dead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use core::ptr::NonNull;
    use nile_abi::VirtAddr;
    use nile_abi::call::Answer;

    /// Ends calls when the package waits, the last one first.
    #[derive(Default)]
    struct Backwards(RefCell<Vec<(u64, u8)>>, Cell<u64>);

    impl System for Backwards {
        fn call(&self, call: SystemCall, _: u64, input: &[u8], output: &mut [u8]) -> Answer {
            if call == SystemCall::Begin {
                self.1.set(self.1.get() + 1);
                self.0.borrow_mut().push((self.1.get(), input[0]));
                return Answer::ok(self.1.get());
            }
            assert_eq!(call, SystemCall::Wait);
            let (number, said) = self.0.borrow_mut().pop().expect("a call is begun");
            let event = [&Event::end_head(number)[..], &[said]].concat();
            output[..event.len()].copy_from_slice(&event);
            Answer::ok(event.len() as u64)
        }

        fn memory(&self, _: VirtAddr, _: u64) -> Option<NonNull<u8>> {
            None
        }
    }

    #[test]
    fn each_thread_gets_the_end_of_its_own_call() {
        let system = Backwards::default();
        let runtime = Runtime::new(&system);
        let call = |said: u8| {
            runtime.spawn(move |runtime| {
                assert_eq!(runtime.invoke_alone(7, &[said]), Ok([said].into()))
            })
        };
        let threads: Vec<_> = (1..=5).map(call).collect();
        threads.into_iter().for_each(|it| it.join(&runtime));
        assert_eq!(system.1.get(), 5);
    }
}
