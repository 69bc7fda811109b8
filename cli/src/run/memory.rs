//! What the processes of a cluster's nodes take of this machine's memory while a job runs: the sum
//! of their proportional set sizes, in which a page that several processes share counts once.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::cluster::process;

/// The shortest time between two looks, and how many times as long as a look it is at least: a look
/// goes through the page tables, while the processes work.
const EVERY: Duration = Duration::from_millis(50);
const PART: u32 = 60;

/// How often new processes are looked for.
const REFRESH: Duration = Duration::from_secs(1);

/// Looks at the processes until it is asked.
pub struct Watch {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Peak>,
}

/// The most that was seen at once.
#[derive(Clone, Debug, Default)]
pub struct Peak {
    /// Bytes of all nodes together.
    pub bytes: u64,
    /// Bytes of each node, each at its own time.
    pub nodes: BTreeMap<String, u64>,
}

impl Watch {
    /// Looks at the cluster in `folder`, and goes on beside the caller.
    pub fn begin(folder: &Path) -> Watch {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        let mut looks = Looks { folder: folder.to_path_buf(), ..Looks::default() };
        let took = looks.look();
        Watch { over, thread: thread::spawn(move || looks.go_on(took, &is_over)) }
    }

    /// What was seen since.
    pub fn end(self) -> Peak {
        self.over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

#[derive(Default)]
struct Looks {
    folder: PathBuf,
    /// The processes of nodes, with their node, and since when they are known.
    processes: Vec<(String, i32)>,
    refreshed: Option<Instant>,
    peak: Peak,
}

impl Looks {
    /// Looks once; how long that took.
    fn look(&mut self) -> Duration {
        let begun = Instant::now();
        if self.refreshed.is_none_or(|then| begun - then >= REFRESH) {
            let all = process::all(&self.folder).into_iter();
            let nodes = all.filter(|it| it.part != process::SWITCH);
            self.processes = nodes.map(|it| (it.part, it.pid)).collect();
            self.refreshed = Some(begun);
        }
        let now = of_nodes(&self.processes);
        if self.peak.is_below(&now) {
            self.peak.raise(now, of_nodes(&self.processes));
        }
        begun.elapsed()
    }

    fn go_on(mut self, mut took: Duration, over: &AtomicBool) -> Peak {
        loop {
            thread::park_timeout(EVERY.max(took * PART));
            took = self.look();
            if over.load(Ordering::Relaxed) {
                return self.peak;
            }
        }
    }
}

/// Bytes of each node. Processes are looked at one after the other, so that pages which one of them
/// gets or loses meanwhile count too much or too little.
fn of_nodes(processes: &[(String, i32)]) -> BTreeMap<String, u64> {
    let mut nodes = BTreeMap::new();
    for (node, pid) in processes {
        *nodes.entry(node.clone()).or_default() += of_process(*pid).unwrap_or(0);
    }
    nodes
}

impl Peak {
    /// Whether so much was not seen before.
    fn is_below(&self, now: &BTreeMap<String, u64>) -> bool {
        let more =
            |(node, bytes): (&String, &u64)| self.nodes.get(node).is_none_or(|it| it < bytes);
        self.bytes < now.values().sum() || now.iter().any(more)
    }

    /// Counts what two looks, one right after the other, have both seen.
    fn raise(&mut self, one: BTreeMap<String, u64>, other: BTreeMap<String, u64>) {
        self.bytes = self.bytes.max(one.values().sum::<u64>().min(other.values().sum()));
        for (node, bytes) in one {
            let seen = other.get(&node).map_or(0, |it| bytes.min(*it));
            let most = self.nodes.entry(node).or_default();
            *most = seen.max(*most);
        }
    }
}

/// Bytes of a process's proportional set; `None` if it has ended, or is not ours.
fn of_process(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_what_it_has_touched() {
        let own = std::process::id() as i32;
        let before = of_process(own).unwrap();
        let memory = vec![1_u8; 64 << 20];
        let after = of_process(own).unwrap();
        assert!(after > before + (48 << 20), "{before} {after}");
        drop(memory);
        assert_eq!(of_process(i32::MAX), None);
    }

    #[test]
    fn what_only_one_of_two_looks_saw_does_not_count() {
        let seen = |nodes: [u64; 2]| -> BTreeMap<String, u64> {
            [("n1", nodes[0]), ("n2", nodes[1])].map(|(node, it)| (node.into(), it)).into()
        };
        let mut peak = Peak::default();
        assert!(peak.is_below(&seen([1, 0])));
        peak.raise(seen([5, 7]), seen([9, 6]));
        assert_eq!((peak.bytes, &peak.nodes), (12, &seen([5, 6])));
        assert!(!peak.is_below(&seen([5, 6])) && peak.is_below(&seen([6, 0])));
        peak.raise(seen([6, 0]), BTreeMap::new());
        assert_eq!((peak.bytes, &peak.nodes), (12, &seen([5, 6])));
    }

    #[test]
    fn a_cluster_without_processes_takes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let peak = Watch::begin(folder.path()).end();
        assert_eq!((peak.bytes, peak.nodes.len()), (0, 0));
    }
}
