//! How quickly a change reaches all, and what gossip costs, without faults: the cluster forms,
//! rests, and is told of changes one after the other.

use super::cluster::Cluster;
use super::{FAN_OUT, Setup};
use crate::{Figure, Target};

/// Rounds over which the cost is taken, in which there is one change.
const WINDOW: u32 = 64;

/// Changes that are followed, each from another node.
const CHANGES: u16 = 3;

/// How much more than in a small cluster gossip may cost.
const MOST_GROWTH: f64 = 1.2;

/// The size of cluster to which the cost is compared.
const SMALL: u32 = 100;

/// A cluster that has formed, and what was measured of it. Fails if an invariant is broken.
pub fn measure(setup: Setup) -> Result<(Cluster, Vec<Figure>), String> {
    let mut cluster = Cluster::new(setup);
    let rounds = form(&mut cluster)?;
    let mut figures =
        vec![Figure::new("rounds until all started nodes agree", rounds.into(), "rounds")];
    let (worst, cost) = follow(&mut cluster)?;
    let bound = bound(setup.nodes, FAN_OUT);
    let reach = Figure::new("rounds until a change has reached all", worst, "rounds");
    figures.push(reach.with_target(Target::AtMost(bound)));
    figures.push(Figure::new("bytes of a node in a second", cost, "B/s"));
    if setup.nodes > SMALL {
        let mut small = Cluster::new(Setup { nodes: SMALL, ..setup });
        form(&mut small)?;
        let (_, small) = follow(&mut small)?;
        figures.push(Figure::new("bytes of a node in a second, of 100 nodes", small, "B/s"));
        let growth = Figure::new("growth of that from 100 nodes", cost / small, "times");
        figures.push(growth.with_target(Target::AtMost(MOST_GROWTH)));
    }
    Ok((cluster, figures))
}

/// 1.5 times what theory says of telling `k` of `n` nodes in each round: as long as most of those
/// who are told do not know it, k + 1 times as many know it after a round; after that, a part of
/// e^-k of those who do not know it is left.
fn bound(nodes: u32, fan_out: u8) -> f64 {
    let (n, k) = (f64::from(nodes), f64::from(fan_out));
    1.5 * (n.ln() / (k + 1.0).ln() + n.ln() / k)
}

/// Starts all nodes, one after the other within some rounds; gives the rounds until they agree.
fn form(cluster: &mut Cluster) -> Result<u32, String> {
    const ROUNDS: u32 = 16;
    let between = Cluster::period() * ROUNDS / cluster.setup.nodes;
    for node in 0..cluster.setup.nodes {
        cluster.start(node);
        cluster.run_for(between)?;
    }
    Ok(ROUNDS + cluster.settle(400)?)
}

/// The rounds that the slowest change took to all, and the bytes that each node sent in a second
/// while there was one change in each window.
fn follow(cluster: &mut Cluster) -> Result<(f64, f64), String> {
    // What was told of the start is over.
    cluster.run(WINDOW)?;
    let (bytes, period) = (cluster.bytes, Cluster::period());
    let mut worst = 0.0_f64;
    for change in 0..CHANGES {
        let began = cluster.world.now();
        let node = cluster.any_running();
        cluster.follow(node, 10 + change);
        cluster.run(WINDOW)?;
        let took = match cluster.reached() {
            Ok(at) => at.since(began),
            Err(left) => {
                return Err(format!("a change did not reach {left} nodes in {WINDOW} rounds"));
            }
        };
        worst = worst.max(took.as_nanos() as f64 / period.as_nanos() as f64);
    }
    let seconds = period.as_secs_f64() * f64::from(WINDOW) * f64::from(CHANGES);
    let cost = (cluster.bytes - bytes) as f64 / f64::from(cluster.setup.nodes) / seconds;
    Ok((worst, cost))
}
