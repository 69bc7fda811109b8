//! The loop of turns: what the kernel does between them, and the system calls that it answers
//! itself. Nothing that a package says is believed: every number, address and length is checked,
//! and a bad one fails the call and nothing else.

use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;
use core::future::poll_fn;
use core::pin::pin;
use core::str;
use core::task::Poll;
use core::time::Duration;

use nile_abi::call::{Answer, KeepPlace, SystemCall};
use nile_abi::{Instant, Status, VirtAddr};
use nile_platform::Machine;
use nile_platform::user::{Ask, Exit};
use nile_stl::Admitted;

use super::lending::{Left, Present};
use super::outcome::CALLS;
use super::{Ended, MAX_CALL_BYTES, Package, Running};
use crate::core::Core;

/// The most bytes of one call's lines for the log.
const MAX_LOG_BYTES: usize = 1024;

/// The most lines of them that are written: each costs the core, and whoever waits for the
/// machine's log, much more than its bytes.
const MAX_LOG_LINES: usize = 16;

/// What a line counts besides its bytes: who says it, and when.
const LINE_BYTES: usize = 32;

/// System calls that are answered before the loop makes a pass even if nothing is known to wait.
pub(super) const CALLS_PER_PASS: u32 = 32;

/// What a package did.
#[derive(Default)]
pub(super) struct Counters {
    pub calls: Cell<[u64; CALLS]>,
    pub bad: Cell<u64>,
    pub interruptions: Cell<u64>,
    /// How long it had the core.
    pub busy: Cell<Duration>,
    /// Since when it has it.
    since: Cell<Option<Instant>>,
}

impl Counters {
    /// It has the core from `now` on.
    pub fn start(&self, now: Instant) {
        self.since.set(Some(now));
    }

    /// It has it no longer.
    pub fn stop(&self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.busy.set(self.busy.get() + now.since(since));
        }
    }

    pub fn count(&self, call: SystemCall) {
        let mut calls = self.calls.get();
        calls[call as usize] += 1;
        self.calls.set(calls);
    }
}

fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

/// Waits until the core's loop has made a pass up to this point: the management core's messages
/// are taken and whoever waited for a channel is woken.
pub(crate) async fn next_pass<M: Machine>(core: &Core<M>) {
    core.client.next_pass().await;
}

/// Whether something on this core waits for its loop, besides packages that wait for their turns.
pub(super) fn has_work<M: Machine>(core: &Core<M>) -> bool {
    core.manager.is_some() || is_waited_for(core)
}

/// The same but for the manager, which has its tick.
pub(crate) fn is_waited_for<M: Machine>(core: &Core<M>) -> bool {
    let others = || core.executor.ready() > core.client.queue.ready();
    has_come(core) || core.executor.is_ready(|| core.now()) && others()
}

/// Whether anything has come that the loop has yet to take, or a timer is due.
fn has_come<M: Machine>(core: &Core<M>) -> bool {
    core.client.is_ready()
        || core.inputs.borrow().iter().any(|input| input.is_ready())
        || core.timers.borrow().next_due().is_some_and(|due| due <= core.now())
}

/// The most passes of the loop before a turn: of what still waits then the turn's slice knows.
const MOST_PASSES: u32 = 4;

/// The most that a turn is given, of a core or package that has to be looked at, though nobody says
/// when.
const MOST_TURN: Duration = Duration::from_millis(100);

/// The least that a turn is given: what ends sooner brings its package no further.
const LEAST_TURN: Duration = Duration::from_micros(50);

/// A stretch of a package's turns, between which nobody else has had the core.
#[derive(Default)]
struct Stretch {
    /// The loop's pass in which it is.
    pass: u64,
    /// When its slice is over, if there are others.
    slice: Option<Instant>,
}

impl Stretch {
    /// When a turn is to end that begins now: by what waits on this core for it, or is going to.
    /// What has its core for itself is not interrupted, unless somebody rings the core's bell:
    /// the core has said that it computes.
    fn turn_ends<M: Machine>(&mut self, core: &Core<M>, is_watched: bool) -> Option<Instant> {
        let pass = core.machine.board().record(core.id()).turns();
        if self.pass != pass {
            *self = Stretch { pass, slice: None };
        }
        if self.slice.is_none() {
            // What a neighbour waits for may come at any time, and nobody signals the core for it.
            let others = core.client.packages() > 1 || is_waited_for(core);
            self.slice = core.executor.slice_ends(others, || core.now());
        }
        let due = core.timers.borrow().next_due();
        let look = (is_watched || core.has_devices()).then(|| core.now() + MOST_TURN);
        let end = [due, self.slice, look].into_iter().flatten().min()?;
        Some(end.max(core.now() + LEAST_TURN))
    }

    /// Whether others have to wait no longer.
    fn is_over<M: Machine>(&self, core: &Core<M>) -> bool {
        self.slice.is_some_and(|end| end <= core.now())
    }
}

/// The fewest turns of a package that hangs, in a second: one on a busy host has fewer.
const TURNS: u32 = 5;

/// How long a package that says how often it calls has not.
struct Silence {
    most: Option<Duration>,
    /// Since when, and for how many turns.
    since: Option<(Instant, u32)>,
}

impl Silence {
    /// A turn has ended without a call. How long it has been, if that is too long.
    fn goes_on(&mut self, now: impl FnOnce() -> Instant) -> Option<Duration> {
        let most = self.most?;
        let now = now();
        let (since, turns) = self.since.get_or_insert((now, 0));
        *turns += 1;
        let silent = now.since(*since);
        (silent > most && u64::from(*turns) > most.as_secs() * u64::from(TURNS)).then_some(silent)
    }
}

impl<M: Machine> Package<M> {
    /// How long it may call nobody: one that stays and says so.
    fn silence(&self) -> Silence {
        let stays = self.manifest().filter(|_| self.0.limits.stays.is_some());
        Silence { most: stays.and_then(|manifest| manifest.answers()), since: None }
    }

    /// Runs a loaded package until it ends, and counts how long it has the core. The clock is read
    /// when the package gets the core and when it lets go of it, and not for each system call.
    pub(super) async fn take_turns(&self) -> Ended {
        let Running { core, counters, .. } = &*self.0;
        let _present = Present::new(self);
        let mut turns = pin!(self.turns());
        let counted = poll_fn(|context| {
            counters.start(core.now());
            let ended = turns.as_mut().poll(context);
            counters.stop(core.now());
            ended
        });
        counted.await
    }

    async fn turns(&self) -> Ended {
        let Running { core, lending, .. } = &*self.0;
        let mut given_back = None;
        let mut answer = Answer::ok(0);
        let mut since_pass = 0;
        let mut stretch = Stretch::default();
        let mut silence = self.silence();
        let (mut passes, mut is_beside) = (0, false);
        loop {
            if self.0.control.stopped.is_raised() {
                return Ended::Stopped;
            }
            let mut until = None;
            let left = match given_back.take() {
                Some(left) => left,
                None => {
                    let computing = core.bell.compute();
                    let waits = is_waited_for(core);
                    // Tasks that take its slices from it are ready again and again, and where
                    // policies decide they say whose turn it is.
                    let has_others = is_beside || core.executor.is_bound();
                    let makes_way = if has_others { has_come(core) } else { waits };
                    if passes < MOST_PASSES && makes_way {
                        drop(computing);
                        passes += 1;
                        core.client.queue.turn().await;
                        continue;
                    }
                    passes = 0;
                    is_beside &= waits;
                    until = stretch.turn_ends(core, silence.most.is_some());
                    let left = self.take_stretch(answer, until, &mut since_pass);
                    drop(computing);
                    left
                }
            };
            if lending.has_called() {
                silence.since = None;
            }
            match left {
                Left::Gone => return Ended::Stopped,
                Left::Ready(its) => {
                    answer = its;
                    since_pass = CALLS_PER_PASS;
                }
                Left::Exit(Exit::Fault(fault)) => return Ended::Faulted(fault),
                Left::Exit(Exit::Interrupted) => {
                    count(&self.0.counters.interruptions);
                    if let Some(silent) = silence.goes_on(|| core.now()) {
                        return Ended::Hung(silent);
                    }
                    if until.is_some_and(|until| until <= core.now()) {
                        core.executor.note_preempted();
                    }
                    since_pass = CALLS_PER_PASS;
                }
                Left::Exit(Exit::Call(ask)) => {
                    silence.since = None;
                    core.machine.board().record(core.id()).count_system_call();
                    if SystemCall::from_number(ask.number) == Some(SystemCall::Exit) {
                        self.0.counters.count(SystemCall::Exit);
                        self.hear_last_words(ask);
                        return Ended::Exited(ask.word);
                    }
                    let served = self.0.control.stopped.or(self.serve_or_lend(ask)).await;
                    lending.keep();
                    let Some(served) = served else { return Ended::Stopped };
                    match served {
                        Left::Ready(its) => answer = its,
                        exit => {
                            given_back = Some(exit);
                            continue;
                        }
                    }
                    since_pass += 1;
                }
            }
            let is_due = since_pass >= CALLS_PER_PASS || has_work(core);
            let is_over = stretch.is_over(core);
            is_beside |= is_over;
            if is_due || is_over {
                core.client.queue.turn().await;
                since_pass = 0;
            }
        }
    }

    /// Answers a system call that was not answered at once. While a `wait` goes on, the package may
    /// be lent.
    async fn serve_or_lend(&self, ask: Ask) -> Left {
        let lending = &self.0.lending;
        let mut serving = pin!(self.serve(ask));
        if SystemCall::from_number(ask.number) == Some(SystemCall::Wait) {
            lending.wait(ask);
        }
        poll_fn(|context| match lending.take_back(context) {
            Some(left) => Poll::Ready(left),
            None => serving
                .as_mut()
                .poll(context)
                .map(|result| Left::Ready(result.map_or_else(Answer::failed, Answer::ok))),
        })
        .await
    }

    async fn serve(&self, ask: Ask) -> Result<u64, Status> {
        let bad = &self.0.counters.bad;
        let Some(call) = SystemCall::from_number(ask.number) else {
            count(bad);
            return Err(Status::Invalid);
        };
        self.0.counters.count(call);
        match call {
            // Answered at once, or not at all.
            SystemCall::Nothing | SystemCall::Now | SystemCall::Exit => Ok(0),
            SystemCall::Log => {
                let lines = self.input(ask, MAX_LOG_BYTES);
                let lines = lines.inspect_err(|_| count(bad))?;
                let lines = str::from_utf8(&lines).map_err(|_| Status::Invalid);
                for line in lines.inspect_err(|_| count(bad))?.lines().take(MAX_LOG_LINES) {
                    self.log(line);
                }
                Ok(0)
            }
            SystemCall::Keep | SystemCall::Region => {
                let (name, room) = self.buffers(ask).inspect_err(|_| count(bad))?;
                if room < KeepPlace::BYTES {
                    return Err(Status::Invalid);
                }
                let place = match call {
                    SystemCall::Region => self.region(&name).await?,
                    _ => self.keep(&name, ask.word).await?,
                };
                let place = place.encode();
                self.0.space.write(ask.output.0, &place).inspect_err(|_| count(bad))?;
                Ok(place.len() as u64)
            }
            SystemCall::Invoke
            | SystemCall::Begin
            | SystemCall::Wait
            | SystemCall::Wake
            | SystemCall::Reply
            | SystemCall::Publish
            | SystemCall::Channel
            | SystemCall::Pool => {
                let buffers = self.buffers(ask).inspect_err(|_| count(bad));
                let (input, room) = buffers?;
                let served = self.0.calls.call(self, call, ask.word, input, room);
                let (value, output) = self.0.core.serving(self, served).await?;
                if output.len() > room {
                    return Err(Status::Invalid);
                }
                let written = self.0.space.write(ask.output.0, &output);
                written.inspect_err(|_| count(bad))?;
                Ok(value)
            }
        }
    }

    /// Writes a line to the node's log, if there have not been too many.
    fn log(&self, line: &str) {
        let core = &self.0.core;
        match self.0.lines.take(core.now(), line.len() + LINE_BYTES) {
            Admitted::No => return,
            Admitted::Yes => {}
            Admitted::After(refused) => self.tell_refused(refused),
        }
        core.machine.log(format_args!("{}: {}", self.id(), Printable(line)));
    }

    /// Says in the log how many lines are not in it.
    pub(super) fn tell_refused(&self, lines: u64) {
        if lines > 0 {
            let (core, most) = (&self.0.core, self.0.limits.log_bytes);
            let why = format_args!("it writes more than {most} bytes a second");
            core.machine.log(format_args!("{}: {lines} lines are left out: {why}", self.id()));
        }
    }

    /// Why it exits, if it says so; whatever else is there is not worth an error.
    fn hear_last_words(&self, ask: Ask) {
        let words = self.input(ask, MAX_LOG_BYTES).unwrap_or_default();
        let words = str::from_utf8(&words).unwrap_or_default();
        let plain = |it: char| if it.is_control() { ' ' } else { it };
        self.0.last_words.replace(words.chars().map(plain).collect());
    }

    fn input(&self, ask: Ask, most: usize) -> Result<Vec<u8>, Status> {
        let (from, bytes) = ask.input;
        self.0.space.read(from, bounded(bytes, most)?)
    }

    /// The input, and how much room there is for the output. That the output's first and last
    /// bytes can be written is found out before the call, so that few calls happen whose answer
    /// has nowhere to go.
    fn buffers(&self, ask: Ask) -> Result<(Vec<u8>, usize), Status> {
        let input = self.input(ask, MAX_CALL_BYTES)?;
        let (to, bytes) = ask.output;
        let room = bounded(bytes, MAX_CALL_BYTES)?;
        if let Some(last) = bytes.checked_sub(1) {
            let end = to.0.checked_add(last).ok_or(Status::Invalid)?;
            self.0.space.write(to, &[0])?;
            self.0.space.write(VirtAddr(end), &[0])?;
        }
        Ok((input, room))
    }
}

fn bounded(bytes: u64, most: usize) -> Result<usize, Status> {
    usize::try_from(bytes).ok().filter(|bytes| *bytes <= most).ok_or(Status::Invalid)
}

/// A line of a package's that cannot disturb a terminal or pass for another line.
struct Printable<'a>(&'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(char::is_control) {
            let (plain, from) = rest.split_at(at);
            write!(f, "{plain}{}", char::REPLACEMENT_CHARACTER)?;
            let mut after = from.chars();
            after.next();
            rest = after.as_str();
        }
        f.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_line_stays_a_line() {
        assert_eq!(Printable("").to_string(), "");
        assert_eq!(Printable("plain ünï").to_string(), "plain ünï");
        let shown = Printable("\u{1b}[2Ja\rb\u{85}").to_string();
        assert_eq!(shown, "\u{fffd}[2Ja\u{fffd}b\u{fffd}");
    }

    #[test]
    fn silence_is_too_long_only_for_who_has_had_turns() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut never = Silence { most: None, since: None };
        assert!((0..1000).all(|s| never.goes_on(|| at(s * 1000)).is_none()));
        let mut silence = Silence { most: Some(Duration::from_secs(2)), since: None };
        let turns: Vec<_> = (0..30).map(|turn| silence.goes_on(|| at(100 * turn))).collect();
        let first = turns.iter().position(Option::is_some);
        assert_eq!((first, turns[21]), (Some(21), Some(Duration::from_millis(2100))));
        silence.since = None;
        let turns: Vec<_> = (0..12).map(|turn| silence.goes_on(|| at(1000 * turn))).collect();
        assert_eq!(turns.iter().position(Option::is_some), Some(10));
    }

    #[test]
    fn lengths_are_bounded() {
        assert_eq!(bounded(0, 4), Ok(0));
        assert_eq!(bounded(4, 4), Ok(4));
        assert_eq!(bounded(5, 4), Err(Status::Invalid));
        assert_eq!(bounded(u64::MAX, usize::MAX - 1), Err(Status::Invalid));
    }
}
