//! The dataset services of a cluster's nodes, and calls to them in the binary form: data do not
//! travel as text.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use nile_abi::{NodeId, Status};
use nile_bosml::{Decode, Encode, Writer};
use nile_interfaces::dataset::records::{Draft, Listed};

use super::service::{Service, decode};
use crate::cluster::args::Query;
use crate::cluster::session::Session;
use crate::failure::Failure;
use crate::peer::call::{CallFailed, Request};
use crate::peer::known::Target;

/// The service.
const SERVICE: &str = "dataset";

/// Pieces of a dataset that are on their way at a time: so many that neither end waits for the
/// other, and so few that other calls find their way to the store between them.
pub const PIECES: usize = 4;

/// How long a store that is busy is left alone.
pub(super) const PAUSE: Duration = Duration::from_millis(20);

/// The stores of a cluster, the one on the lowest node first.
pub struct Stores {
    pub session: Session,
    service: Service,
    /// Who is asked what names mean.
    pub(super) names: Service,
    /// Nodes whose stores could not be asked.
    absent: BTreeSet<NodeId>,
}

/// Arguments of a call.
pub struct Arguments(Writer);

impl Arguments {
    pub fn new() -> Arguments {
        Arguments(Writer::new())
    }

    /// One more.
    pub fn with(mut self, value: &impl Encode) -> Arguments {
        value.encode(&mut self.0);
        self
    }

    /// Encoded; or what is wrong with them.
    pub fn into_bytes(self) -> Result<Vec<u8>, String> {
        self.0.into_bytes().map_err(|error| error.to_string())
    }

    /// A dataset's name and version.
    pub fn version(listed: &Listed) -> Arguments {
        let Listed { name, epoch, attempt, .. } = listed;
        Arguments::new().with(&name.as_str()).with(epoch).with(attempt)
    }
}

impl Stores {
    /// Takes a place in the cluster, and finds its stores. A wrong request if it has none.
    pub fn open(query: &Query) -> Result<Stores, Failure> {
        let mut session = Session::open(&query.which, query.timeout)?;
        let none = || Failure::request("no node of the cluster keeps datasets");
        let absent = session.away();
        let mut service = Service::find(&mut session, SERVICE)?.ok_or_else(none)?;
        let mut names = Service::find(&mut session, super::names::SERVICE)?.ok_or_else(none)?;
        // One that has just been killed is not waited for.
        for service in [&mut service, &mut names] {
            service.all.retain(|target| !absent.contains(&target.node));
        }
        Ok(Stores { session, service, names, absent })
    }

    /// The service of the stores.
    pub(super) fn service(&self) -> &Service {
        &self.service
    }

    /// Every store.
    pub fn all(&self) -> Vec<Target> {
        self.service.all.clone()
    }

    /// Whether the cluster was started without disks, and has none: then nobody keeps names.
    pub fn have_no_disks(&mut self) -> Result<bool, Failure> {
        if self.session.record.disk.is_some() {
            return Ok(false);
        }
        let all = self.all();
        let formatted: Vec<Result<bool, CallFailed>> =
            self.ask_all(&all, "is_formatted", |_| Arguments::new())?;
        let errors = formatted.iter().filter_map(|it| it.as_ref().err());
        Ok(errors.filter(|error| error.status == Status::NotFound).count() == formatted.len())
    }

    /// Forgets a store that does not answer.
    pub fn leave_out(&mut self, target: Target) {
        self.service.all.retain(|it| *it != target);
        self.absent.insert(target.node);
    }

    /// The nodes that should have stores and could not be asked.
    pub fn absent(&self) -> &BTreeSet<NodeId> {
        &self.absent
    }

    /// Calls a method of stores, all calls at once; the encoded replies in the same order. One that
    /// is busy is asked again, for as long as calls may take.
    fn call<A>(
        &mut self,
        asked: &[(Target, A)],
        method: &str,
        arguments: impl Fn(&Target, &A) -> Arguments,
    ) -> Result<Vec<Result<Vec<u8>, CallFailed>>, Failure> {
        let deadline = Instant::now() + self.session.patience;
        let mut replies: Vec<Option<Result<Vec<u8>, CallFailed>>> = vec![None; asked.len()];
        loop {
            let open: Vec<usize> = (0..asked.len()).filter(|at| replies[*at].is_none()).collect();
            let request = |at: &usize| {
                let (target, what) = &asked[*at];
                self.service.request(*target, method, arguments(target, what))
            };
            let requests: Vec<Request> = open.iter().map(request).collect::<Result<_, _>>()?;
            let ends = self.session.peer.requests(&requests, self.session.patience)?;
            for (at, end) in open.into_iter().zip(ends) {
                let is_busy = matches!(&end, Err(failed) if failed.status == Status::Busy);
                if !is_busy || Instant::now() >= deadline {
                    replies[at] = Some(end);
                }
            }
            if replies.iter().all(Option::is_some) {
                return Ok(replies.into_iter().flatten().collect());
            }
            thread::sleep(PAUSE);
        }
    }

    /// What stores reply to calls that are made at once, in the same order.
    pub fn ask_each<T: for<'a> Decode<'a>, A>(
        &mut self,
        asked: &[(Target, A)],
        method: &str,
        arguments: impl Fn(&Target, &A) -> Arguments,
    ) -> Result<Vec<Result<T, CallFailed>>, Failure> {
        let replies = self.call(asked, method, arguments)?;
        Ok(replies.into_iter().map(|end| end.and_then(|bytes| decode(&bytes))).collect())
    }

    /// What several stores reply, in the same order.
    pub fn ask_all<T: for<'a> Decode<'a>>(
        &mut self,
        targets: &[Target],
        method: &str,
        arguments: impl Fn(&Target) -> Arguments,
    ) -> Result<Vec<Result<T, CallFailed>>, Failure> {
        let asked: Vec<(Target, ())> = targets.iter().map(|target| (*target, ())).collect();
        self.ask_each(&asked, method, |target, ()| arguments(target))
    }

    /// What a store replies.
    pub fn ask<T: for<'a> Decode<'a>>(
        &mut self,
        target: Target,
        method: &str,
        arguments: impl Fn() -> Arguments,
    ) -> Result<Result<T, CallFailed>, Failure> {
        let mut replies = self.ask_all(&[target], method, |_| arguments())?;
        Ok(replies.pop().expect("one call has one end"))
    }

    /// Has a store do something that has no reply.
    pub fn tell(
        &mut self,
        target: Target,
        method: &str,
        arguments: impl Fn() -> Arguments,
    ) -> Result<Result<(), CallFailed>, Failure> {
        let mut ends = self.call(&[(target, ())], method, |_, ()| arguments())?;
        Ok(ends.pop().expect("one call has one end").map(drop))
    }

    /// Does something to its end, whether Ctrl-C is pressed or not. What waits after it ends at
    /// once if it was.
    pub fn insisting<T>(&mut self, what: impl FnOnce(&mut Stores) -> T) -> T {
        let before = self.session.peer.heed(false);
        let done = what(self);
        self.session.peer.heed(before);
        done
    }

    /// Ends drafts, whether Ctrl-C was pressed or not. What does not hear of it ends them by
    /// itself after a while.
    pub fn abort(&mut self, drafts: &[(Target, Draft)]) {
        self.insisting(|stores| {
            for (target, draft) in drafts {
                let id = || Arguments::new().with(&draft.draft);
                let _ = stores.tell(*target, "abort", id);
            }
        });
    }
}

/// Why a store did not do what it was asked for.
pub fn failed(target: &Target, failed: &CallFailed) -> Failure {
    let place = target.place();
    match failed.message.is_empty() {
        true => Failure::failed(format!("{place}: {}", failed.status)),
        false => Failure::failed(format!("{place}: {}", failed.message)),
    }
}

/// Nodes, as people write them.
pub fn nodes(nodes: impl IntoIterator<Item = NodeId>) -> Vec<String> {
    nodes.into_iter().map(|node| node.to_string()).collect()
}
