//! What happens to the nodes: a network with all faults, changes everywhere, deaths, departures,
//! restarts, and a partition in which both sides go on. Then the faults end, and all must agree.

use std::time::Duration;

use nile_gossip::Update;
use nile_switch::{Link, Probability};

use super::cluster::{Cluster, instance};
use crate::Host;

/// The largest cluster that is parted in halves: every node has to hold each of the other side for
/// dead, and all that is told of it passes through one machine here.
const HALVED: u32 = 500;

/// How many nodes are parted from the others in larger ones.
const FEW: u32 = 12;

/// Rounds after the last fault by which all must agree.
const SETTLED: u32 = 400;

/// Runs the story. Fails with the first invariant that is broken.
pub fn tell(cluster: &mut Cluster) -> Result<(), String> {
    let nodes = cluster.setup.nodes;
    cluster.world.set_all_links(Link {
        delay: Duration::from_micros(50),
        loss: Probability::percent(1),
        duplicate: Probability::percent(1),
        reorder: Probability::percent(2),
        corrupt: Probability::percent(1),
        ..Link::PERFECT
    });
    let victims: Vec<u32> = pick(cluster, (nodes / 20).clamp(2, 20));
    let (killed, left) = victims.split_at(victims.len() / 2);
    for (number, node) in (0..).zip(killed) {
        cluster.kill(*node);
        change(cluster, 20 + number);
        cluster.run(1)?;
    }
    for node in left {
        cluster.leave(*node);
        cluster.run(1)?;
    }
    cluster.run(8)?;
    // Some return at once, others when all think that they are dead.
    for node in killed {
        cluster.start(*node);
        cluster.run(2)?;
    }
    part(cluster)?;
    for node in left {
        cluster.start(*node);
    }
    cluster.run(4)?;
    // A restart that nobody noticed.
    let node = cluster.any_running();
    cluster.kill(node);
    cluster.start(node);
    cluster.world.set_all_links(Link::PERFECT);
    cluster.settle(SETTLED)?;
    // And it stays so.
    cluster.run(20)?;
    cluster.settle(1).map(|_| ())
}

fn pick(cluster: &mut Cluster, count: u32) -> Vec<u32> {
    let mut picked = Vec::new();
    while picked.len() < count as usize {
        let node = cluster.any_running();
        if !picked.contains(&node) {
            picked.push(node);
        }
    }
    picked
}

/// Any running node publishes, moves or ends something.
fn change(cluster: &mut Cluster, number: u16) {
    let node = cluster.any_running();
    cluster.update(node, Update::Publish(instance(node, number)));
    if number.is_multiple_of(3) {
        cluster.update(node, Update::Move { number, core: 2, generation: 1 });
    } else if number.is_multiple_of(5) {
        cluster.update(node, Update::Unpublish(number));
    }
}

/// Parts the cluster until either side holds the other for dead, and heals it.
fn part(cluster: &mut Cluster) -> Result<(), String> {
    let nodes = cluster.setup.nodes;
    let small = if nodes > HALVED { FEW } else { nodes / 2 };
    let mut sides = vec![false; nodes as usize];
    for node in pick_any(cluster, small) {
        sides[node as usize] = true;
    }
    let hosts = |side: bool| -> Vec<Host> {
        (0..nodes).filter(|node| sides[*node as usize] == side).map(Host).collect()
    };
    cluster.world.partition(&[&hosts(false), &hosts(true)]);
    cluster.sides = Some(sides);
    for number in 0..20 {
        change(cluster, 50 + number);
        cluster.run(2)?;
    }
    cluster.world.heal();
    cluster.sides = None;
    cluster.run(20)
}

/// Any nodes, running or not.
fn pick_any(cluster: &mut Cluster, count: u32) -> Vec<u32> {
    let mut picked = Vec::new();
    while picked.len() < count as usize {
        let node = cluster.draw(cluster.setup.nodes);
        if !picked.contains(&node) {
            picked.push(node);
        }
    }
    picked
}
