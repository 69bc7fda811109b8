//! A row of calls of stores, some of them under way at a time: the next begins when one has ended.

use std::time::Duration;
use std::time::Instant;

use nile_abi::Status;
use nile_bosml::Decode;
use nile_ipioe::CallId;

use super::service::decode;
use super::stores::{Arguments, PAUSE, Stores};
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::known::Target;

/// Calls that are under way at a time: so many that a store is never without work.
const UNDER_WAY: usize = 4;

/// Beyond the deadline of a call, which ends it, for looking.
const SPARE: Duration = Duration::from_secs(1);

/// A piece of work that is under way.
struct Open<W> {
    call: CallId,
    piece: W,
    /// Until when a store that is busy is asked for it again.
    until: Instant,
}

impl Stores {
    /// Has stores do pieces of work, each by a call of this method: `ask` says of which, with what.
    /// `done` takes the end of each, and gives what is to be done in its place, if anything. Ends
    /// with the first failure; what is under way then is given up.
    pub fn flow<W, T: for<'a> Decode<'a>>(
        &mut self,
        method: &str,
        pieces: impl IntoIterator<Item = W>,
        ask: impl Fn(&W) -> (Target, Arguments),
        mut done: impl FnMut(W, Result<T, CallFailed>) -> Result<Option<W>, Failure>,
    ) -> Result<(), Failure> {
        let mut open: Vec<Open<W>> = Vec::new();
        let end = self.flow_into(&mut open, method, &mut pieces.into_iter(), &ask, &mut done);
        for Open { call, .. } in open {
            self.session.peer.give_up(call);
        }
        end
    }

    fn flow_into<W, T: for<'a> Decode<'a>>(
        &mut self,
        open: &mut Vec<Open<W>>,
        method: &str,
        pieces: &mut dyn Iterator<Item = W>,
        ask: &dyn Fn(&W) -> (Target, Arguments),
        done: &mut dyn FnMut(W, Result<T, CallFailed>) -> Result<Option<W>, Failure>,
    ) -> Result<(), Failure> {
        let patience = self.session.patience;
        let mut again: Option<(W, Instant)> = None;
        loop {
            while open.len() < UNDER_WAY {
                let next = again.take();
                let next = next.or_else(|| Some((pieces.next()?, Instant::now() + patience)));
                let Some((mut piece, until)) = next else { break };
                // What cannot be begun has ended.
                loop {
                    let (target, arguments) = ask(&piece);
                    let request = self.service().request(target, method, arguments)?;
                    match self.session.peer.begin(request, patience) {
                        Ok(call) => break open.push(Open { call, piece, until }),
                        Err(failed) => match done(piece, Err(failed))? {
                            Some(other) => piece = other,
                            None => break,
                        },
                    }
                }
            }
            if open.is_empty() {
                return Ok(());
            }
            let calls: Vec<CallId> = open.iter().map(|it| it.call).collect();
            let ended = self.session.peer.first_end(&calls, patience + SPARE)?;
            let (call, end) = ended.unwrap_or_else(|| {
                self.session.peer.give_up(calls[0]);
                (calls[0], Err(CallFailed::timed_out(calls[0].node)))
            });
            let Some(at) = open.iter().position(|it| it.call == call) else { continue };
            let Open { piece, until, .. } = open.swap_remove(at);
            let is_busy = matches!(&end, Err(failed) if failed.status == Status::Busy);
            if is_busy && Instant::now() < until {
                self.session.peer.until(PAUSE, |_| false)?;
                again = Some((piece, until));
                continue;
            }
            let end = end.and_then(|bytes| decode(&bytes));
            again = done(piece, end)?.map(|piece| (piece, Instant::now() + patience));
        }
    }
}
