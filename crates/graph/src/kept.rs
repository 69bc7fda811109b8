//! A graph that is open here, and its log: what a service does over and over.

use core::cell::RefCell;

use crate::generation::{Keeping, Saving};
use crate::graph::{Graph, Settings};
use crate::journal::{Broken, Journal, MOST_RECORDS, Shelf, create, open};
use crate::live::Live;

/// So many bytes of records make a generation worth while, or an eighth of what there is.
const LEAST_LOGGED: usize = 64 << 10;

/// About what an edge takes in a generation.
const EDGE: u64 = 8;

/// A graph that is open here.
pub struct Kept<S> {
    /// The graph, and what waits for its log. Nobody holds it while they wait.
    pub live: RefCell<Live>,
    journal: Journal<S>,
}

impl<S: Shelf> Kept<S> {
    /// Makes a graph of this number, with so many copies of each part. Waits for the shelf.
    pub async fn create(
        shelf: S,
        settings: Settings,
        graph: u64,
        copies: u8,
    ) -> Result<Kept<S>, Broken<S::Error>> {
        let keeping = Keeping { graph, copies, cut: 0 };
        let (mut live, journal) = create(shelf, Graph::new(settings), keeping).await?;
        live.graph.join(graph, journal.life());
        Ok(Kept { live: RefCell::new(live), journal })
    }

    /// Opens a graph, as [`open`] says. Waits for the shelf.
    pub async fn open(shelf: S, now: u64) -> Result<Kept<S>, Broken<S::Error>> {
        let (mut live, journal) = open(shelf, now).await?;
        live.graph.join(live.number(), journal.life());
        Ok(Kept { live: RefCell::new(live), journal })
    }

    /// On how many nodes each part of it is.
    pub fn copies(&self) -> u8 {
        self.journal.keeping().copies
    }

    /// Puts what waits into the log, as much as one record takes; whether there was anything. If
    /// it fails otherwise than by being superseded, it may be tried again.
    pub async fn commit(&self) -> Result<bool, Broken<S::Error>> {
        let record = self.live.borrow_mut().record(self.journal.next());
        let Some(record) = record else { return Ok(false) };
        let bytes = self.journal.append(&record).await?;
        self.live.borrow_mut().logged(bytes);
        Ok(true)
    }

    /// Looks whether the graph is still this one's; superseded if another has opened it. Whoever
    /// puts a record finds that out, too.
    pub async fn look(&self) -> Result<(), Broken<S::Error>> {
        if self.live.borrow().is_putting() {
            return Ok(());
        }
        match self.journal.look().await {
            // It may be this one's record that was seen.
            Err(Broken::Superseded) if self.live.borrow().is_putting() => Ok(()),
            looked => looked,
        }
    }

    /// Whether the log is so long that a generation should begin.
    pub fn wants_generation(&self) -> bool {
        let live = self.live.borrow();
        let edges = live.graph.published().edges;
        let logged = LEAST_LOGGED.max((edges * EDGE / 8) as usize);
        live.since_generation() > logged || self.journal.records() * 2 > MOST_RECORDS
    }

    /// Has a generation begin as soon as no sweep is under way; [`Graph::step`] builds it, and
    /// [`Kept::save`] puts it.
    pub fn begin_generation(&self) {
        self.live.borrow_mut().graph.want_generation(self.journal.keeping());
    }

    /// Puts the generation that was wanted, if it has begun; whether there was one. If it fails
    /// otherwise than by being superseded, another may be wanted.
    pub async fn save(&self) -> Result<bool, Broken<S::Error>> {
        let saving = self.live.borrow_mut().begin_generation();
        let Some(saving) = saving else { return Ok(false) };
        let keeping = saving.keeping();
        let mut next = |saving: &mut Saving| saving.next(&self.live.borrow().graph);
        let replaced = self.journal.replace(saving, keeping, &mut next).await;
        self.live.borrow_mut().graph.end_generation();
        replaced.map(|()| true)
    }

    /// The graph is no more.
    pub async fn remove(&self) -> Result<(), Broken<S::Error>> {
        self.journal.remove().await
    }
}
