//! What befalls a cluster, drawn from the seed.

use std::time::Duration;

use nile_abi::{Instant, NodeId};
use nile_job::Phase;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use crate::draw::{below, span};

/// How attempts fare.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// Attempts in a thousand that fail by themselves.
    pub flaky: u64,
    /// A map task that always fails.
    pub bad_task: Option<u32>,
    /// It fails because it loops, which takes as long as a task may do nothing.
    pub loops: bool,
}

/// One thing that befalls the cluster.
#[derive(Clone, Copy, Debug)]
pub enum Blow {
    /// A node dies, and comes back after this, if at all; perhaps without its disk.
    KillNode(NodeId, Option<Duration>, bool),
    /// The master's node dies and comes back.
    KillMaster(Duration),
    /// The power fails: all nodes that have the job's record die, and come back one by one.
    PowerCut(Duration),
    /// A worker core of a node restarts.
    KillCore(NodeId, u64),
    /// The nodes are parted into two sides for this long.
    Partition(u64, Duration),
    /// A keeper of the record holds the master for dead, and it is not.
    Suspect(u64),
    /// The user cancels the job.
    Cancel,
}

/// When it happens.
#[derive(Clone, Copy, Debug)]
pub enum When {
    At(Instant),
    /// When a master reports this phase for the first time, and this much later.
    In(Phase, Duration),
}

impl Code {
    pub fn draw(random: &mut ChaCha8Rng, splits: u64) -> Code {
        match below(random, 12) {
            0 if splits > 0 => {
                let bad_task = Some(below(random, splits) as u32);
                Code { flaky: 0, bad_task, loops: below(random, 2) == 0 }
            }
            1 | 2 => Code { flaky: 100, bad_task: None, loops: false },
            _ => Code { flaky: 0, bad_task: None, loops: false },
        }
    }
}

/// Draws everything that befalls `nodes` nodes.
pub fn draw(random: &mut ChaCha8Rng, nodes: u32) -> Vec<(When, Blow)> {
    let count = below(random, 6);
    (0..count).map(|_| (when(random), blow(random, nodes))).collect()
}

fn when(random: &mut ChaCha8Rng) -> When {
    let phases = [
        Phase::Inheriting,
        Phase::Sampling,
        Phase::Mapping,
        Phase::Mapping,
        Phase::Reducing,
        Phase::Reducing,
        Phase::Ending,
    ];
    match below(random, 3) {
        0 => When::At(Instant::START + span(random, Duration::from_secs(3))),
        _ => {
            let phase = phases[below(random, phases.len() as u64) as usize];
            When::In(phase, span(random, Duration::from_millis(40)))
        }
    }
}

fn blow(random: &mut ChaCha8Rng, nodes: u32) -> Blow {
    let node = NodeId(1 + below(random, u64::from(nodes)) as u32);
    match below(random, 18) {
        0..4 => {
            let comes_back = below(random, 4) != 0;
            let pause = Duration::from_millis(100) + span(random, Duration::from_secs(5));
            let wiped = !comes_back && below(random, 2) == 0;
            Blow::KillNode(node, comes_back.then_some(pause), wiped)
        }
        4..7 => Blow::KillMaster(span(random, Duration::from_secs(5))),
        7..10 => Blow::KillCore(node, random.next_u64()),
        10..13 => Blow::Partition(random.next_u64(), span(random, Duration::from_secs(4))),
        13 | 14 => Blow::Suspect(random.next_u64()),
        15 | 16 => Blow::PowerCut(span(random, Duration::from_secs(4))),
        _ => Blow::Cancel,
    }
}
