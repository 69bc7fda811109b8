//! A graph whose events are acknowledged when they are in its log, while whoever has it and whoever
//! feeds it is killed at any step: cores and nodes die in the midst of everything, others open the
//! graph while somebody still has it, disks are full, those that keep the log are away, and answers
//! are lost. What was acknowledged is in whenever the graph is opened, nothing counts twice, and in
//! the end the graph is that of all events, in whatever order they came. Some graphs are divided:
//! then all of this is of each part, whose letters come late and twice, also to who has it no more.
//! When trouble is over, whoever has the graph publishes all events, without being opened anew.
//!
//! * `steps`: tasks that go on in any order, and end in the midst.
//! * `shelf`: where it is kept.
//! * `host`: who has it open; `feeder`: who has events.

mod feeder;
mod host;
mod shelf;
mod steps;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use nile_graph::{Event, Kept, Part, Publication};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::draw::below;
use crate::options::Options;
use crate::report::{Figure, Report};
use crate::runs::{Outcome, run_seeds};
use crate::trace::Trace;

use shelf::{Memory, Stored};
use steps::{Steps, pause};

/// Hosts of each part of a run, and feeders.
const HOSTS: usize = 3;
const FEEDERS: usize = 3;

/// The most parts of a graph.
const PARTS: u64 = 3;

/// Events of a feeder, at most.
const EVENTS: u64 = 60;

/// For how many steps there is trouble, and how many more all may take to end.
const TROUBLE: u64 = 6_000;
const MOST_STEPS: u64 = 2_000_000;

/// What is done wrongly, for the checks of the check.
#[derive(Clone, Copy, Default, Debug)]
struct Conduct {
    /// Events are acknowledged when they are in memory.
    is_hasty: bool,
    /// The shelf does not look what a slot has been.
    overwrites: bool,
    /// Who feeds does not look who has taken what it gave.
    ignores_lives: bool,
}

/// What all take part in.
struct World {
    random: RefCell<ChaCha8Rng>,
    conduct: Conduct,
    /// The number of the graph, if it is divided, and its parts.
    number: u64,
    parts: Vec<PartWorld>,
    /// What each feeder says.
    events: Vec<Vec<Event>>,
    acknowledged: RefCell<BTreeSet<(u64, u64)>>,
    fed: Cell<usize>,
    is_calm: Cell<bool>,
    opened: Cell<u64>,
    saved: Cell<u64>,
    letters: Cell<u64>,
    broken: RefCell<Option<String>>,
    trace: RefCell<Trace>,
}

/// What all take part in of one part.
#[derive(Default)]
struct PartWorld {
    stored: Rc<Stored>,
    /// The numbers of its openings.
    lives: RefCell<BTreeSet<u64>>,
    /// Who has it open, by host.
    open: [RefCell<Option<Rc<Kept<Memory>>>>; HOSTS],
}

impl World {
    /// One of the parts.
    fn part(&self, number: usize) -> Part {
        Part { number: number as u32, of: self.parts.len() as u32 }
    }

    /// Whoever has a part open, by one of its hosts.
    fn open(&self, part: usize) -> Option<Rc<Kept<Memory>>> {
        let host = self.below(HOSTS as u64) as usize;
        self.parts[part].open[host].borrow().clone()
    }

    /// Whether a host still has a part open as it did.
    fn has(&self, part: usize, kept: &Rc<Kept<Memory>>) -> bool {
        let is_it = |it: &RefCell<Option<Rc<Kept<Memory>>>>| {
            it.borrow().as_ref().is_some_and(|it| Rc::ptr_eq(it, kept))
        };
        self.parts[part].open.iter().any(is_it)
    }

    /// Who had a part open has lost it.
    fn leave(&self, part: usize, kept: &Rc<Kept<Memory>>) {
        let open = self.parts[part].open.iter();
        let own = open.filter(|it| it.borrow().as_ref().is_some_and(|it| Rc::ptr_eq(it, kept)));
        own.for_each(|it| drop(it.take()));
    }

    /// Whether whoever has the parts has published all events.
    fn is_published(&self) -> bool {
        let events: usize = self.events.iter().map(Vec::len).sum();
        let life = |it: &Rc<Kept<Memory>>| it.live.borrow().graph.life();
        let newest = |part: &PartWorld| {
            part.open.iter().filter_map(|it| it.borrow().clone()).max_by_key(life)
        };
        let whole = |it: Rc<Kept<Memory>>| it.live.borrow().graph.whole();
        let all: Option<Vec<Publication>> =
            self.parts.iter().map(|it| newest(it).map(whole)).collect();
        all.is_some_and(|all| all.iter().all(|it| *it == all[0] && it.events == events as u64))
    }

    fn below(&self, bound: u64) -> u64 {
        below(&mut self.random.borrow_mut(), bound)
    }

    fn breaks(&self, why: String) {
        self.broken.borrow_mut().get_or_insert(why);
    }

    fn note(&self, what: &str) {
        self.trace.borrow_mut().note_bytes(what.as_bytes());
    }

    /// That all that was acknowledged is in a graph that was just opened.
    fn check_opened(&self, kept: &Kept<Memory>) {
        let live = kept.live.borrow();
        for (source, sequence) in &*self.acknowledged.borrow() {
            let states = live.graph.sources(0, source.checked_sub(1), 1);
            // Beyond what is missing is not told one by one; events of feeders come in order there.
            let next = states.first().filter(|it| it.source == *source).map_or(0, |it| it.next);
            if next <= *sequence && states.first().is_none_or(|it| it.beyond == 0) {
                self.breaks(format!("event {sequence} of {source} was acknowledged and is lost"));
            }
        }
    }
}

/// Runs the scenario; blocks until all its runs are done.
pub fn run(options: &Options) -> Report {
    run_seeds("graph", options, HOSTS as u32, |seed| simulate(seed, Conduct::default()))
}

/// Events of a source: edges that are its own or everybody's, and some go again.
fn events(random: &mut ChaCha8Rng) -> Vec<Event> {
    let count = 1 + below(random, EVENTS);
    let mut events: Vec<Event> = Vec::new();
    for sequence in 0..count {
        let time = below(random, 1000);
        let (from, to) = (below(random, 12), below(random, 12));
        let removes = below(random, 4) == 0;
        events.push(Event { sequence, time, from, to, removes });
    }
    events
}

/// What holds about each edge after all events.
fn model(events: &[Vec<Event>]) -> BTreeSet<(u64, u64)> {
    let mut last = BTreeMap::new();
    for (source, events) in (1..).zip(events) {
        for event in events {
            let news = (event.stamp(source), !event.removes);
            let known = last.entry((event.from, event.to)).or_insert(news);
            *known = (*known).max(news);
        }
    }
    last.into_iter().filter(|(_, (_, is_there))| *is_there).map(|(edge, _)| edge).collect()
}

fn simulate(seed: u64, conduct: Conduct) -> Outcome {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let events: Vec<Vec<Event>> = (0..FEEDERS).map(|_| events(&mut random)).collect();
    // Half of the graphs are not divided.
    let parts = below(&mut random, 2 * PARTS).saturating_sub(PARTS - 1).max(1);
    let number = 1 + below(&mut random, 1 << 40);
    let world = Rc::new(World {
        random: RefCell::new(random),
        conduct,
        number,
        parts: (0..parts).map(|_| PartWorld::default()).collect(),
        events,
        acknowledged: RefCell::default(),
        fed: Cell::default(),
        is_calm: Cell::default(),
        opened: Cell::default(),
        saved: Cell::default(),
        letters: Cell::default(),
        broken: RefCell::default(),
        trace: RefCell::default(),
    });
    let mut steps = Steps::default();
    let mut kills = 0;
    let places: Vec<(usize, usize)> =
        (0..parts as usize).flat_map(|part| (0..HOSTS).map(move |host| (part, host))).collect();
    let begin = |(part, host): (usize, usize)| host::run(world.clone(), part, host);
    let mut hosts: Vec<usize> = places.iter().map(|it| steps.start(begin(*it))).collect();
    let mut feeders: Vec<usize> =
        (0..FEEDERS).map(|feeder| steps.start(feeder::run(world.clone(), feeder))).collect();
    let risk = 30 + world.below(400);
    let mut step = 0;
    while world.fed.get() < FEEDERS && world.broken.borrow().is_none() && step < MOST_STEPS {
        step += 1;
        world.is_calm.set(step > TROUBLE);
        steps.step(&world);
        if !world.is_calm.get() && world.below(4 * risk) == 0 {
            let away = &world.parts[world.below(parts) as usize].stored.is_away;
            away.set(!away.get());
        }
        if !world.is_calm.get() && world.below(risk) == 0 {
            kills += 1;
            match world.below((hosts.len() + FEEDERS) as u64) as usize {
                at if at < hosts.len() => {
                    let (part, host) = places[at];
                    steps.kill(hosts[at]);
                    world.parts[part].open[host].take();
                    hosts[at] = steps.start(begin(places[at]));
                }
                other => {
                    let feeder = other - hosts.len();
                    if steps.kill(feeders[feeder]) {
                        feeders[feeder] = steps.start(feeder::run(world.clone(), feeder));
                    }
                }
            }
        }
    }
    if step == MOST_STEPS {
        world.breaks("events are never in, although nothing is wrong any more".into());
    }
    // Whoever has it then has all, also if others have had it.
    world.is_calm.set(true);
    step = 0;
    while !world.is_published() && world.broken.borrow().is_none() && step < MOST_STEPS {
        step += 1;
        steps.step(&world);
    }
    if step == MOST_STEPS {
        world.breaks("whoever has the graph in the end does not publish all events".into());
    }
    // Whoever had it is gone.
    steps.end();
    world.parts.iter().flat_map(|it| &it.open).for_each(|it| drop(it.take()));
    let last = world.clone();
    steps.start(async move { finish(&last).await });
    while !steps.are_over() {
        steps.step(&world);
    }
    drop(steps);
    let broken = world.broken.borrow_mut().take();
    let figures = vec![
        Figure::count("hosts and feeders killed", kills),
        Figure::count("times opened", world.opened.get()),
        Figure::count("generations", world.saved.get()),
        Figure::count("records put", world.parts.iter().map(|it| it.stored.puts.get()).sum()),
        Figure::count("letters of parts", world.letters.get()),
        Figure::count("events acknowledged", world.acknowledged.borrow().len() as u64),
    ];
    Outcome { trace_hash: world.trace.borrow().hash(), broken, figures }
}

/// Opens the graph a last time: it is that of all events.
async fn finish(world: &Rc<World>) {
    let mut all = Vec::new();
    for part in 0..world.parts.len() {
        all.push(loop {
            match Kept::open(Memory::new(world, part), 0).await {
                Ok(kept) => break kept,
                Err(nile_graph::Broken::Shelf(())) => pause().await,
                Err(broken) => return world.breaks(format!("it cannot be opened: {broken:?}")),
            }
        });
    }
    all.iter().for_each(|kept| world.check_opened(kept));
    if world.broken.borrow().is_some() {
        return;
    }
    let mut edges = BTreeSet::new();
    let mut counted = 0;
    for kept in &all {
        let live = kept.live.borrow();
        live.graph.each_edge(|from, to| {
            edges.insert((from, to));
        });
        counted += live.graph.published().behind;
    }
    if edges != model(&world.events) {
        world.breaks("in the end the graph is not that of all events".into());
    }
    let events: usize = world.events.iter().map(Vec::len).sum();
    if counted != events as u64 {
        world.breaks(format!("{counted} events count, and {events} are there"));
    }
    world.note(&format!("{edges:?}"));
    while settle(world, &all) {
        pause().await;
    }
    let whole = all[0].live.borrow().graph.whole();
    let is_one = all.iter().all(|it| it.live.borrow().graph.whole() == whole);
    let has_all = (whole.events, whole.edges) == (events as u64, edges.len() as u64);
    if all.len() > 1 && !(is_one && has_all) {
        world.breaks(format!("in the end parts have not published all: {whole:?}"));
    }
}

/// Has all parts go on, and their letters come; whether there was anything to do.
fn settle(world: &World, all: &[Kept<Memory>]) -> bool {
    let mut is_more = false;
    for (from, kept) in all.iter().enumerate() {
        is_more |= kept.live.borrow_mut().graph.step(0, 1000).is_some();
        for (to, other) in all.iter().enumerate().filter(|(to, _)| *to != from) {
            is_more |= host::deliver(world, kept, to, other, false).is_some();
        }
    }
    is_more
}
