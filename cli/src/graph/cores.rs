//! The worker cores of a cluster, and which of them has a graph open. One that nobody has open is
//! opened by the first command that wants it.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::iter;
use std::task::Poll;
use std::time::Duration;

use nile_abi::Status;
use nile_interfaces::graph::{GENERATION, GraphClient, GraphState, KEPT};
use nile_interfaces::name::NameClient;
use nile_interfaces::name::records::NamePage;
use nile_stl::{CallError, all};

use super::graph_of;
use crate::cluster::args::{Place, Query};
use crate::cluster::session::Session;
use crate::data::service;
use crate::data::stores::unless_busy;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::known::Target;

/// How long a graph may take to be opened: all of it is read.
const OPENING: Duration = Duration::from_secs(120);

/// The worker cores of a cluster.
pub struct Cores {
    pub session: Session,
    all: Vec<Target>,
    /// Whether some have not answered when all were asked last.
    is_part: bool,
}

/// Why a core has not done what it was asked for.
pub enum Refused {
    /// It has no such graph, or does not answer: another may have it.
    Elsewhere(Failure),
    /// It may be asked again in a while.
    Later(Failure),
    /// It will not.
    No(Failure),
}

impl Refused {
    pub fn into_failure(self) -> Failure {
        match self {
            Refused::Elsewhere(why) | Refused::Later(why) | Refused::No(why) => why,
        }
    }
}

impl Cores {
    pub fn open(query: &Query) -> Result<Cores, Failure> {
        let mut session = Session::open(&query.which, query.timeout)?;
        let none = || Failure::failed("no node has a worker core that answers");
        let all = service::find::<GraphClient>(&mut session)?.ok_or_else(none)?;
        let away = session.away();
        let all = all.into_iter().filter(|it| !away.contains(&it.node)).collect();
        Ok(Cores { session, all, is_part: false })
    }

    /// Looks again which cores there are.
    pub fn look_again(&mut self, wait: Duration) -> Result<(), Failure> {
        self.session.peer.until(wait, |_| false)?;
        let away = self.session.away();
        self.all = service::instances::<GraphClient>(&self.session);
        self.all.retain(|it| !away.contains(&it.node));
        Ok(())
    }

    /// The graphs of all cores. One that does not answer is left out.
    pub fn states(&mut self) -> Result<Vec<(Target, GraphState)>, Failure> {
        let mut states = Vec::new();
        self.is_part = !self.session.away().is_empty();
        let list = async |it: GraphClient, ()| {
            let mut all: Vec<GraphState> = Vec::new();
            loop {
                let after = all.last().map_or(String::new(), |it| it.name.clone());
                let more = it.list(&after).await?;
                if more.is_empty() {
                    return Ok(all);
                }
                all.extend(more);
            }
        };
        let all = self.all.clone();
        let told = self.try_all(all.iter().map(|core| (*core, ())), list)?;
        for (core, told) in all.into_iter().zip(told) {
            match told {
                Ok(all) => states.extend(all.into_iter().map(|state| (core, state))),
                Err(Refused::Elsewhere(_)) => {
                    self.is_part = true;
                    self.session.doubts.add(core.node);
                }
                Err(refused) => return Err(refused.into_failure()),
            }
        }
        Ok(states)
    }

    /// Whether no node is heard of that has the service.
    pub fn is_blind(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether a graph that was not found may be with those that do not answer now.
    pub fn is_part(&self) -> bool {
        self.is_part
    }

    /// The graphs that are kept, open or not. None if no node keeps names.
    pub fn kept(&mut self) -> Result<Vec<String>, Failure> {
        if self.session.record.disk.is_none() {
            return Ok(Vec::new());
        }
        let Some(names) = service::find::<NameClient>(&mut self.session)? else {
            self.is_part = true;
            return Ok(Vec::new());
        };
        let list = async |it: &NameClient| {
            let (mut all, mut after) = (Vec::new(), KEPT.to_string());
            loop {
                let NamePage::Names { names, more_behind } = it.list(&after).await? else {
                    let message = "most of the nodes that keep names do not answer";
                    return Err(CallError::new(Status::Timeout, message));
                };
                let own = names.iter().map_while(|it| it.name.strip_prefix(KEPT));
                all.extend(own.filter_map(|it| it.strip_suffix(GENERATION)).map(String::from));
                let is_over = names.iter().any(|it| !it.name.starts_with(KEPT));
                match more_behind.filter(|_| !is_over) {
                    Some(more) => after = more,
                    None => return Ok(all),
                }
            }
        };
        let mut why = None;
        for target in names {
            let patience = self.session.patience;
            let work =
                async |clients: crate::peer::clients::Clients| list(&clients.at(target)).await;
            match self.session.peer.work(patience, work)?.map_err(CallFailed::from) {
                Ok(all) => return Ok(all),
                Err(failed) => why = Some(refused(target, failed).into_failure()),
            }
        }
        why.map_or(Ok(Vec::new()), Err)
    }

    /// The core that is meant, or one with the fewest graphs.
    pub fn free(&mut self, on: Option<Place>) -> Result<Target, Failure> {
        if let Some(place) = on {
            let is_it = |it: &&Target| Some(it.core) == place.core && it.node == place.node;
            let none = || Failure::request(format!("{place} is no worker core that answers"));
            return self.all.iter().find(is_it).copied().ok_or_else(none);
        }
        let states = self.states()?;
        let doubts = self.session.doubts.clone();
        let graphs = |core: &&Target| {
            let count = states.iter().filter(|(it, _)| it == *core).count();
            let beside = states.iter().filter(|(it, _)| it.node == core.node).count();
            (doubts.has(core.node), count, beside)
        };
        let none = || Failure::failed("no node has a worker core that answers");
        self.all.iter().min_by_key(graphs).copied().ok_or_else(none)
    }

    /// The core with the graph, or with one of its parts. What of it none has open and is kept, one
    /// opens.
    pub fn named(&mut self, name: &str) -> Result<Target, Failure> {
        let parts = self.parts(name)?;
        let states = self.states()?;
        let is_open = |part: &&String| states.iter().any(|it| it.1.name == **part);
        let open = parts.iter().filter(is_open).count();
        let first = parts.iter().find(is_open).or(parts.first());
        let first = first.ok_or_else(|| none_named(name))?.clone();
        let core = self.opened(&first)?;
        let all = self.ask(core, async |it| it.state(&first).await)?.parts as usize;
        if parts.len() < all {
            let missing = all - parts.len();
            return Err(Failure::failed(format!(
                "{missing} of the {all} parts of {name} are gone, or do not answer"
            )));
        }
        if open < all && all > 1 {
            // Who has a part knows best who opens the others: all of them look in the same way.
            self.open_at(core, name)?;
        }
        Ok(core)
    }

    /// What there is of a graph: its own name, or those of its parts, open or kept.
    pub fn parts(&mut self, name: &str) -> Result<BTreeSet<String>, Failure> {
        let open = self.states()?.into_iter().map(|(_, it)| it.name);
        let mut parts: BTreeSet<String> = open.filter(|it| graph_of(it) == name).collect();
        if !parts.contains(name) {
            parts.extend(self.kept()?.into_iter().filter(|it| graph_of(it) == name));
        }
        match parts.is_empty() {
            true => Err(none_named(name)),
            false => Ok(parts),
        }
    }

    /// The core that has a graph or a part of one. If none does, one opens it.
    pub fn opened(&mut self, name: &str) -> Result<Target, Failure> {
        let states = self.states()?;
        let named = states.iter().filter(|(_, it)| it.name == name);
        if let Some((core, _)) = named.max_by_key(|(_, it)| it.life) {
            return Ok(*core);
        }
        let core = self.free(None)?;
        self.open_at(core, name).map(|()| core)
    }

    fn open_at(&mut self, core: Target, name: &str) -> Result<(), Failure> {
        let patience = std::mem::replace(&mut self.session.patience, OPENING);
        // If others open it at this moment, they have it then: that is not to be said again.
        let opened = self.try_ask(core, async |it| it.open(name.into()).await);
        self.session.patience = patience;
        opened?.map(drop).map_err(Refused::into_failure)
    }

    /// Asks a core, and again while the way to it is full: of what others feed, as a rule.
    pub fn ask<T>(
        &mut self,
        core: Target,
        ask: impl AsyncFn(GraphClient) -> Result<T, CallError>,
    ) -> Result<T, Failure> {
        let session = &mut self.session;
        let patience = session.patience;
        let asked = session.peer.work(patience, async |clients| {
            let once = async || ask(clients.at(core)).await;
            unless_busy(&clients, patience, once).await.map_err(CallFailed::from)
        })?;
        asked.map_err(|failed| refused(core, failed).into_failure())
    }

    /// The same, for who may ask another.
    pub fn try_ask<T>(
        &mut self,
        core: Target,
        ask: impl AsyncFnOnce(GraphClient) -> Result<T, CallError>,
    ) -> Result<Result<T, Refused>, Failure> {
        let session = &mut self.session;
        let asked = session.peer.work(session.patience, async |clients| {
            ask(clients.at(core)).await.map_err(CallFailed::from)
        })?;
        Ok(asked.map_err(|failed| refused(core, failed)))
    }

    /// Asks several at the same time.
    pub fn try_all<I, T>(
        &mut self,
        asked: impl Iterator<Item = (Target, I)>,
        ask: impl AsyncFn(GraphClient, I) -> Result<T, CallError>,
    ) -> Result<Vec<Result<T, Refused>>, Failure> {
        let (patience, ask) = (self.session.patience, &ask);
        self.session.peer.work(patience, async |clients| {
            let clients = &clients;
            let one = |(core, it): (Target, I)| async move {
                let done = ask(clients.at(core), it).await;
                done.map_err(|failed| refused(core, CallFailed::from(failed)))
            };
            all(asked.map(one)).await
        })
    }

    /// Asks a core for one thing after the other, as `next` gives them, `most` at the same time,
    /// and tells `told` what comes of each. Over when nothing more is given and all have ended.
    pub fn try_stream<I: Clone, T>(
        &mut self,
        core: Target,
        most: usize,
        mut next: impl FnMut() -> Option<I>,
        ask: impl AsyncFn(GraphClient, I) -> Result<T, CallError>,
        mut told: impl FnMut(I, Result<T, Refused>),
    ) -> Result<(), Failure> {
        let (patience, ask) = (self.session.patience, &ask);
        self.session.peer.work(patience, async |clients| {
            let clients = &clients;
            let one = |it: I| async move {
                let done = ask(clients.at(core), it.clone()).await;
                (it, done.map_err(|failed| refused(core, CallFailed::from(failed))))
            };
            let mut open = Vec::new();
            let stream = poll_fn(|context| {
                loop {
                    let more = iter::from_fn(&mut next).take(most - open.len());
                    open.extend(more.map(|it| Box::pin(one(it))));
                    let before = open.len();
                    open.retain_mut(|it| match it.as_mut().poll(context) {
                        Poll::Pending => true,
                        Poll::Ready((it, done)) => {
                            told(it, done);
                            false
                        }
                    });
                    match open.len() {
                        0 if before == 0 => return Poll::Ready(()),
                        still if still == before => return Poll::Pending,
                        _ => {}
                    }
                }
            });
            stream.await;
        })
    }
}

fn none_named(name: &str) -> Failure {
    let advice = "`nile graph list` shows those that there are";
    Failure::request(format!("no core that answers has a graph {name}: {advice}"))
}

fn refused(core: Target, failed: CallFailed) -> Refused {
    let place = core.place();
    let (request, failure) = (
        Failure::request(format!("{place}: {}", failed.message)),
        Failure::failed(format!("{place}: {failed}")),
    );
    match failed.status {
        Status::NotFound => Refused::Elsewhere(request),
        Status::Exists | Status::Invalid | Status::NoMemory => Refused::No(request),
        Status::Busy => Refused::Later(failure),
        Status::Dead | Status::Timeout | Status::Panicked | Status::Gone => {
            Refused::Elsewhere(failure)
        }
        _ => Refused::No(failure),
    }
}
