//! Carrying a composition out: a state machine that says which call comes next and with what
//! input, and takes what came of it. It sends nothing and does not wait; calls that do not depend
//! on each other are all given out before the first is over.
//!
//! Values are whatever the caller's are: it looks at their names only.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use nile_abi::Status;
use nile_bosml::schema::Parameter;

use super::{Body, Composed, Reference, Source, Wire};

/// A value, or the named values of one that was collected from a part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Slot<V> {
    /// A value of the caller's.
    Value(V),
    /// What a part gave.
    Record(Slots<V>),
}

/// Named values.
pub type Slots<V> = Vec<(String, Slot<V>)>;

/// A call of a plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallId(u32);

/// A call to make.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call<'c, V> {
    /// Which call, for [`Plan::finish`].
    pub id: CallId,
    /// Whom.
    pub service: &'c Reference,
    /// Which method of it.
    pub method: &'c str,
    /// Its parameters, in the order of its schema.
    pub input: Slots<V>,
}

/// What to do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step<'c, V> {
    /// Make this call, and ask again at once.
    Call(Call<'c, V>),
    /// Wait until a call is over.
    Wait,
    /// This is the reply.
    Done(Slots<V>),
    /// The call for the part of this name ended so. Calls that are not over can be cancelled.
    Failed(&'c str, Status),
}

/// Why a plan was not begun: a parameter of this name is not given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanError(pub String);

/// Why the end of a call was not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OutcomeError {
    /// No such call is under way.
    UnknownCall,
    /// The reply lacks the value of this name. The plan has failed.
    Missing(String),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parameter `{}` is not given", self.0)
    }
}

impl fmt::Display for OutcomeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OutcomeError::UnknownCall => f.write_str("no such call is under way"),
            OutcomeError::Missing(name) => write!(f, "the reply lacks `{name}`"),
        }
    }
}

/// A composition that is being carried out.
pub struct Plan<'c, V> {
    run: Run<'c, V>,
    calls: u32,
    failed: Option<(&'c str, Status)>,
}

impl<'c, V: Clone> Plan<'c, V> {
    /// Begins. Fails if the composition takes a parameter that is not given; what is given besides
    /// is dropped.
    pub fn new(composed: &'c Composed, input: &Slots<V>) -> Result<Plan<'c, V>, PlanError> {
        match missing(&composed.parameters, input) {
            Some(name) => Err(PlanError(name.into())),
            None => Ok(Plan { run: Run::start(composed, input), calls: 0, failed: None }),
        }
    }

    /// What to do next.
    pub fn step(&mut self) -> Step<'c, V> {
        if let Some((part, status)) = self.failed {
            return Step::Failed(part, status);
        }
        match (self.run.next(&mut self.calls), self.run.reply()) {
            (Some(call), _) => Step::Call(call),
            (None, Some(reply)) => Step::Done(reply.clone()),
            (None, None) => Step::Wait,
        }
    }

    /// Takes what came of a call: its reply, or how it ended otherwise.
    pub fn finish(
        &mut self,
        id: CallId,
        outcome: Result<Slots<V>, Status>,
    ) -> Result<(), OutcomeError> {
        let part = self.run.caller(id).ok_or(OutcomeError::UnknownCall)?;
        let reply = match outcome {
            Ok(reply) => reply,
            Err(status) => {
                self.failed.get_or_insert((&part.name, status));
                return Ok(());
            }
        };
        if let Some(name) = missing(&part.reply, &reply) {
            self.failed.get_or_insert((&part.name, Status::Invalid));
            return Err(OutcomeError::Missing(name.into()));
        }
        self.run.finish(id, &reply);
        Ok(())
    }
}

/// One part that is being carried out.
struct Run<'c, V> {
    part: &'c Composed,
    state: State<'c, V>,
}

enum State<'c, V> {
    /// Parts that feed it are not over.
    Waiting(&'c [Wire]),
    /// A component that is to be called with this.
    Ready(Slots<V>),
    /// A component that has been called.
    Called(CallId),
    /// A chain, and which of its parts is at work.
    Chain(usize, Box<Run<'c, V>>),
    /// Parts that do not feed each other, and what the whole was given.
    Sides(Slots<V>, Vec<Run<'c, V>>),
    /// It is over, and gave this.
    Done(Slots<V>),
}

impl<'c, V: Clone> Run<'c, V> {
    /// The input has all parameters: that was checked when the parts were composed.
    fn start(part: &'c Composed, input: &Slots<V>) -> Run<'c, V> {
        let state = match &part.body {
            Body::Component(..) => State::Ready(pick(&part.parameters, input)),
            Body::Lengthwise(parts) => State::Chain(0, Box::new(Run::start(&parts[0], input))),
            Body::Widthwise(parts) => {
                let runs = parts.iter().map(|part| Run::start(part, input)).collect();
                State::Sides(Slots::new(), runs)
            }
            Body::Orchestrated(parts, _) => {
                let runs = parts.iter().map(|(part, wires)| {
                    let fed = wires.iter().any(|it| matches!(it.from, Source::Output(..)));
                    match fed {
                        true => Run { part, state: State::Waiting(wires) },
                        false => Run::start(part, &wired(wires, |it| given(it, input, &[]))),
                    }
                });
                State::Sides(input.clone(), runs.collect())
            }
        };
        Run { part, state }
    }

    fn next(&mut self, calls: &mut u32) -> Option<Call<'c, V>> {
        match (&mut self.state, &self.part.body) {
            (State::Ready(input), Body::Component(service, method)) => {
                let (id, input) = (CallId(*calls), core::mem::take(input));
                *calls += 1;
                self.state = State::Called(id);
                Some(Call { id, service, method, input })
            }
            (State::Chain(_, run), _) => run.next(calls),
            (State::Sides(_, runs), _) => runs.iter_mut().find_map(|run| run.next(calls)),
            _ => None,
        }
    }

    /// The component that made a call which is under way.
    fn caller(&self, id: CallId) -> Option<&'c Composed> {
        match &self.state {
            State::Called(own) if *own == id => Some(self.part),
            State::Chain(_, run) => run.caller(id),
            State::Sides(_, runs) => runs.iter().find_map(|run| run.caller(id)),
            _ => None,
        }
    }

    fn reply(&self) -> Option<&Slots<V>> {
        match &self.state {
            State::Done(reply) => Some(reply),
            _ => None,
        }
    }

    fn finish(&mut self, id: CallId, reply: &Slots<V>) {
        let done = match (&mut self.state, &self.part.body) {
            (State::Called(own), _) if *own == id => Some(pick(&self.part.reply, reply)),
            (State::Chain(at, run), Body::Lengthwise(parts)) => {
                run.finish(id, reply);
                match (run.reply(), parts.get(*at + 1)) {
                    (Some(given), Some(next)) => {
                        **run = Run::start(next, given);
                        *at += 1;
                        None
                    }
                    (given, _) => given.cloned(),
                }
            }
            (State::Sides(input, runs), body) => {
                runs.iter_mut().for_each(|run| run.finish(id, reply));
                feed(input, runs);
                let all_over = runs.iter().all(|run| run.reply().is_some());
                all_over.then(|| match body {
                    Body::Orchestrated(_, results) => gather(input, runs, results),
                    _ => collect(runs),
                })
            }
            _ => None,
        };
        if let Some(reply) = done {
            self.state = State::Done(reply);
        }
    }
}

/// What parts side by side gave: a record for each.
fn collect<V: Clone>(runs: &[Run<'_, V>]) -> Slots<V> {
    let records = runs.iter().filter_map(|run| {
        let record = Slot::Record(run.reply()?.clone());
        Some((run.part.name.as_ref().into(), record))
    });
    records.collect()
}

/// What an orchestrated service gives.
fn gather<V: Clone>(input: &Slots<V>, runs: &[Run<'_, V>], results: &[Wire]) -> Slots<V> {
    wired(results, |source| given(source, input, runs))
}

/// Begins the parts that waited for what is there now.
fn feed<V: Clone>(input: &Slots<V>, runs: &mut [Run<'_, V>]) {
    for at in 0..runs.len() {
        let State::Waiting(wires) = runs[at].state else { continue };
        let slots = wired(wires, |it| given(it, input, runs));
        if slots.len() == wires.len() {
            runs[at] = Run::start(runs[at].part, &slots);
        }
    }
}

/// What a source has, if that is there already.
fn given<'v, V: Clone>(
    source: &Source,
    input: &'v Slots<V>,
    runs: &'v [Run<'_, V>],
) -> Option<&'v Slot<V>> {
    match source {
        Source::Input(name) => slot(input, name),
        Source::Output(part, name) => {
            let run = runs.iter().find(|run| run.part.name == *part);
            slot(run?.reply()?, name)
        }
    }
}

fn wired<'v, V: Clone + 'v>(
    wires: &[Wire],
    source: impl Fn(&Source) -> Option<&'v Slot<V>>,
) -> Slots<V> {
    let slots = wires.iter().filter_map(|wire| {
        let value = source(&wire.from)?.clone();
        Some((wire.to.as_ref().into(), value))
    });
    slots.collect()
}

fn slot<'v, V>(slots: &'v Slots<V>, name: &str) -> Option<&'v Slot<V>> {
    slots.iter().find(|(own, _)| own == name).map(|(_, slot)| slot)
}

/// The first of a schema's names that has no value.
fn missing<'p, V>(schema: &'p [Parameter<'static>], slots: &Slots<V>) -> Option<&'p str> {
    let mut names = schema.iter().map(|parameter| parameter.name.as_ref());
    names.find(|name| slot(slots, name).is_none())
}

/// What a schema names, in its order.
fn pick<V: Clone>(schema: &[Parameter<'static>], slots: &Slots<V>) -> Slots<V> {
    let names = schema.iter().map(|parameter| parameter.name.as_ref());
    names.filter_map(|name| Some((name.into(), slot(slots, name)?.clone()))).collect()
}
