//! Cores whose packages compute. In a turn a package has its core for itself, so what comes for the
//! core meanwhile waits, and its timers too: a package that makes no call would keep its core from
//! every word, and could not be stopped. So while there are packages, the management core looks
//! from time to time, and signals each core that has been in one turn since it looked last, if
//! somebody has rung its bell meanwhile. That ends the turn, and the package goes on with the next
//! one. A package that makes calls is never signalled, nor is a core for which nothing waits, and
//! no core has a tick for this.
//!
//! A turn that no signal ends is none of a sound core's: its incarnation is ended by force, which
//! needs nothing of it.
//!
//! The same look finds policies that do not return, as long as anybody is bound to one: the core
//! makes no pass while its record names one and the same. Such a core's incarnation is ended.

use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Window};
use nile_platform::{Board, Hosting, Machine};

use super::Manager;
use crate::core::Core;

/// How often it is looked: a core that computes hears of nothing for twice as long at most.
const LOOK: Duration = Duration::from_millis(100);

/// What was seen of the cores.
#[derive(Default)]
pub(super) struct Watch {
    is_wanted: bool,
    is_on: bool,
    /// Of each core in a turn: how many system calls its packages had made, its passes, and for how
    /// many looks both were the same while something waited.
    turns: Vec<Option<((u64, u64), u32)>>,
    /// Of each core that was in a policy: in which, its passes, and for how many looks.
    deciding: Vec<((u64, u64), u32)>,
}

/// Looks at which a policy that has not returned meanwhile is held to be endless.
const MOST_LOOKS: u32 = 3;

/// The same for a turn, which a signal ends within a look unless the host is very busy.
const MOST_LOOKS_IN_TURN: u32 = 80;

impl Watch {
    /// There may be a package.
    pub fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Looks at all cores: those that are in the turn that they were in before and miss something,
    /// those in which that was so for very long, and whether any has a package.
    fn look(&mut self, board: &Board) -> (Vec<CoreId>, Vec<CoreId>, bool) {
        self.turns.resize(board.cores(), None);
        let (mut long, mut endless, mut is_any) = (Vec::new(), Vec::new(), false);
        for (core, seen) in board.core_ids().zip(&mut self.turns) {
            let record = board.record(core);
            let hosting = record.hosting();
            is_any |= hosting != Hosting::Nothing;
            let now = (hosting == Hosting::Turn).then(|| (record.system_calls(), record.turns()));
            let misses = || board.notifier().doorbells().is_missed(core);
            let is_long = now.zip(*seen).is_some_and(|(now, (then, _))| now.0 == then.0);
            let is_long = is_long && misses();
            let looks = match (now, *seen) {
                (Some(now), Some((then, looks))) if now == then => looks + u32::from(is_long),
                _ => 0,
            };
            if is_long {
                long.push(core);
            }
            if looks == MOST_LOOKS_IN_TURN {
                endless.push(core);
            }
            *seen = now.map(|now| (now, looks));
        }
        (long, endless, is_any)
    }

    /// The cores whose policies do not return, and whether any core asks policies.
    fn look_for_endless(&mut self, board: &Board) -> (Vec<CoreId>, bool) {
        self.deciding.resize(board.cores(), ((0, 0), 0));
        let (mut endless, mut is_any) = (Vec::new(), false);
        for (core, (seen, looks)) in board.core_ids().zip(&mut self.deciding) {
            let record = board.record(core);
            is_any |= record.is_bound();
            let now = (record.policy(), record.turns());
            *looks = if now.0 != 0 && now == *seen { *looks + 1 } else { 0 };
            *seen = now;
            if *looks == MOST_LOOKS {
                endless.push(core);
            }
        }
        (endless, is_any)
    }
}

impl<M: Machine> Manager<M> {
    /// Whether [`watch`] is to begin; told once.
    pub fn begins_to_watch(&mut self) -> bool {
        let watch = &mut self.watch;
        let begins = watch.is_wanted && !watch.is_on;
        watch.is_on |= begins;
        begins
    }

    /// Ends the turns that take long, and policies that do not return. Whether there are packages
    /// still, or policies.
    fn end_long_turns(&mut self, machine: &M) -> bool {
        self.watch.is_wanted = false;
        let board = machine.board();
        let (long, stuck, is_any) = self.watch.look(board);
        let (endless, is_bound) = self.watch.look_for_endless(board);
        let endless = endless.into_iter().map(|core| (core, "policy"));
        let stuck = stuck.into_iter().filter(|core| *core != self.own);
        for (core, what) in endless.chain(stuck.map(|core| (core, "package's turn"))) {
            let generation = board.record(core).generation();
            machine.log(format_args!("a {what} of {core} does not return"));
            board.record(self.own).set_endless(core, generation);
            machine.signal(core);
        }
        // This core, were it one of them, could not look.
        long.into_iter().filter(|core| *core != self.own).for_each(|core| machine.signal(core));
        self.watch.is_on = is_any || is_bound || self.watch.is_wanted;
        self.watch.is_on
    }
}

/// Watches the cores of the node until there is no package any more.
pub(crate) async fn watch<M: Machine>(core: Core<M>) {
    let mut due = core.now();
    loop {
        due = (due + LOOK).max(core.now());
        core.sleep_in(Window::within(due, LOOK / 10)).await;
        let Some(manager) = &core.manager else { return };
        if !manager.borrow_mut().end_long_turns(&core.machine) {
            return;
        }
    }
}
