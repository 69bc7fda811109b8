//! Several pieces of work at once.

use alloc::vec::Vec;
use core::future::poll_fn;
use core::task::Poll;

use nile_stl::LocalFuture;

/// Does all of it, and waits until all has ended; what it has come to.
pub async fn together<T>(work: Vec<LocalFuture<'_, T>>) -> Vec<T> {
    let mut open: Vec<_> = work.into_iter().map(|it| (Some(it), None)).collect();
    poll_fn(|context| {
        for (work, end) in &mut open {
            if let Some(Poll::Ready(result)) = work.as_mut().map(|it| it.as_mut().poll(context)) {
                (*work, *end) = (None, Some(result));
            }
        }
        match open.iter().all(|(work, _)| work.is_none()) {
            true => Poll::Ready(open.iter_mut().filter_map(|(_, end)| end.take()).collect()),
            false => Poll::Pending,
        }
    })
    .await
}
