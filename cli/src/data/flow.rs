//! A row of calls of stores, some of them under way at a time: the next begins when one has ended.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use nile_interfaces::dataset::DatasetClient;
use nile_stl::CallResult;

use super::stores::{Stores, unless_busy};
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::known::Target;

/// Calls that are under way at a time: so many that a store is never without work.
const UNDER_WAY: usize = 4;

/// How long a call waits that is made again.
const REST: Duration = Duration::from_millis(100);

/// Who is asked, and how.
pub struct Asked {
    pub target: Target,
    pub patience: Duration,
    pub rests: bool,
}

impl Asked {
    /// A store that is asked at once, and waited for so long.
    pub fn for_long(target: Target, patience: Duration) -> Asked {
        Asked { target, patience, rests: false }
    }
}

impl Stores {
    /// Has stores do pieces of work, each by a call: `ask` makes it, to the store that `store`
    /// says, which is waited for as long as that says; first it rests, if that says so. `done`
    /// takes the end of each, and gives what is to be done in its place, if anything. Ends with the
    /// first failure; what is under way then is given up.
    pub fn flow<W, T>(
        &mut self,
        pieces: impl IntoIterator<Item = W>,
        store: impl Fn(&mut W) -> Asked,
        ask: impl AsyncFn(&DatasetClient, &W) -> CallResult<T>,
        done: impl FnMut(W, Result<T, CallFailed>) -> Result<Option<W>, Failure>,
    ) -> Result<(), Failure> {
        let (patience, doubts) = (self.session.patience, self.session.doubts.clone());
        let (pieces, done) = (RefCell::new(pieces.into_iter()), RefCell::new(done));
        self.session.peer.work(patience, async |clients| {
            let one_after_another = async || {
                loop {
                    let Some(mut piece) = pieces.borrow_mut().next() else { return Ok(()) };
                    loop {
                        let Asked { target, patience, rests } = store(&mut piece);
                        if rests {
                            clients.rest(REST).await;
                        }
                        let client = clients.within(target, patience);
                        let ask = async || ask(&client, &piece).await;
                        let end = unless_busy(&clients, patience, ask).await;
                        let end = end.map_err(CallFailed::from);
                        if end.is_err() {
                            doubts.add(target.node);
                        }
                        match (done.borrow_mut())(piece, end)? {
                            Some(other) => piece = other,
                            None => break,
                        }
                    }
                }
            };
            all_or_failure((0..UNDER_WAY).map(|_| one_after_another())).await
        })?
    }
}

/// Waits until all have ended, or one has failed.
async fn all_or_failure<F: Future<Output = Result<(), Failure>>>(
    work: impl IntoIterator<Item = F>,
) -> Result<(), Failure> {
    let mut open: Vec<Pin<Box<F>>> = work.into_iter().map(Box::pin).collect();
    poll_fn(|context| {
        let mut failure = None;
        open.retain_mut(|work| match work.as_mut().poll(context) {
            Poll::Pending => true,
            Poll::Ready(end) => {
                failure = end.err().or(failure.take());
                false
            }
        });
        match failure {
            Some(failure) => Poll::Ready(Err(failure)),
            None if open.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await
}
