//! Work that is over when its caller's deadline is. A call from another core ends by itself; one
//! from the same core waits as long as the method does.

use alloc::boxed::Box;
use core::future::{Future, poll_fn};
use core::task::Poll;

use nile_abi::Status;
use nile_stl::{CallError, CallResult, Caller, Stl};

/// What `work` comes to; `Timeout`, and it is dropped, at the deadline of `caller`.
pub async fn in_time<T>(
    stl: &Stl,
    caller: &Caller,
    work: impl Future<Output = CallResult<T>>,
) -> CallResult<T> {
    let mut work = Box::pin(work);
    let mut timer = None;
    poll_fn(|context| {
        if let Poll::Ready(result) = work.as_mut().poll(context) {
            return Poll::Ready(result);
        }
        // Most work is over at once, and needs none.
        let timer = timer.get_or_insert_with(|| stl.host().sleep_until(caller.deadline));
        timer
            .as_mut()
            .poll(context)
            .map(|()| Err(CallError::new(Status::Timeout, "it was not done before the deadline")))
    })
    .await
}
