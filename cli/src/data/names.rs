//! What the names of datasets mean: most of the nodes that keep them decide (docs/names.md). Any
//! node is asked; one that is gone is followed by the next, which may be asked for the same change
//! once more, as each has a number of its own.

use std::cell::Cell;

use nile_abi::{NodeId, Status};
use nile_interfaces::name::records::{
    Meaning, NameAnswer, NameEntry, NameExpectation, NamePage, NamedEntry,
};
use nile_interfaces::name::{KEEPS, NameClient};
use nile_stl::CallResult;
use rustix::rand::{GetRandomFlags, getrandom};

use super::stores::{Stores, failed, is_silent, nodes};
use crate::cluster::turns::Turns;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::clients::Clients;

/// How a change of a name ended.
pub enum Changed {
    /// The name means that now.
    Done,
    /// It was something else than expected: this.
    Refused(NameEntry),
    /// Nobody knows whether it has happened: most of its keepers went away in the midst.
    Unknown,
}

impl Stores {
    /// What a name means.
    pub fn look(&mut self, name: &str) -> Result<NameEntry, Failure> {
        let asked = self.ask_names(async |names| names.look(name).await, is_decided);
        let answer: NameAnswer = asked.map_err(Lost::into_failure)?;
        match answer {
            NameAnswer::Done(entry) | NameAnswer::Refused(entry) => Ok(entry),
            NameAnswer::NoMajority(missing) | NameAnswer::Unknown(missing) => {
                Err(self.no_majority(&missing))
            }
        }
    }

    /// Changes what a name means, if it is what is expected; nothing has changed if it fails. A
    /// node that does not know whether it has happened is followed by the next one: that most of
    /// the keepers do not answer it does not mean that they answer nobody.
    pub fn change(
        &mut self,
        name: &str,
        expected: NameExpectation,
        to: &Meaning,
    ) -> Result<Changed, Failure> {
        let (change, is_unknown) = (number()?, Cell::new(false));
        let is_certain = |answer: &NameAnswer| {
            is_unknown.set(is_unknown.get() || matches!(answer, NameAnswer::Unknown(_)));
            is_decided(answer)
        };
        let asked = self.insisting(|stores| {
            let ask =
                async |names: &NameClient| names.change(name, change, expected, to.clone()).await;
            stores.ask_names(ask, is_certain)
        });
        match asked {
            Ok(NameAnswer::Done(_)) => Ok(Changed::Done),
            // Somebody may have changed it behind this change.
            _ if is_unknown.get() => Ok(Changed::Unknown),
            Ok(NameAnswer::Refused(entry)) => Ok(Changed::Refused(entry)),
            Ok(NameAnswer::NoMajority(missing) | NameAnswer::Unknown(missing)) => {
                Err(self.no_majority(&missing))
            }
            // Some node may have begun it.
            Err(Lost::Failed(_)) => Ok(Changed::Unknown),
            Err(lost) => Err(lost.into_failure()),
        }
    }

    /// What a node that is to keep names waits for before it does; none if it does.
    pub fn waits_for_names(&mut self, node: NodeId) -> Result<Option<String>, Failure> {
        let target = self.names.iter().copied().find(|target| target.node == node);
        let Some(target) = target else { return Ok(Some("it does not answer".into())) };
        let work = async |clients: Clients| {
            let names: NameClient = clients.at(target);
            names.standing().await
        };
        let standing = self.session.peer.work(self.session.patience, work)?;
        Ok(match standing.map_err(CallFailed::from) {
            Ok(standing) => Some(standing).filter(|it| it != KEEPS),
            Err(error) => Some(failed(&target, &error).to_string()),
        })
    }

    /// Every name that means something, in their order.
    pub fn names(&mut self) -> Result<Vec<NamedEntry>, Failure> {
        let mut all: Vec<NamedEntry> = Vec::new();
        let mut after = String::new();
        loop {
            let is_whole = |page: &NamePage| matches!(page, NamePage::Names { .. });
            let asked = self.ask_names(async |names| names.list(&after).await, is_whole);
            let page: NamePage = asked.map_err(Lost::into_failure)?;
            let (names, more_behind) = match page {
                NamePage::Names { names, more_behind } => (names, more_behind),
                NamePage::NoMajority(missing) => return Err(self.no_majority(&missing)),
            };
            all.extend(names);
            let Some(last) = more_behind else { return Ok(all) };
            after = last;
        }
    }

    /// What one node after the other is asked for, until one answers that has reached most of the
    /// keepers: one may be cut off from them. If none has, what the last one says.
    fn ask_names<T>(
        &mut self,
        ask: impl AsyncFn(&NameClient) -> CallResult<T>,
        has_reached: impl Fn(&T) -> bool,
    ) -> Result<T, Lost> {
        let mut lacking = None;
        let mut why = Lost::Failed(Failure::failed("no node keeps the names of datasets any more"));
        // Those first of which it is known that they run.
        let running = self.session.running();
        let (targets, doubts) = (self.names.clone(), self.session.doubts.clone());
        let is_doubted = |at: usize| {
            let node = targets[at].node;
            (doubts.has(node), !running.contains(&node))
        };
        let mut turns = Turns::of(targets.len());
        while let Some((at, patience)) = turns.next(self.session.patience, is_doubted) {
            let (target, ask) = (targets[at], &ask);
            let work = async |clients: Clients| ask(&clients.at(target)).await;
            let end = self.session.peer.work(patience, work).map_err(Lost::Certain)?;
            match end.map_err(CallFailed::from) {
                Ok(value) if has_reached(&value) => return Ok(value),
                Ok(value) => {
                    turns.failed(at, Status::Dead);
                    doubts.add(target.node);
                    lacking = Some(value);
                }
                Err(error) if is_elsewhere(&error) => {
                    turns.failed(at, error.status);
                    if is_silent(&error) {
                        doubts.add(target.node);
                    }
                    why = Lost::Failed(failed(&target, &error));
                }
                Err(error) if error.status == Status::Invalid => {
                    return Err(Lost::Certain(Failure::request(error.message)));
                }
                Err(error) => return Err(Lost::Certain(failed(&target, &error))),
            }
        }
        lacking.ok_or(why)
    }

    /// Why names cannot be asked for. Nothing is broken where no node was given a disk.
    fn no_majority(&mut self, missing: &[NodeId]) -> Failure {
        match self.have_no_disks() {
            Ok(true) => Failure::request(
                "no node of the cluster has a disk, so it keeps no datasets; `up --disk 64M` gives \
                 each node one",
            ),
            _ => {
                let missing = nodes(missing.iter().copied()).join(", ");
                Failure::failed(format!(
                    "most of the nodes that keep the names of datasets have to answer, and these \
                     do not: {missing}; nothing was changed: start them, or mend the network, and \
                     try again"
                ))
            }
        }
    }
}

/// Whether most of the keepers have answered.
fn is_decided(answer: &NameAnswer) -> bool {
    matches!(answer, NameAnswer::Done(_) | NameAnswer::Refused(_))
}

/// Why nobody has answered.
enum Lost {
    /// Nothing has happened.
    Certain(Failure),
    /// Something may have happened.
    Failed(Failure),
}

impl Lost {
    fn into_failure(self) -> Failure {
        match self {
            Lost::Certain(failure) | Lost::Failed(failure) => failure,
        }
    }
}

/// Whether another node may know.
fn is_elsewhere(failed: &CallFailed) -> bool {
    use Status::{Busy, Dead, NotFound, Panicked, Timeout};
    matches!(failed.status, Dead | Timeout | NotFound | Panicked | Busy)
}

/// A number that nobody has drawn before.
pub fn number() -> Result<u64, Failure> {
    let mut random = [0; 8];
    getrandom(&mut random, GetRandomFlags::empty())
        .map_err(|error| Failure::failed(format!("no random numbers: {error}")))?;
    Ok(u64::from_le_bytes(random))
}
