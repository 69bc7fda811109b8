//! Which CPUs what is started may use.

use std::fs;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::process::{self, Process};

/// The CPUs that this thread may use, in rising order; none where Linux does not say.
pub fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Starts something that may use these CPUs alone, or all if none is named. This thread has its own
/// back afterwards.
pub fn on<T>(cpus: &[usize], start: impl FnOnce() -> T) -> T {
    let before = sched_getaffinity(None);
    if !cpus.is_empty() {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        // Where Linux refuses, it runs anywhere.
        let _ = sched_setaffinity(None, &set);
    }
    let started = start();
    if let Ok(before) = before {
        let _ = sched_setaffinity(None, &before);
    }
    started
}

/// Moves the processes of a hosted node, which run: its worker cores each to the CPU whose turn it
/// is, as the node places those that begin (`nile_platform_hosted`), and all else to any of these.
/// Without CPUs all stays where it is.
pub fn move_to(cpus: &[usize], processes: &[Process]) {
    let run_on = |pid: i32, cpus: &[usize]| {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|cpu| set.set(*cpu));
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let threads =
            threads.filter_map(|it| Pid::from_raw(it.file_name().to_str()?.parse().ok()?));
        for thread in threads {
            // One that has just ended does not mind.
            let _ = sched_setaffinity(Some(thread), &set);
        }
    };
    if cpus.is_empty() {
        return;
    }
    let workers = process::workers(processes);
    for Process { pid, .. } in processes {
        let core = workers.iter().find(|(_, worker)| *worker == pid);
        match core.map(|(core, _)| usize::from(*core) % cpus.len()) {
            Some(turn) => run_on(*pid, &cpus[turn..=turn]),
            None => run_on(*pid, cpus),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_started_has_the_cpus_and_this_thread_its_own() {
        let all = allowed();
        let first = &all[..1];
        let inherited = || std::thread::spawn(allowed).join().unwrap();
        assert_eq!(on(first, inherited), first);
        assert_eq!(on(&[], inherited), all);
        assert_eq!(allowed(), all);
    }
}
