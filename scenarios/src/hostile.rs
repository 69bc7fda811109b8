//! Scheduling policies that do wrong, beside subjects that are bound to a good one. Whatever they
//! do, all tasks come to their ends, the good ones wait no longer than twice the guard, and who
//! answers wrong is expelled at its third failure. A policy that panics, or does not return, ends
//! its core's incarnation; the next one begins without it.
//!
//! Waits are counted in turns of the policy's subjects, which go on as long as the good tasks do: a
//! host that takes the processor away makes turns longer, and so fewer of them fit the guard.

mod policies;

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::time::Duration;

use nile_abi::{CoreId, Generation, Status};
use nile_kernel::{Core, Join};
use nile_platform::Misbehave;
use nile_policy::policies::Fair;
use nile_policy::{Expulsion, GUARD, Manager, Parameters, Refusal, Statistics};
use nile_stl::Stl;
use nile_sync::yield_now;

use crate::calls::serve;
use crate::conduct::{Findings, conduct, conducts};
use crate::policies::{expelled, publish};
use crate::restart::wait_for;
use crate::talk::Talk;
use crate::tickless::last_worker;
use policies::{Hostile, How};

const RUN: u32 = 22;

/// What the registry has of one that ends its core.
mod panicker {
    use alloc::string::String;

    use nile_services::fair;
    use nile_stl::{Start, Stl, service};

    pub struct Panicker;

    impl Start for Panicker {
        fn start(_: &Stl) -> Panicker {
            Panicker
        }
    }

    /// A policy that panics.
    #[service(
        type = fair::TYPE,
        keywords(panics = 9),
        attributes(global_priority = 90),
        policy = nile_policy::policies::Fair,
    )]
    impl Panicker {
        /// How it decides.
        #[stl_k(reply = "text", allow(package, operator, peer))]
        fn explain(&self) -> String {
            "it panics".into()
        }
    }
}

/// Asks whether the policy is expelled, in place of running beside it.
const IS_BARRED: u64 = 1 << 8;

/// Turns of each good task, and of each that is bound to the policy at least, and how long one
/// takes at least.
const TURNS: u64 = 200;
const FEW_TURNS: u64 = 40;
const TURN: Duration = Duration::from_micros(20);

/// As many turns as twice the guard has at most: for so many of others no good task waits.
const MOST_WAIT: u64 = 2 * GUARD.as_micros() as u64 / TURN.as_micros() as u64;

/// Those that answer, with what each is expelled for.
const ALL: [(How, Option<Expulsion>); 12] = [
    (How::Silent, Some(Expulsion::Silent)),
    (How::Liar, Some(Expulsion::Wrong)),
    (How::Twin, Some(Expulsion::Wrong)),
    (How::Forgetful, Some(Expulsion::Silent)),
    (How::Thief, Some(Expulsion::Wrong)),
    (How::Hoarder, None),
    (How::Flapper, None),
    (How::Glutton, None),
    (How::Eternal, None),
    (How::Zero, None),
    (How::Panicker, Some(Expulsion::Fatal)),
    (How::Looper, Some(Expulsion::Fatal)),
];

/// The subjects, and whether each is bound to the good policy; as many are.
const ALL_TASKS: [(&str, bool); 4] =
    [("red", true), ("green", true), ("blue", false), ("pink", false)];
const GOOD: usize = 2;

/// What went wrong, as the worker tells it.
const LOST: u64 = 1;
const WAITED: u64 = 2;
const NOT_EXPELLED: u64 = 4;
const BOUND: u64 = 8;
const FAILED: u64 = 16;

/// Above that, for how many turns 99% of a good task's turns have waited at most.
const WAIT_SHIFT: u32 = 8;

/// Starts this core's part.
pub fn start<M: Misbehave>(core: &Core<M>) {
    serve(core);
    let worker = core.clone();
    core.spawn(async move {
        let Ok(talk) = Talk::answer(&worker, RUN).await else { return };
        while let Ok(number) = talk.listen().await {
            let told = match ALL.get((number % IS_BARRED) as usize) {
                Some((how, why)) if number < IS_BARRED => beside(&worker, *how, *why).await,
                Some((how, _)) => is_barred(&worker.stl(), *how),
                None => Err(Status::Invalid),
            };
            if talk.tell(told.unwrap_or(FAILED)).await.is_err() {
                break;
            }
        }
    });
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "hostile", move |findings| async move {
            let Some(worker) = last_worker(&core) else {
                return findings.check(false, format_args!("the node has no worker core"));
            };
            findings.expect(judge(&core, worker, &findings).await, "no answer");
        });
    }
}

async fn judge<M: Misbehave>(
    core: &Core<M>,
    worker: CoreId,
    findings: &Findings,
) -> Result<(), Status> {
    let published = publish(core, &panicker::REGISTRATION).await;
    published.map_err(|error| error.status)?;
    let mut talk = Talk::start(core, worker, RUN).await?;
    let (mut generation, mut longest) = (Generation::FIRST, 0);
    for (number, (how, why)) in (0..).zip(ALL) {
        if why != Some(Expulsion::Fatal) {
            let told = talk.ask(number).await?;
            let (waited, wrong) = (told >> WAIT_SHIFT, told & ((1 << WAIT_SHIFT) - 1));
            longest = longest.max(waited);
            let waits = format_args!("waited for {waited} turns");
            findings.check(wrong == 0, format_args!("{how:?}: {wrong:#x}, {waits}"));
            continue;
        }
        let lost = talk.ask(number).await;
        findings.check(lost == Err(Status::Dead), format_args!("{how:?} answers {lost:?}"));
        generation = generation.next();
        wait_for(core, worker, generation).await;
        talk = Talk::start(core, worker, RUN).await?;
        let told = talk.ask(number | IS_BARRED).await?;
        findings.check(told == 0, format_args!("{how:?} is bound again: {told:#x}"));
        if how == How::Panicker {
            let entry = expelled(&core.stl(), name_of(how)).await.map_err(|error| error.status)?;
            let says = entry.contains(&format!("{worker}: it panicked or did not return"));
            findings.check(says, format_args!("its entry says: {entry}"));
        }
    }
    findings.figure("longest_wait_turns", longest);
    Ok(())
}

fn manager(stl: &Stl) -> Result<Rc<dyn Manager>, Status> {
    stl.node().map(|node| node.policies()).map_err(|error| error.status)
}

fn name_of(how: How) -> &'static str {
    match how {
        How::Silent => "silent",
        How::Liar => "liar",
        How::Twin => "twin",
        How::Forgetful => "forgetful",
        How::Thief => "thief",
        How::Hoarder => "hoarder",
        How::Flapper => "flapper",
        How::Glutton => "glutton",
        How::Eternal => "eternal",
        How::Zero => "zero",
        How::Panicker => "panicker",
        How::Looper => "looper",
    }
}

/// What a core has of a policy.
fn state_of(manager: &dyn Manager, how: How) -> Option<Statistics> {
    manager.policies().into_iter().find(|it| it.name == name_of(how))
}

/// Whether nobody is bound to the policy that has ended the last incarnation.
fn is_barred(stl: &Stl, how: How) -> Result<u64, Status> {
    let manager = manager(stl)?;
    stl.host().subject("blue");
    let expelled = state_of(&*manager, how).and_then(|it| it.why());
    let bound = manager.bind("blue", name_of(how), &Parameters::none());
    let is_barred = expelled == Some(Expulsion::Fatal) && bound == Err(Refusal::Expelled);
    Ok(if is_barred { 0 } else { NOT_EXPELLED })
}

/// Runs two subjects of the policy beside two of a good one; what went wrong.
async fn beside<M: Misbehave>(
    core: &Core<M>,
    how: How,
    why: Option<Expulsion>,
) -> Result<u64, Status> {
    let stl = core.stl();
    let manager = manager(&stl)?;
    let has_bound = Rc::new(Cell::new(false));
    let hostile = Hostile {
        how,
        loops: M::loop_for_ever,
        manager: manager.clone(),
        has_bound: has_bound.clone(),
        given: Vec::new(),
        kept: None,
        pieces: Vec::new(),
        count: 0,
    };
    manager.install("fair", Fair::PRIORITY, Box::<Fair>::default());
    manager.install(name_of(how), 90, Box::new(hostile));
    let board = Rc::new(Progress::default());
    let mut tasks = Vec::new();
    for (name, is_good) in ALL_TASKS {
        stl.host().subject(name);
        let policy = if is_good { "fair" } else { name_of(how) };
        let bound = manager.bind(name, policy, &Parameters::none());
        bound.map_err(|_| Status::Denied)?;
        // What a thief takes is bound elsewhere while it is ready.
        let moves = (how == How::Thief && name == "blue").then(|| manager.clone());
        tasks.push(task(core, &stl, (name, is_good), &board, moves));
    }
    let (mut are_few, mut waits) = (false, Vec::new());
    for ((_, is_good), task) in ALL_TASKS.into_iter().zip(tasks) {
        let waited = task.await;
        are_few |= (waited.len() as u64) < if is_good { TURNS } else { FEW_TURNS };
        if is_good {
            waits.extend(waited);
        }
    }
    waits.sort_unstable();
    let is_lost = are_few || core_has_ready(&*manager);
    let waited = waits.get(waits.len() * 99 / 100).copied().unwrap_or(u64::MAX >> WAIT_SHIFT);
    let has_waited = waited > MOST_WAIT;
    let state = state_of(&*manager, how);
    let refused = if why.is_some() { 3 } else { 0 };
    let is_told = state.is_some_and(|it| (it.why(), it.refused) == (why, refused));
    for (name, _) in ALL_TASKS {
        manager.unbind(name);
    }
    let wrong =
        [(is_lost, LOST), (has_waited, WAITED), (!is_told, NOT_EXPELLED), (has_bound.get(), BOUND)];
    let wrong: u64 = wrong.into_iter().filter(|(is_so, _)| *is_so).map(|(_, bit)| bit).sum();
    Ok(waited << WAIT_SHIFT | wrong)
}

fn core_has_ready(manager: &dyn Manager) -> bool {
    manager.policies().iter().any(|it| it.name != "default" && it.ready > 0)
}

/// What the tasks have come to.
#[derive(Default)]
struct Progress {
    /// Turns of the policy's subjects.
    others: Cell<u64>,
    /// Good tasks that have had all their turns.
    good: Cell<usize>,
}

/// A task of a subject, with how many turns of the policy's subjects it has waited for each of its
/// own. One of the policy's goes on until the good ones have ended.
fn task<M: Misbehave>(
    core: &Core<M>,
    stl: &Stl,
    (name, is_good): (&str, bool),
    board: &Rc<Progress>,
    moves: Option<Rc<dyn Manager>>,
) -> Join<Vec<u64>> {
    let host = stl.host();
    let before = host.act_as(host.subject(name));
    let (own, board) = (core.clone(), board.clone());
    let task = core.spawn(async move {
        let mut waited = Vec::new();
        let mut since = board.others.get();
        loop {
            waited.push(board.others.get() - since);
            own.machine().compute(TURN);
            let turns = waited.len() as u64;
            if let Some(manager) = moves.as_ref().filter(|_| turns == FEW_TURNS / 2) {
                manager.unbind("pink");
            }
            let is_over = match is_good {
                true => turns == TURNS,
                false => {
                    board.others.set(board.others.get() + 1);
                    turns >= FEW_TURNS && board.good.get() == GOOD
                }
            };
            if is_over {
                board.good.set(board.good.get() + usize::from(is_good));
                return waited;
            }
            since = board.others.get();
            yield_now().await;
        }
    });
    host.act_as(before);
    task
}
