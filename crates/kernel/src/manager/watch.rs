//! Cores whose packages compute. In a turn a package has its core for itself, so what comes for the
//! core meanwhile waits, and its timers too: a package that makes no call would keep its core from
//! every word, and could not be stopped. So while there are packages, the management core looks
//! from time to time, and signals each core that has been in one turn since it looked last. That
//! ends the turn, and the package goes on with the next one. A package that makes calls is never
//! signalled, nor is a core that has none, and no core has a tick for this.

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
    /// Of each core in a turn: how many system calls its packages had made.
    turns: Vec<Option<u64>>,
}

impl Watch {
    /// There may be a package.
    pub fn want(&mut self) {
        self.is_wanted = true;
    }

    /// Looks at all cores: those that are in the turn that they were in before, and whether any
    /// has a package.
    fn look(&mut self, board: &Board) -> (Vec<CoreId>, bool) {
        self.turns.resize(board.cores(), None);
        let (mut long, mut is_any) = (Vec::new(), false);
        for (core, seen) in board.core_ids().zip(&mut self.turns) {
            let record = board.record(core);
            let hosting = record.hosting();
            is_any |= hosting != Hosting::Nothing;
            let now = (hosting == Hosting::Turn).then(|| record.system_calls());
            if now.is_some() && now == *seen {
                long.push(core);
            }
            *seen = now;
        }
        (long, is_any)
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

    /// Ends the turns that take long. Whether there are packages still.
    fn end_long_turns(&mut self, machine: &M) -> bool {
        self.watch.is_wanted = false;
        let (long, is_any) = self.watch.look(machine.board());
        // This core, were it one of them, could not look.
        long.into_iter().filter(|core| *core != self.own).for_each(|core| machine.signal(core));
        self.watch.is_on = is_any || self.watch.is_wanted;
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
