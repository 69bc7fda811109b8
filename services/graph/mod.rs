//! The graphs of a worker core, as `nile-graph` has them. While one has something to do, a task of
//! its own sweeps over it, a piece in each turn, so that calls are answered meanwhile; others put
//! what comes into its log.
//!
//! * `opened`: a graph that this core has, and the tasks that keep it.
//! * `shelf`: where it is kept.
//! * `parts`: the other parts of a graph that is divided; `whole`: what is asked of all of them;
//!   `searches`: components and distances across them.

mod opened;
mod parts;
mod searches;
mod shelf;
mod whole;

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Ref, RefCell};
use core::time::Duration;

use nile_abi::{Instant, Status};
use nile_bosml::Bytes;
use nile_graph::{
    Broken, Call, Event, Graph, Kept, MOST_REJECTS, Part, Placed, Question, Received, Reject,
    Settings, SourceState,
};
use nile_interfaces::graph::{
    Acknowledgement, ComponentEntry, Division, EdgeEvent, GraphClient, GraphFound, GraphKernel,
    GraphQuestion, GraphState, MOST_EVENTS, OfferedEvents, RankEntry, RejectedEvent, SequenceRun,
    SourceEntry, VertexValue,
};
use nile_order::SortedMap;
use nile_registry::Caller as Binder;
use nile_stl::{CallError, CallResult, Start, Stl, service};
use nile_sync::Lock;

use crate::page::page;
use opened::{Home, Opened, broken_error, in_memory};
use shelf::Datasets;

/// Graphs of one core.
const MOST: usize = 64;

/// Parts of one graph.
const MOST_PARTS: u32 = 64;

/// The most edges for each vertex that there may be.
const EDGES: u64 = 64;

/// Sources of one call.
const SOURCES: usize = 512;

/// Rejected parts of one call, and bytes of the text that is kept of each.
const MOST_REJECTED: usize = 64;
const MOST_TEXT: usize = 256;

/// The graphs of a core, by name.
pub struct Graphs {
    stl: Stl,
    graphs: RefCell<SortedMap<String, Rc<Opened>>>,
    /// One graph is opened at a time.
    opening: Lock,
}

impl Start for Graphs {
    fn start(stl: &Stl) -> Graphs {
        let stl = stl.acting_as(Binder::Operator);
        Graphs { stl, graphs: RefCell::default(), opening: Lock::default() }
    }
}

#[service(on = worker, keywords(graph = 5, ranks = 3, streams = 2))]
impl GraphKernel for Graphs {
    async fn create(
        &self,
        name: String,
        error: u64,
        patience_ms: u32,
        vertices: u32,
        copies: u8,
    ) -> CallResult<()> {
        if name.contains('/') {
            return Err(no_name());
        }
        let settings = settings(error, patience_ms, vertices, Part::ALL);
        self.make(name, settings, copies, draw(&self.stl)).await
    }

    async fn create_part(
        &self,
        name: String,
        error: u64,
        patience_ms: u32,
        vertices: u32,
        copies: u8,
        division: Division,
    ) -> CallResult<()> {
        let Division { parts, number } = division;
        let part = name.split_once('/').and_then(|(_, part)| part.parse().ok());
        let is_one = |it: &u32| *it < parts && (2..=MOST_PARTS).contains(&parts);
        let part = part.filter(is_one).ok_or_else(no_name)?;
        let settings = settings(error, patience_ms, vertices, Part { number: part, of: parts });
        self.make(name, settings, copies, number).await
    }

    async fn open(&self, name: String) -> CallResult<GraphState> {
        if let Ok(opened) = self.graph(&name)
            && let Some(parts) = opened.parts_of(&name)
        {
            parts.find_all().await?;
            return Ok(opened.whole_state(parts).await);
        }
        let _turn = self.opening.take().await;
        let opened = self.graphs.borrow().get(&name).cloned();
        if let Some(opened) = opened.filter(|it| !it.is_gone()) {
            return Ok(opened.state());
        }
        self.check_room(&name)?;
        let shelf = Datasets::new(&self.stl, &name, 1);
        let kept = Kept::open(shelf, micros(self.now())).await;
        let kept = kept.map_err(|broken| broken_error(&name, broken))?;
        Ok(self.add(name, Home::Disks(Box::new(kept))).state())
    }

    async fn remove(&self, name: &str) -> CallResult<()> {
        let opened = self.graph(name)?;
        if let Some(parts) = opened.parts_of(name) {
            parts.ask_all(async |_, it, name| it.remove(name).await).await;
        }
        opened.remove().await?;
        let name = opened.name();
        self.graphs.borrow_mut().remove(name);
        Ok(())
    }

    fn list(&self, after: &str) -> Vec<GraphState> {
        let graphs = self.graphs.borrow();
        let behind = graphs.iter().filter(|(name, it)| name.as_str() > after && !it.is_gone());
        page(behind.map(|(_, opened)| opened.state()))
    }

    async fn offer(
        &self,
        name: &str,
        source: u64,
        until: u64,
        acknowledgement: Acknowledgement,
        events: Vec<EdgeEvent>,
    ) -> CallResult<OfferedEvents> {
        if events.len() > MOST_EVENTS {
            let message = format!("{} events in a call; {MOST_EVENTS} at most", events.len());
            return Err(CallError::new(Status::Invalid, message));
        }
        let opened = self.graph(name)?;
        let events = events.into_iter().map(event).collect();
        let call = Call { source, until, events, ..Call::default() };
        match opened.parts_of(name) {
            Some(parts) => self.give_all(&opened, parts, call, acknowledgement).await,
            None => self.give(&opened, call, acknowledgement).await,
        }
    }

    async fn offer_part(
        &self,
        name: &str,
        source: u64,
        until: u64,
        acknowledgement: Acknowledgement,
        events: Vec<EdgeEvent>,
        covers: Vec<SequenceRun>,
    ) -> CallResult<OfferedEvents> {
        let opened = self.graph(name)?;
        let events = events.into_iter().map(event).collect();
        let covers = covers.into_iter().map(|it| (it.first, it.count)).collect();
        let call = Call { source, until, events, covers, ..Call::default() };
        self.give(&opened, call, acknowledgement).await
    }

    fn letter(&self, name: &str, letter: Bytes<'_>) -> CallResult<u64> {
        let opened = self.graph(name)?;
        let received = opened.live().graph.receive(&letter.0);
        let is_none = |why| CallError::new(Status::Invalid, format!("{name}: {why}"));
        match received.map_err(is_none)? {
            Received::Taken { writer } => {
                opened.sweep();
                Ok(writer)
            }
            Received::Superseded => {
                opened.is_elsewhere();
                Err(no_graph(name))
            }
        }
    }

    async fn highest(
        &self,
        name: &str,
        publication: u64,
        most: u32,
    ) -> CallResult<Vec<VertexValue>> {
        self.graph(name)?.highest(publication, most).await
    }

    async fn reject(&self, name: &str, rejects: Vec<RejectedEvent>) -> CallResult<OfferedEvents> {
        if rejects.len() > MOST_REJECTED {
            let message = format!("{} in a call; {MOST_REJECTED} at most", rejects.len());
            return Err(CallError::new(Status::Invalid, message));
        }
        let opened = self.graph(name)?;
        if let Some(parts) = opened.parts_of(name) {
            // All parts have what is no event: nobody knows yet whose it will be.
            let reject =
                async |_, it: GraphClient, name: &str| it.reject(name, rejects.clone()).await;
            parts.ask_all(reject).await.into_iter().collect::<CallResult<Vec<_>>>()?;
        }
        let mut all =
            OfferedEvents { new: 0, known: 0, ahead: 0, next: 0, life: opened.graph().life() };
        for it in rejects {
            if opened.graph().rejected() >= MOST_REJECTS {
                let message = format!("{MOST_REJECTS} lines of {name} are no events; mend them");
                return Err(CallError::new(Status::NoMemory, message));
            }
            let RejectedEvent { source, sequence, text, why } = it;
            let reject = Reject { sequence, text: cut(text), why: cut(why) };
            let call = Call { source, rejects: Vec::from([reject]), ..Call::default() };
            let it = self.give(&opened, call, Acknowledgement::Taken).await?;
            let OfferedEvents { new, known, ahead, .. } = all;
            let (new, known, ahead) = (new + it.new, known + it.known, ahead + it.ahead);
            all = OfferedEvents { new, known, ahead, next: it.next, ..all };
        }
        let mark = opened.live().taken();
        opened.kept(mark).await?;
        Ok(all)
    }

    async fn rejects(&self, name: &str, skip: u32) -> CallResult<Vec<RejectedEvent>> {
        let opened = self.graph(name)?;
        let graph = opened.graph();
        let entry = |(source, it): (u64, &Reject)| {
            let Reject { sequence, text, why } = it.clone();
            RejectedEvent { source, sequence, text, why }
        };
        Ok(page(graph.rejects().skip(skip as usize).map(entry)))
    }

    async fn state(&self, name: &str) -> CallResult<GraphState> {
        let opened = self.graph(name)?;
        match opened.parts_of(name) {
            Some(parts) => Ok(opened.whole_state(parts).await),
            None => Ok(opened.state()),
        }
    }

    async fn settled(&self, name: &str) -> CallResult<GraphState> {
        let opened = self.graph(name)?;
        opened.look().await?;
        if let Some(parts) = opened.parts_of(name) {
            whole::all_settled(parts).await?;
        }
        opened.ranked(true).await;
        self.state(name).await
    }

    async fn top(&self, name: &str, most: u32) -> CallResult<Vec<RankEntry>> {
        let opened = self.graph(name)?;
        let top = match opened.parts_of(name) {
            Some(parts) => opened.whole_top(parts, most).await?,
            None => opened.graph().top(most as usize),
        };
        let entry =
            |it: Placed| RankEntry { vertex: it.vertex, rank: it.rank, certain: it.is_certain };
        Ok(top.into_iter().map(entry).collect())
    }

    async fn rank(&self, name: &str, vertex: u64) -> CallResult<u64> {
        let opened = self.graph(name)?;
        if let Some(parts) = opened.parts_of(name) {
            let owner = parts.part().owner(vertex);
            if owner != parts.part().number {
                return parts.ask(owner, async |it, name| it.rank(name, vertex).await).await;
            }
        }
        let rank = opened.graph().rank(vertex);
        rank.ok_or_else(|| no_vertex(vertex, "has no rank yet"))
    }

    async fn component(&self, name: &str, vertex: u64) -> CallResult<ComponentEntry> {
        let opened = self.graph(name)?;
        let found = match opened.parts_of(name) {
            Some(parts) => {
                let found = opened.search(parts, Question::Component { of: vertex }).await?;
                found.lowest.map(|it| (it, found.vertices)).filter(|_| found.is_known)
            }
            None => undivided(&opened)?.component(vertex),
        };
        let (lowest, vertices) = found.ok_or_else(|| no_vertex(vertex, "is in no edge"))?;
        Ok(ComponentEntry { lowest, vertices })
    }

    async fn distance(&self, name: &str, from: u64, to: u64) -> CallResult<Option<u32>> {
        let opened = self.graph(name)?;
        let Some(parts) = opened.parts_of(name) else {
            return Ok(undivided(&opened)?.distance(from, to));
        };
        let found = opened.search(parts, Question::Distance { from, to }).await?;
        Ok(found.distance.filter(|_| found.is_known))
    }

    async fn search(
        &self,
        name: &str,
        number: u64,
        question: GraphQuestion,
        round: u32,
    ) -> CallResult<GraphFound> {
        self.graph(name)?.search_on(number, searches::asked(question), round).await
    }

    fn reach(&self, name: &str, number: u64, round: u32, vertices: Vec<u64>) -> CallResult<()> {
        self.graph(name)?.reach(number, round, &vertices)
    }

    fn end_search(&self, name: &str, number: u64) -> CallResult<()> {
        self.graph(name)?.end_search(number);
        Ok(())
    }

    async fn sources(&self, name: &str, after: Option<u64>) -> CallResult<Vec<SourceEntry>> {
        let now = micros(self.now());
        let opened = self.graph(name)?;
        let sources = opened.graph().sources(now, after, SOURCES);
        let entry = |SourceState { source, next, beyond, until, is_idle }| SourceEntry {
            source,
            next,
            beyond,
            until,
            idle: is_idle,
        };
        let own = page(sources.into_iter().map(entry));
        match opened.parts_of(name) {
            Some(parts) => whole::sources(parts, own, after).await,
            None => Ok(own),
        }
    }
}

impl Graphs {
    fn now(&self) -> Instant {
        self.stl.host().now()
    }

    /// A graph that this core has open, or a part of it.
    fn graph(&self, name: &str) -> CallResult<Rc<Opened>> {
        let graphs = self.graphs.borrow();
        let is_of = |it: &str| it == name || it.split('/').next() == Some(name);
        let mut found = graphs.iter().filter(|(it, opened)| is_of(it) && !opened.is_gone());
        found.next().map(|(_, opened)| opened.clone()).ok_or_else(|| no_graph(name))
    }

    async fn make(
        &self,
        name: String,
        settings: Settings,
        copies: u8,
        number: u64,
    ) -> CallResult<()> {
        let _turn = self.opening.take().await;
        self.check_room(&name)?;
        let home = if copies == 0 {
            in_memory(settings, number)
        } else {
            let shelf = Datasets::new(&self.stl, &name, copies);
            let kept = Kept::create(shelf, settings, number, copies).await;
            Home::Disks(Box::new(kept.map_err(|broken| match broken {
                Broken::No => exists(&name, "there is"),
                broken => broken_error(&name, broken),
            })?))
        };
        self.add(name, home);
        Ok(())
    }

    /// That there may be another graph, of this name.
    fn check_room(&self, name: &str) -> CallResult<()> {
        let (graph, part) = name.split_once('/').unwrap_or((name, "0"));
        let is_part = part.parse::<u32>().is_ok_and(|it| it.to_string() == part);
        if graph.is_empty() || !is_part || name.chars().any(char::is_control) {
            return Err(no_name());
        }
        let graphs = &mut *self.graphs.borrow_mut();
        graphs.retain(|_, it| !it.is_gone());
        if graphs.contains_key(name) {
            return Err(exists(name, "this core has"));
        }
        if graphs.keys().len() >= MOST {
            let message = format!("a core has {MOST} graphs at most; remove one");
            return Err(CallError::new(Status::NoMemory, message));
        }
        Ok(())
    }

    fn add(&self, name: String, home: Home) -> Rc<Opened> {
        let opened = Opened::begin(&self.stl, &name, home);
        self.graphs.borrow_mut().insert(name, opened.clone());
        opened
    }

    async fn give(
        &self,
        opened: &Rc<Opened>,
        call: Call,
        acknowledgement: Acknowledgement,
    ) -> CallResult<OfferedEvents> {
        let given = opened.live().offer(micros(self.now()), call);
        let busy =
            || CallError::new(Status::Busy, "too much waits for the log; say it again later");
        let (offered, mark) = given.ok_or_else(busy)?;
        opened.comes(offered.new > 0);
        if acknowledgement != Acknowledgement::Taken {
            opened.kept(mark).await?;
        }
        if acknowledgement == Acknowledgement::Ranked {
            opened.ranked(false).await;
        }
        let nile_graph::Offered { new, known, ahead, next } = offered;
        Ok(OfferedEvents { new, known, ahead, next, life: opened.graph().life() })
    }
}

/// A graph that this core has whole.
fn undivided(opened: &Opened) -> CallResult<Ref<'_, Graph>> {
    if opened.parts().is_some() {
        let message = format!("{} is a part, which does not know the whole graph", opened.name());
        return Err(CallError::new(Status::Invalid, message));
    }
    Ok(opened.graph())
}

/// A number that nobody has drawn before.
fn draw(stl: &Stl) -> u64 {
    let mut seed = [0; 8];
    if stl.node().is_ok_and(|node| node.entropy(&mut seed)) {
        return u64::from_le_bytes(seed).max(1);
    }
    // A machine without entropy has one node; its cores count in time.
    let core = u64::from(stl.host().core().0);
    (stl.host().now().as_nanos() << 8 | core).max(1)
}

fn cut(mut text: String) -> String {
    let most = text.floor_char_boundary(MOST_TEXT);
    text.truncate(most);
    text
}

fn settings(error: u64, patience_ms: u32, vertices: u32, part: Part) -> Settings {
    let patience = Duration::from_millis(patience_ms.into()).as_micros() as u64;
    let edges = EDGES * u64::from(vertices);
    Settings { error, patience, vertices: vertices as usize, edges, part }
}

fn no_name() -> CallError {
    let message = "a graph's name has no slashes and no control characters";
    CallError::new(Status::Invalid, message)
}

fn event(it: EdgeEvent) -> Event {
    let EdgeEvent { sequence, time, from, to, removes } = it;
    Event { sequence, time, from, to, removes }
}

fn micros(now: Instant) -> u64 {
    now.since(Instant::default()).as_micros() as u64
}

fn exists(name: &str, who: &str) -> CallError {
    CallError::new(Status::Exists, format!("{who} a graph {name} already; remove it first"))
}

fn no_graph(name: &str) -> CallError {
    CallError::new(Status::NotFound, format!("this core has no graph {name}"))
}

fn no_vertex(vertex: u64, why: &str) -> CallError {
    CallError::new(Status::NotFound, format!("the vertex {vertex} {why}"))
}
