//! Collects samples of what cores do, while jobs run: what has come is taken twenty times a second
//! from hosted nodes and twice from others, and equal stacks are counted together.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nile_abi::{CoreId, NodeId};
use nile_platform_hosted::samples::{Frame, Mode, Reader};

use super::remote::Cores;
use crate::cluster::args::Which;
use crate::cluster::node;
use crate::failure::Failure;

/// A ring holds all that can come in twenty times as long.
const EVERY: Duration = Duration::from_millis(50);

/// Cores that are asked by messages are asked after so many such times: twice as often as must be.
const SELDOM: u32 = 10;

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
    thread: Option<JoinHandle<Result<Collected, Failure>>>,
}

/// Nodes that are asked for samples by messages.
pub struct Asked {
    /// Their cluster.
    pub which: Which,
    /// The nodes.
    pub nodes: Vec<NodeId>,
    /// How often their cores are to be sampled.
    pub hertz: u32,
    /// Whether nobody is there any more to be told of the end.
    pub ends_with_cluster: bool,
}

impl Collector {
    /// Begins to collect what the cores of `nodes`, whose cluster is in `folder`, do from now on,
    /// and those of the nodes that are `asked`.
    pub fn begin(
        folder: &Path,
        nodes: &[NodeId],
        asked: Option<Asked>,
    ) -> Result<Collector, Failure> {
        let open = |node: &NodeId| {
            let path = node::samples(folder, *node);
            let cannot = |error| Failure::failed(format!("{}: {error}", path.display()));
            Ok((*node, Reader::open(&path).map_err(cannot)?))
        };
        let readers = nodes.iter().map(open).collect::<Result<Vec<_>, Failure>>()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let told = is_over.clone();
        let (begun, has_begun) = mpsc::channel();
        let thread = thread::spawn(move || {
            let cores = asked.as_ref().map(|it| Cores::begin(&it.which, &it.nodes, it.hertz));
            let cores = cores.transpose()?;
            // Whoever waits for that may be gone.
            let _ = begun.send(());
            let is_told = asked.is_some_and(|it| !it.ends_with_cluster);
            collect(readers, cores.map(|cores| (cores, is_told)), &told)
        });
        let mut collector = Collector { is_over, thread: Some(thread) };
        match has_begun.recv() {
            Ok(()) => Ok(collector),
            Err(_) => Err(collector.end().err().unwrap_or_else(crashed)),
        }
    }

    /// What was collected; nothing if it was asked before.
    pub fn end(&mut self) -> Result<Collected, Failure> {
        self.is_over.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(Collected::default()) };
        thread.thread().unpark();
        thread.join().unwrap_or_else(|_| Err(crashed()))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn crashed() -> Failure {
    Failure::failed("what collects samples has crashed")
}

/// Collects until it is over. The cores that are asked, and whether they are told of that.
fn collect(
    mut readers: Vec<(NodeId, Reader)>,
    mut asked: Option<(Cores, bool)>,
    is_over: &AtomicBool,
) -> Result<Collected, Failure> {
    let (begun, mut all) = (Instant::now(), Collected::default());
    for round in 0u32.. {
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
        let took = begun.elapsed();
        if let Some((cores, is_told)) = &mut asked {
            if is_last && *is_told {
                cores.end()?;
            }
            if is_last || round.is_multiple_of(SELDOM) {
                cores.take_all(&mut all)?;
            }
        }
        if is_last {
            all.took = took;
            break;
        }
        thread::park_timeout(EVERY);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_samples_is_told_by_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let begun = Collector::begin(folder.path(), &[NodeId(3)], None);
        let Err(Failure::Failed(message)) = begun else { panic!("there is no such file") };
        assert!(message.contains("n3.samples"), "{message}");
        let mut none = Collector::begin(folder.path(), &[], None).unwrap();
        assert_eq!(none.end().unwrap().samples, 0);
        assert_eq!(none.end().unwrap().took, Duration::ZERO);
    }
}
