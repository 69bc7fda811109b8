//! A graph that is kept: events are acknowledged, the core that has the graph ends, also in the
//! midst of a record, and another one, or the same in its next life, opens it: all that was
//! acknowledged is in, and what is said again counts once. Then the same of a graph that is divided
//! among the workers, of which a core with a part ends once, unless `parts=1` says otherwise. With
//! `look=1` the node's disk was written by an earlier life, whose power may have failed at any
//! write: the graph is opened, or there is none, and when all is said again it is that of all
//! events.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{NodeId, Status};
use nile_interfaces::graph::{Acknowledgement, Division, EdgeEvent, GraphClient, RejectedEvent};
use nile_kernel::Core;
use nile_platform::Machine;
use nile_services::cluster;
use nile_stl::{CallError, CallResult, LocalFuture, Place, Stl, all};

use crate::arguments::Arguments;
use crate::calls::serve;
use crate::conduct::{Findings, conduct, conducts};

const NAME: &str = "kept";
const SOURCE: u64 = 3;
const ERROR: u64 = (1 << 32) / 1000;

/// Events of a call, and calls of each life of a core.
const PART: usize = 20;
const CALLS: usize = 8;

/// How long it may take until some core has the graph open, and how often it is looked.
const PATIENCE: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_millis(5);

/// Starts this core's part: the core that has the graph ends `ends` times.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    serve(core);
    let (ends, look) = (arguments.number("ends", 3), arguments.number("look", 0));
    let parts = arguments.number("parts", 2) as u32;
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "graph-kept", move |findings| async move {
            let mut user = User { stl: core.stl(), findings, parts: 1 };
            let mut checked = match look {
                0 => user.check(ends).await,
                _ => user.look(ends).await,
            };
            if look == 0 && parts > 1 && checked.is_ok() {
                user.parts = parts;
                checked = user.check(ends.min(1)).await;
            }
            if let Err(error) = checked {
                user.findings.check(false, format_args!("{error}"));
            }
        });
    }
}

/// Events, each with an edge of its own; every eighth takes away the edge four before.
fn events(ends: u64) -> Vec<EdgeEvent> {
    let count = (ends + 1) * (PART * CALLS) as u64;
    let edge = |at: u64| (at % 37, at / 2);
    let event = |sequence: u64| {
        let removes = sequence % 8 == 7;
        let (from, to) = edge(if removes { sequence - 4 } else { sequence });
        EdgeEvent { sequence, time: sequence, from, to, removes }
    };
    (0..count).map(event).collect()
}

/// How many edges there are after these.
fn edges(events: &[EdgeEvent]) -> u64 {
    let mut edges = BTreeSet::new();
    for EdgeEvent { from, to, removes, .. } in events {
        match removes {
            true => edges.remove(&(*from, *to)),
            false => edges.insert((*from, *to)),
        };
    }
    edges.len() as u64
}

struct User {
    stl: Stl,
    findings: Findings,
    parts: u32,
}

impl User {
    async fn check(&self, ends: u64) -> CallResult<()> {
        let events = events(ends);
        let mut open = self.open(true).await?;
        let bad = RejectedEvent {
            source: SOURCE + 1,
            sequence: 0,
            text: "1 x".into(),
            why: "\"x\" is no number".into(),
        };
        open.1.reject(NAME, Vec::from([bad])).await?;
        let mut next = 0;
        for (life, part) in (0..).zip(events.chunks(PART * CALLS)) {
            for call in part.chunks(PART) {
                let offer =
                    open.1.offer(NAME, SOURCE, 0, Acknowledgement::Kept, call.into()).await?;
                // What came before its core ended is known, though nobody was told; of a divided
                // graph some of it.
                let right = if call[0].sequence < next { (0, PART) } else { (PART, 0) };
                let is_right = (offer.new, offer.known) == (right.0 as u64, right.1 as u64);
                let is_first = life > 0 && call[0].sequence == part[0].sequence;
                let is_some = self.parts > 1 && is_first && offer.new + offer.known == PART as u64;
                let is_right = is_right || is_some;
                self.findings.check(is_right, format_args!("{offer:?} and not {right:?}"));
            }
            if life == ends {
                break;
            }
            let more = &events[(life as usize + 1) * PART * CALLS..][..PART];
            self.end_core(open.0, more, life).await?;
            open = self.open(false).await?;
            next = self.next(&open.1).await?;
            let kept = (life + 1) * (PART * CALLS) as u64;
            let is_kept = [kept, kept + PART as u64].contains(&next);
            self.findings.check(is_kept, format_args!("{next} of {kept} events were kept"));
        }
        self.end(&open.1, &events).await?;
        let rejects = open.1.rejects(NAME, 0).await?;
        self.findings.check(rejects.len() == 1, format_args!("{rejects:?} is rejected"));
        open.1.remove(NAME).await?;
        let first = if self.parts > 1 { format!("{NAME}/0") } else { NAME.into() };
        let gone = open.1.open(first).await.err().map(|it| it.status);
        self.findings.check(gone == Some(Status::NotFound), format_args!("{gone:?}: removed"));
        Ok(())
    }

    /// Ends the core while more is on its way to it, and waits until nothing is: it may come to the
    /// core's next incarnation, too.
    async fn end_core(&self, place: Place, more: &[EdgeEvent], life: u64) -> CallResult<()> {
        let client = GraphClient::at(&self.stl, place);
        let offer: LocalFuture<'_, CallResult<()>> = Box::pin(async move {
            // Nobody knows whether it is kept.
            let _ = client.offer(NAME, SOURCE, 0, Acknowledgement::Kept, more.into()).await;
            Ok(())
        });
        let end: LocalFuture<'_, CallResult<()>> = Box::pin(async move {
            self.stl.host().pause(Duration::from_micros(300 * life)).await;
            self.stl.node()?.end_core(place.core).await?;
            Ok(())
        });
        all([offer, end]).await.into_iter().collect()
    }

    async fn look(&self, ends: u64) -> CallResult<()> {
        let events = events(ends);
        let (_, graph) = self.open(true).await?;
        self.say(&graph, &events).await?;
        self.end(&graph, &events).await
    }

    /// A worker core that has the graph open, whoever opens or makes it.
    async fn open(&self, makes: bool) -> CallResult<(Place, GraphClient)> {
        let host = self.stl.host();
        let until = host.now() + PATIENCE;
        loop {
            match self.try_open(makes).await {
                Err(error) if host.now() > until => return Err(error),
                Err(_) => host.pause(RETRY).await,
                opened => return opened,
            }
        }
    }

    async fn try_open(&self, makes: bool) -> CallResult<(Place, GraphClient)> {
        let places = cluster::places(&self.stl, "graph").await?;
        let none = || CallError::new(Status::NotFound, "no worker has the service");
        let (_, place) = *places.last().ok_or_else(none)?;
        let graph = GraphClient::at(&self.stl, place);
        if self.parts > 1 {
            return self.try_open_parts(&places, makes).await;
        }
        match graph.open(NAME.into()).await {
            Err(error) if error.status == Status::NotFound && makes => {
                graph.create(NAME.into(), ERROR, 1000, 1 << 16, 1).await?;
            }
            opened => drop(opened?),
        }
        Ok((place, graph))
    }

    /// A core that has a part, and all parts are open. Without one a core opens the first.
    async fn try_open_parts(
        &self,
        places: &[(NodeId, Place)],
        makes: bool,
    ) -> CallResult<(Place, GraphClient)> {
        let parts = self.parts;
        let mut failed = CallError::new(Status::NotFound, "no core has a part");
        for (_, place) in places.iter().rev() {
            let graph = GraphClient::at(&self.stl, *place);
            if graph.list("").await.is_ok_and(|it| it.is_empty()) {
                continue;
            }
            match graph.open(NAME.into()).await {
                Ok(_) => return Ok((*place, graph)),
                Err(error) => failed = error,
            }
        }
        if !makes {
            let (_, place) = places[0];
            GraphClient::at(&self.stl, place).open(format!("{NAME}/0")).await?;
            return Err(failed);
        }
        for (part, (_, place)) in (0..parts).zip(places.iter().cycle()) {
            let (name, division) = (format!("{NAME}/{part}"), Division { parts, number: 7 });
            let graph = GraphClient::at(&self.stl, *place);
            graph.create_part(name, ERROR, 1000, 1 << 16, 1, division).await?;
        }
        Err(failed)
    }

    async fn next(&self, graph: &GraphClient) -> CallResult<u64> {
        let sources = graph.sources(NAME, None).await?;
        Ok(sources.iter().find(|it| it.source == SOURCE).map_or(0, |it| it.next))
    }

    async fn say(&self, graph: &GraphClient, events: &[EdgeEvent]) -> CallResult<()> {
        for call in events.chunks(PART) {
            graph.offer(NAME, SOURCE, 0, Acknowledgement::Kept, call.into()).await?;
        }
        Ok(())
    }

    /// That the graph is that of all events.
    async fn end(&self, graph: &GraphClient, events: &[EdgeEvent]) -> CallResult<()> {
        let ranked = Acknowledgement::Ranked;
        let known = graph.offer(NAME, SOURCE, 0, ranked, events[..PART].into()).await?;
        self.findings.check(known.known == PART as u64, format_args!("{known:?} of what is known"));
        let state = graph.settled(NAME).await?;
        let counts = (state.events, state.edges, state.copies);
        let right = (events.len() as u64, edges(events), 1);
        self.findings.check(counts == right, format_args!("{counts:?} and not {right:?}"));
        Ok(())
    }
}
