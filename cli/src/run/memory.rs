//! What the processes of a cluster's nodes take of this machine's memory while a job runs: the sum
//! of their proportional set sizes, in which a page that several processes share counts once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::cluster::process;

/// The shortest time between two looks, and how many times as long as a look it is at least: a look
/// goes through the page tables, while the processes work.
const EVERY: Duration = Duration::from_millis(50);
const PART: u32 = 20;

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
    /// Begins to look at the cluster in `folder`.
    pub fn begin(folder: &Path) -> Watch {
        let over = Arc::new(AtomicBool::new(false));
        let (folder, is_over) = (folder.to_path_buf(), over.clone());
        Watch { over, thread: thread::spawn(move || look(&folder, &is_over)) }
    }

    /// What was seen since.
    pub fn end(self) -> Peak {
        self.over.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

fn look(folder: &Path, over: &AtomicBool) -> Peak {
    let mut peak = Peak::default();
    let mut processes: Vec<(String, i32)> = Vec::new();
    let mut refreshed: Option<Instant> = None;
    loop {
        let begun = Instant::now();
        if refreshed.is_none_or(|then| begun - then >= REFRESH) {
            let all = process::all(folder).into_iter();
            let nodes = all.filter(|it| it.part != process::SWITCH);
            processes = nodes.map(|it| (it.part, it.pid)).collect();
            refreshed = Some(begun);
        }
        let mut now: BTreeMap<&str, u64> = BTreeMap::new();
        for (node, pid) in &processes {
            *now.entry(node).or_default() += of_process(*pid).unwrap_or(0);
        }
        peak.bytes = peak.bytes.max(now.values().sum());
        for (node, bytes) in now {
            let most = peak.nodes.entry(node.into()).or_default();
            *most = bytes.max(*most);
        }
        if over.load(Ordering::Relaxed) {
            return peak;
        }
        thread::park_timeout(EVERY.max(begun.elapsed() * PART));
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
    fn a_cluster_without_processes_takes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let peak = Watch::begin(folder.path()).end();
        assert_eq!((peak.bytes, peak.nodes.len()), (0, 0));
    }
}
