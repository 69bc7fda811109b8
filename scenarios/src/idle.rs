//! A node with nothing to do sleeps: its workers run no task, and its management core is woken by
//! its own timers alone. Nodes of a cluster that have nothing to do gossip; most of what they do by
//! themselves can wait until something else wakes them.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::CoreId;
use nile_kernel::Core;
use nile_platform::{Cause, Machine};

use crate::arguments::Arguments;
use crate::cluster::start_with;
use crate::conduct::{conduct, conducts};
use crate::tickless::last_worker;

/// Starts this core's part: only the conductor has one.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let span = Duration::from_millis(arguments.number("ms", 300));
    if !conducts(core) {
        return;
    }
    let core = core.clone();
    conduct(&core.clone(), "idle", move |findings| async move {
        let record = |id: CoreId| core.machine().board().record(id);
        // The last of the start is over for every core after a little while.
        core.sleep(span / 10).await;
        let worker = last_worker(&core);
        let polls = worker.map(|id| record(id).polls());
        let ticks = record(core.id()).interrupts(Cause::Tick);
        let sleeps = || (record(core.id()).sleeps(), record(core.id()).wakes());
        let (slept, woken) = sleeps();
        let before = core.now();
        core.sleep(span).await;
        let idled = core.now().since(before);
        findings.check(idled >= span, format_args!("idled for {idled:?} of {span:?}"));
        let worked = worker.map(|id| record(id).polls()) != polls;
        findings.check(!worked, format_args!("a worker ran a task"));
        // One that polls without end does not sleep.
        let (sleeps, wakes) = (sleeps().0 - slept, sleeps().1 - woken);
        let ended = sleeps == 0 || wakes > 0;
        findings.check(ended, format_args!("no interrupt ended {sleeps} sleeps"));
        findings.figure("ticks", record(core.id()).interrupts(Cause::Tick) - ticks);
    });
}

/// Starts this core's part of the scenario of several nodes: n1 counts what wakes its cores once it
/// knows all.
pub fn start_nodes<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let (nodes, own) = (arguments.number("nodes", 3), core.clone());
    let span = Duration::from_millis(arguments.number("ms", 10_000));
    start_with(core, nodes, "idle-nodes", move |findings| async move {
        let board = own.machine().board();
        let timers = || board.core_ids().map(|id| board.record(id).interrupts(Cause::Timer));
        let before: Vec<u64> = timers().collect();
        own.sleep(span).await;
        let counts: Vec<u64> = timers().zip(before).map(|(now, before)| now - before).collect();
        for (core, count) in counts.iter().enumerate() {
            findings.figure(format!("timer_interrupts_c{core}"), *count);
        }
        findings.figure("timer_interrupts", counts.iter().sum());
    });
}
