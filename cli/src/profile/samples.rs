//! Collects samples of what the cores of hosted nodes do, while jobs run: what has come is taken
//! twenty times a second, and equal stacks are counted together.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nile_abi::{CoreId, NodeId};
use nile_platform_hosted::samples::{Frame, Mode, Reader};

use crate::cluster::node;
use crate::failure::Failure;

/// A ring holds all that can come in twenty times as long.
const EVERY: Duration = Duration::from_millis(50);

/// A stack that a core was found with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Stack {
    pub node: NodeId,
    pub core: CoreId,
    pub mode: Mode,
    /// Innermost first.
    pub frames: Vec<Frame>,
}

/// What was collected.
#[derive(Clone, Default, Debug)]
pub struct Collected {
    /// For each stack how many periods of the timer it stands for.
    pub stacks: HashMap<Stack, u64>,
    /// Samples that were taken.
    pub samples: u64,
    /// Samples that were written over before they were read.
    pub lost: u64,
    /// How long it was collected.
    pub took: Duration,
}

/// Collects until it is dropped.
pub struct Collector {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Collected>>,
}

impl Collector {
    /// Begins to collect what the cores of `nodes`, whose cluster is in `folder`, do from now on.
    pub fn begin(folder: &Path, nodes: &[NodeId]) -> Result<Collector, Failure> {
        let open = |node: &NodeId| {
            let path = node::samples(folder, *node);
            let cannot = |error| Failure::failed(format!("{}: {error}", path.display()));
            Ok((*node, Reader::open(&path).map_err(cannot)?))
        };
        let readers = nodes.iter().map(open).collect::<Result<Vec<_>, Failure>>()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let told = is_over.clone();
        let thread = thread::spawn(move || collect(readers, &told));
        Ok(Collector { is_over, thread: Some(thread) })
    }

    /// What was collected; nothing if it was asked before.
    pub fn end(&mut self) -> Collected {
        self.is_over.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Collected::default() };
        thread.thread().unpark();
        thread.join().unwrap_or_default()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.end();
    }
}

fn collect(mut readers: Vec<(NodeId, Reader)>, is_over: &AtomicBool) -> Collected {
    let (begun, mut all) = (Instant::now(), Collected::default());
    loop {
        // What is there when the end is told counts.
        let is_last = is_over.load(Ordering::Relaxed);
        for (node, reader) in &mut readers {
            let lost = reader.read(|core, sample| {
                let stack = Stack { node: *node, core, mode: sample.mode, frames: sample.frames };
                let periods = all.stacks.entry(stack).or_default();
                *periods = periods.saturating_add(sample.periods);
                all.samples += 1;
            });
            all.lost = all.lost.saturating_add(lost);
        }
        if is_last {
            all.took = begun.elapsed();
            return all;
        }
        thread::park_timeout(EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_samples_is_told_by_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let begun = Collector::begin(folder.path(), &[NodeId(3)]);
        let Err(Failure::Failed(message)) = begun else { panic!("there is no such file") };
        assert!(message.contains("n3.samples"), "{message}");
        let mut none = Collector::begin(folder.path(), &[]).unwrap();
        assert_eq!(none.end().samples, 0);
        assert_eq!(none.end().took, Duration::ZERO);
    }
}
