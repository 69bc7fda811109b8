//! Which CPUs what is started may use.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

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
