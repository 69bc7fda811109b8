//! Which CPU runs which core: each core is pinned to one, in turn over those that the node may
//! use, so that two cores that talk are not moved about under a measurement. A core that would
//! share its CPU with a worker core is not: its work goes to whichever CPU has time for it, or one
//! worker would always be behind the others. A core that becomes a worker goes where the fewest
//! are.

use std::num::NonZero;

use nile_abi::CoreId;
use nile_platform::Board;
use rustix::process::{Pid, getpid};
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

use crate::machine::is_isolated;

/// The CPUs that the calling thread may use, in rising order; none where Linux does not say.
pub(crate) fn allowed() -> Vec<usize> {
    of_thread(None)
}

/// Those that the process may use: its main thread, which is no core, is not pinned.
pub(crate) fn of_process() -> Vec<usize> {
    of_thread(Some(getpid()))
}

fn of_thread(thread: Option<Pid>) -> Vec<usize> {
    let Ok(set) = sched_getaffinity(thread) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Lets the calling thread run on each CPU of the process. It began on that of the core that has
/// started it.
pub(crate) fn unpin() {
    run_on(&of_process());
}

fn run_on(cpus: &[usize]) {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    let _ = sched_setaffinity(Some(gettid()), &set);
}

/// The one of `cpus` whose turn it is for `core`, if there is any.
fn turn(core: CoreId, cpus: &[usize]) -> Option<usize> {
    cpus.get(core.index().checked_rem(cpus.len())?).copied()
}

fn is_worker(core: CoreId, board: &Board) -> bool {
    is_isolated(board.record(core).roles())
}

/// The one of `cpus` that `core` runs on; `None` if it runs on any.
fn cpu_of(core: CoreId, board: &Board, cpus: &[usize]) -> Option<usize> {
    let cpu = turn(core, cpus)?;
    let mut workers = board.core_ids().filter(|other| is_worker(*other, board));
    let is_shared = !is_worker(core, board) && workers.any(|other| turn(other, cpus) == Some(cpu));
    (!is_shared).then_some(cpu)
}

/// The one of `cpus` on which the fewest other workers run, and the one whose turn it is of those.
fn least_used(core: CoreId, board: &Board, cpus: &[usize]) -> Option<usize> {
    let others = board.core_ids().filter(|other| *other != core && is_worker(*other, board));
    let cpu_of = |other| {
        let process = i32::try_from(board.record(other).hardware_id()).ok();
        // Nobody is on the CPUs of a process that is gone.
        match of_thread(Some(process.and_then(Pid::from_raw)?))[..] {
            [cpu] => Some(cpu),
            _ => None,
        }
    };
    let used: Vec<usize> = others.filter_map(cpu_of).collect();
    let count = |cpu: usize| used.iter().filter(|it| **it == cpu).count();
    let turn = turn(core, cpus)?;
    cpus.iter().copied().min_by_key(|cpu| (count(*cpu), *cpu != turn))
}

/// Makes the calling thread that of `core`: on its CPU, and with timers that do not wait for
/// others (Linux would let a sleep run 50 µs over). Where Linux refuses, the core runs anywhere
/// and wakes a little later.
pub(crate) fn settle(core: CoreId, board: &Board, cpus: &[usize]) {
    let cpu = match is_worker(core, board) {
        true => least_used(core, board, cpus),
        false => cpu_of(core, board, cpus),
    };
    if let Some(cpu) = cpu {
        run_on(&[cpu]);
    }
    let _ = rustix::thread::set_current_timer_slack(NonZero::new(1));
}

/// The placement of all cores, as a line for the boot report.
pub(crate) fn describe(board: &Board, cpus: &[usize]) -> String {
    let place = |core| {
        let kind = if is_isolated(board.record(core).roles()) { "process" } else { "thread" };
        match cpu_of(core, board, cpus) {
            Some(cpu) => format!("{core} {kind} on CPU {cpu}"),
            None => format!("{core} {kind} on any CPU"),
        }
    };
    let places: Vec<String> = board.core_ids().map(place).collect();
    format!("placement: {}", places.join(", "))
}

#[cfg(test)]
mod tests {
    use nile_abi::{Role, RoleSet};
    use nile_ring::{Doorbells, Region};

    use super::*;

    #[test]
    fn cores_take_the_allowed_cpus_in_turn() {
        let on = |core| turn(CoreId(core), &[3, 5]);
        assert_eq!([on(0), on(1), on(2)], [Some(3), Some(5), Some(3)]);
        assert_eq!(turn(CoreId(7), &[]), None);
        assert!(!allowed().is_empty());
    }

    #[test]
    fn a_thread_of_a_core_begins_on_its_cpu_and_may_leave_it() {
        let cpus = of_process();
        let core = std::thread::spawn(move || {
            run_on(&cpus[..1]);
            let other = std::thread::spawn(|| {
                let first = allowed();
                unpin();
                (first, allowed())
            });
            (other.join().expect("it ends"), cpus, allowed())
        });
        let ((first, then), all, core) = core.join().expect("it ends");
        assert_eq!((&first[..], &core[..]), (&all[..1], &all[..1]));
        assert_eq!(then, all);
    }

    #[test]
    fn a_core_that_becomes_a_worker_goes_where_the_fewest_are() {
        let first = of_process()[0];
        let cpus = [first + 1, first];
        let board = Board::in_memory(5, Region::owned(Doorbells::region_len(5)));
        for core in [1, 3, 4] {
            board.record(CoreId(core)).set_roles(RoleSet::EMPTY.with(Role::Worker));
        }
        let on = || [1, 4].map(|core| least_used(CoreId(core), &board, &cpus));
        assert_eq!(on(), [Some(first), Some(first + 1)], "each in its turn");
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let third = std::thread::spawn(move || {
            run_on(&[first]);
            tell.send(gettid()).expect("somebody waits for it");
            let _ = ends.recv();
        });
        let id = told.recv().expect("it runs").as_raw_nonzero().get();
        board.record(CoreId(3)).set_hardware_id(id as u64);
        assert_eq!(on(), [Some(first + 1), Some(first + 1)], "the third is on the other one");
        drop(end);
        third.join().expect("it ends");
    }

    #[test]
    fn who_shares_a_cpu_with_a_worker_runs_on_any() {
        let board = Board::in_memory(5, Region::owned(Doorbells::region_len(5)));
        for core in [3, 4] {
            board.record(CoreId(core)).set_roles(RoleSet::EMPTY.with(Role::Worker));
        }
        let on = |core, cpus: &[usize]| cpu_of(CoreId(core), &board, cpus);
        let two = [0, 1, 2, 3, 4].map(|core| on(core, &[0, 1]));
        assert_eq!(two, [None, None, None, Some(1), Some(0)]);
        let four = [0, 1, 2, 3, 4].map(|core| on(core, &[0, 1, 2, 3]));
        assert_eq!(four, [None, Some(1), Some(2), Some(3), Some(0)]);
        assert_eq!(on(3, &[]), None);
    }
}
