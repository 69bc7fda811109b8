//! What befalls a cluster, drawn from the seed.

use std::time::Duration;

use nile_abi::{Instant, NodeId};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use super::node::Without;
use crate::draw::{below, span};

/// One thing that befalls the cluster.
#[derive(Clone, Copy, Debug)]
pub enum Blow {
    /// A node loses its power, and comes back after this.
    Kill(NodeId, Duration),
    /// A keeper's node loses its power and its disk.
    LoseDisk(NodeId, Duration),
    /// A keeper's node loses its power, and an old copy comes in place of its disk.
    OldDisk(NodeId, Duration),
    /// All keepers lose their power, and come back one by one, the last after this.
    PowerCut(Duration),
    /// The nodes are parted by these bits for this long.
    Part(u64, Duration),
    /// Who next asks keepers to accept something reaches only one of them, which loses its disk
    /// when it has; then the asker reaches nobody for the first time, and for the second only one
    /// of the others, which does not reach the rest.
    Strand(Duration, Duration),
    /// Nothing is lost for this long; or nearly half of all.
    Calm(Duration),
    Storm(Duration),
    /// Of what keepers are asked to accept, two thirds are lost for this long.
    Tear(Duration),
    /// Disks take this long from now on.
    Disks(Duration),
    /// A node loses its power, and has another's disk for this long, or a damaged one, which is
    /// formatted then.
    Without(NodeId, Without, Duration),
    /// A node's disk takes nothing for this long, or is a hundred times slower.
    Full(NodeId, Duration),
    Slow(NodeId, Duration),
    /// A node stands still for this long.
    Stand(NodeId, Duration),
}

/// When the names of a cluster whose nodes all do well are founded: that takes all keepers.
const FOUNDED: Duration = Duration::from_secs(1);

/// Draws what befalls the disk of one of `nodes` nodes, which all are keepers, in the time `busy`,
/// once the cluster is founded.
pub fn draw_disks(
    random: &mut ChaCha8Rng,
    nodes: u32,
    busy: Duration,
) -> (NodeId, Vec<(Instant, Blow)>) {
    let victim = NodeId(1 + below(random, u64::from(nodes)) as u32);
    let count = 2 + below(random, 8);
    let blows = (0..count)
        .map(|_| (Instant::START + FOUNDED + span(random, busy - FOUNDED), ill(random, victim)));
    (victim, blows.collect())
}

/// Every kind of bad disk.
fn ill(random: &mut ChaCha8Rng, node: NodeId) -> Blow {
    let kind = below(random, 10);
    let pause = Duration::from_millis(1) + span(random, Duration::from_millis(1500));
    match kind {
        0 => Blow::Kill(node, pause),
        1 => Blow::LoseDisk(node, pause),
        2..5 => Blow::OldDisk(node, pause),
        5 => Blow::Without(node, Without::Foreign, pause),
        6 => Blow::Without(node, Without::Damaged, pause),
        7 => Blow::Full(node, pause),
        8 => Blow::Slow(node, pause),
        _ => Blow::Stand(node, pause),
    }
}

/// Draws everything that befalls `nodes` nodes, the first `keepers` of which are keepers, in the
/// time `busy`.
pub fn draw(
    random: &mut ChaCha8Rng,
    nodes: u32,
    keepers: u32,
    busy: Duration,
) -> Vec<(Instant, Blow)> {
    let count = below(random, 12);
    let blows =
        (0..count).map(|_| (Instant::START + span(random, busy), blow(random, nodes, keepers)));
    blows.collect()
}

fn blow(random: &mut ChaCha8Rng, nodes: u32, keepers: u32) -> Blow {
    let keeper = NodeId(1 + below(random, u64::from(keepers)) as u32);
    let mut pause = |most| Duration::from_millis(1) + span(random, Duration::from_millis(most));
    match pause(20_000).as_millis() / 1000 {
        0..4 => Blow::Kill(keeper, pause(1500)),
        4 => {
            let pause = pause(1500);
            Blow::Kill(NodeId(1 + below(random, u64::from(nodes)) as u32), pause)
        }
        5 => Blow::LoseDisk(keeper, pause(800)),
        6 | 19 => Blow::OldDisk(keeper, pause(800)),
        7 | 8 => Blow::LoseDisk(keeper, pause(10)),
        9 => Blow::PowerCut(pause(1500)),
        10..13 => {
            let pause = pause(1500);
            Blow::Part(random.next_u64(), pause)
        }
        13 => Blow::Calm(pause(2000)),
        16 => Blow::Storm(pause(2000)),
        17 | 18 => Blow::Tear(pause(2000)),
        14 | 15 => Blow::Strand(pause(800), pause(800)),
        _ => Blow::Disks(pause(60)),
    }
}
