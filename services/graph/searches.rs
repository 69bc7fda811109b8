//! Searches through a graph that is divided: components and distances. The part that is asked leads
//! the rounds; in each of them every part tells the others directly to which of their vertices it
//! has come.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{Instant, Status};
use nile_graph::{Found, Question, Search};
use nile_interfaces::graph::{GraphClient, GraphFound, GraphQuestion};
use nile_stl::{CallError, CallResult, LocalFuture, all};
use nile_sync::yield_now;

use super::opened::{Opened, TURN};
use super::parts::Parts;

/// Searches of one part at a time, and how long nobody goes on with one until it is forgotten.
const MOST: usize = 4;
const IDLE: Duration = Duration::from_secs(10);

/// Turns of one call, and batches to each other part, so that it is soon answered.
const TURNS: usize = 64;

/// Vertices of a batch.
const BATCH: usize = 1024;

/// How often a search is begun anew whose parts were opened elsewhere.
const ATTEMPTS: usize = 3;

/// The searches of a part.
#[derive(Default)]
pub struct Searches {
    begun: RefCell<Vec<Begun>>,
    /// A task forgets those with which nobody goes on.
    is_watched: Cell<bool>,
}

struct Begun {
    number: u64,
    search: Search,
    touched: Instant,
}

impl Opened {
    /// Searches in all parts.
    pub async fn search(self: &Rc<Self>, parts: &Parts, question: Question) -> CallResult<Found> {
        let mut failed = CallError::from(Status::Busy);
        for _ in 0..ATTEMPTS {
            let number = super::draw(&self.stl);
            let told = self.lead(parts, number, question).await;
            self.end_search(number);
            // One that is not told forgets it by itself.
            parts.ask_all(async |_, it, name| it.end_search(name, number).await).await;
            match told {
                Ok(found) => return Ok(found),
                Err(error) if is_worth_another(error.status) => failed = error,
                Err(error) => return Err(error),
            }
        }
        let message = format!("a part does not go on with the search: {}", failed.message);
        Err(CallError::new(Status::Busy, message))
    }

    /// Has all parts go through rounds, until none has anything to tell.
    async fn lead(
        self: &Rc<Self>,
        parts: &Parts,
        number: u64,
        question: Question,
    ) -> CallResult<Found> {
        for round in 0.. {
            let each =
                (0..parts.part().of).map(|part| -> LocalFuture<'_, CallResult<GraphFound>> {
                    Box::pin(self.ask_round(parts, part, number, question, round))
                });
            let (mut found, mut goes_on) = (Found::default(), round == 0);
            for told in all(each).await {
                let it = told?;
                found.is_known |= it.known;
                found.vertices += it.vertices;
                found.lowest = found.lowest.into_iter().chain(it.lowest).min();
                found.distance = found.distance.or(it.distance);
                goes_on |= it.goes_on;
            }
            if !goes_on || !found.is_known || found.distance.is_some() {
                return Ok(found);
            }
        }
        Err(CallError::new(Status::Failed, "there are no more rounds"))
    }

    /// Has a part go through a round.
    async fn ask_round(
        self: &Rc<Self>,
        parts: &Parts,
        part: u32,
        number: u64,
        question: Question,
        round: u32,
    ) -> CallResult<GraphFound> {
        let mut goes_on = false;
        loop {
            let told = match part == parts.part().number {
                true => self.search_on(number, question, round).await?,
                false => {
                    let ask = async |it: GraphClient, name: &str| {
                        it.search(name, number, question_of(question), round).await
                    };
                    parts.ask(part, ask).await?
                }
            };
            goes_on |= told.goes_on;
            if !told.more {
                return Ok(GraphFound { goes_on, ..told });
            }
        }
    }

    /// Goes on with a round of a search in this part, for a while.
    pub async fn search_on(
        self: &Rc<Self>,
        number: u64,
        question: Question,
        round: u32,
    ) -> CallResult<GraphFound> {
        if round == 0 {
            self.begin_search(number, question)?;
            return self.found(number, false, false);
        }
        for _ in 0..TURNS {
            if !self.with_search(number, |it| it.step(&self.graph(), round, TURN))? {
                let (told, more) = self.tell_others(number, round).await?;
                return self.found(number, told, more);
            }
            yield_now().await;
        }
        self.found(number, true, true)
    }

    /// Tells the other parts of what this one has come to; whether there was anything, and whether
    /// there is more.
    async fn tell_others(&self, number: u64, round: u32) -> CallResult<(bool, bool)> {
        let Some(parts) = self.parts() else { return Ok((false, false)) };
        let each = parts.others().map(async |to| -> CallResult<(bool, bool)> {
            for batch in 0..TURNS {
                let names = self.with_search(number, |it| it.take(to, BATCH))?;
                if names.is_empty() {
                    return Ok((batch > 0, false));
                }
                let reach = async move |it: GraphClient, name: &str| {
                    it.reach(name, number, round, names).await
                };
                parts.ask(to, reach).await?;
            }
            Ok((true, true))
        });
        let mut all_told = (false, false);
        for told in all(each).await {
            let (told, more) = told?;
            all_told = (all_told.0 | told, all_told.1 | more);
        }
        Ok(all_told)
    }

    /// Another part has come to these vertices.
    pub fn reach(&self, number: u64, round: u32, vertices: &[u64]) -> CallResult<()> {
        if vertices.len() > BATCH {
            let message = format!("{} vertices in a call; {BATCH} at most", vertices.len());
            return Err(CallError::new(Status::Invalid, message));
        }
        self.with_search(number, |it| it.tell(&self.graph(), vertices, round))
    }

    /// A search is over.
    pub fn end_search(&self, number: u64) {
        self.searches.begun.borrow_mut().retain(|it| it.number != number);
    }

    fn begin_search(self: &Rc<Self>, number: u64, question: Question) -> CallResult<()> {
        let search = Search::new(&self.graph(), question);
        let searches = &mut *self.searches.begun.borrow_mut();
        if searches.len() >= MOST {
            let message = format!("{MOST} others search in the graph; try again");
            return Err(CallError::new(Status::Busy, message));
        }
        if !self.searches.is_watched.replace(true) {
            let opened = self.clone();
            self.stl.host().spawn(Box::pin(async move { opened.forget_searches().await }));
        }
        searches.push(Begun { number, search, touched: self.stl.host().now() });
        Ok(())
    }

    /// Forgets those with which nobody goes on, until there are none.
    async fn forget_searches(self: Rc<Self>) {
        while !self.is_gone() && !self.searches.begun.borrow().is_empty() {
            self.wait(IDLE).await;
            let now = self.stl.host().now();
            self.searches.begun.borrow_mut().retain(|it| now.since(it.touched) < IDLE);
        }
        self.searches.is_watched.set(false);
    }

    fn with_search<T>(&self, number: u64, with: impl FnOnce(&mut Search) -> T) -> CallResult<T> {
        let searches = &mut *self.searches.begun.borrow_mut();
        let begun = searches.iter_mut().find(|it| it.number == number);
        let none = || CallError::new(Status::NotFound, "no such search was begun here");
        let begun = begun.ok_or_else(none)?;
        begun.touched = self.stl.host().now();
        Ok(with(&mut begun.search))
    }

    fn found(&self, number: u64, has_told: bool, more: bool) -> CallResult<GraphFound> {
        self.with_search(number, |it| {
            let Found { is_known: known, vertices, lowest, distance } = it.found();
            let goes_on = has_told || it.goes_on();
            GraphFound { known, vertices, lowest, distance, goes_on, more }
        })
    }
}

/// What is asked for, as the engine has it.
pub fn asked(question: GraphQuestion) -> Question {
    match question {
        GraphQuestion::Component { of } => Question::Component { of },
        GraphQuestion::Distance { from, to } => Question::Distance { from, to },
    }
}

fn question_of(question: Question) -> GraphQuestion {
    match question {
        Question::Component { of } => GraphQuestion::Component { of },
        Question::Distance { from, to } => GraphQuestion::Distance { from, to },
    }
}

/// Whether parts may do better when they are asked anew: one was opened elsewhere, or is away.
fn is_worth_another(status: Status) -> bool {
    matches!(
        status,
        Status::NotFound | Status::Dead | Status::Gone | Status::Timeout | Status::Busy
    )
}
