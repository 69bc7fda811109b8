//! The nodes of a run: those with disks, and one without, which nothing befalls, for the judge.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use nile_abi::{CoreId, Role, RoleSet};
use nile_kernel::{Config, Core};
use nile_platform::Outcome;
use nile_platform_sim::{
    ClusterOptions, Deed, Deeds, DiskOptions, Faults, Finished, Options, Stuck, simulate_deeds,
};
use nile_stl::Stl;

use crate::judge::Judge;
use crate::plot::{Plot, WORKERS};
use crate::{Broken, Run};

/// How long a run may take, in virtual time.
const LIMIT: Duration = Duration::from_secs(300);

/// Bytes of a disk.
const DISK: u64 = 2 << 20;

/// MiB of a node's pool. Whoever merges has two buffers for each run, and each worker of the
/// cluster may leave one.
fn pool_mebibytes(nodes: usize) -> u64 {
    2 * (1 + nodes as u64 / 128)
}

/// A run.
pub struct Stage {
    pub plot: Plot,
    /// What is still to be done to the nodes.
    pub deeds: Deeds,
    /// The transport layers of the nodes' first cores, as long as these live.
    pub insides: RefCell<Vec<Option<Stl>>>,
    /// What has happened, counted.
    pub counts: RefCell<BTreeMap<String, u64>>,
}

impl Stage {
    /// The stage for a plot.
    pub fn new(plot: Plot) -> Rc<Stage> {
        let insides = RefCell::new(vec![None; plot.nodes]);
        Rc::new(Stage { plot, deeds: Deeds::default(), insides, counts: RefCell::default() })
    }

    /// One more of these.
    pub fn count(&self, what: impl Into<String>) {
        *self.counts.borrow_mut().entry(what.into()).or_default() += 1;
    }

    /// Runs it to its end.
    pub fn run(self: Rc<Self>) -> Run {
        let Plot { seed, nodes, link, shows_pools, .. } = self.plot;
        let options = ClusterOptions {
            nodes: (0..=nodes).map(|node| self.options(node)).collect(),
            link,
            shows_pools,
            deeds: Vec::new(),
        };
        let ended = simulate_deeds(&options, &self.deeds, |node, machine| {
            let stage = self.clone();
            Box::new(Core::start(machine, &self.config(node), move |core| {
                let (own, stage) = (core.clone(), stage.clone());
                core.spawn(async move {
                    let offers = |name: &str| own.offers(name);
                    nile_services::deploy_offered(&own.stl(), own.roles(), offers).await;
                    if own.stl().host().core() != CoreId::BOOT {
                        return;
                    }
                    if let Some(inside) = stage.insides.borrow_mut().get_mut(node) {
                        *inside = Some(own.stl());
                        return;
                    }
                    let now = || own.stl().host().now();
                    if let Err(why) = Judge::new(&stage, own.stl()).run().await {
                        return stage.deeds.add(now(), Deed::GiveUp(why));
                    }
                    own.finish(Outcome::Success);
                    stage.deeds.clear();
                    (0..nodes).for_each(|node| stage.deeds.add(now(), Deed::Kill(node)));
                });
            }))
        });
        let counts = self.counts.take();
        self.insides.take();
        match ended {
            Ok(ended) => {
                let of_judge = |it: Vec<Option<Finished>>| it.into_iter().flatten().next_back();
                let trace_hash = of_judge(ended).map_or(seed, |it| it.trace_hash);
                Run { trace_hash, end: Ok(()), counts }
            }
            Err(stuck) => {
                let Stuck { violation, at, log, .. } = stuck;
                let why = violation.unwrap_or_else(|| format!("not over at {at}"));
                Run { trace_hash: 0, end: Err(Broken { why, log }), counts }
            }
        }
    }

    fn config(&self, node: usize) -> Config {
        let pool = pool_mebibytes(self.plot.nodes);
        let pool = format!("[pool]\nbytes = \"{pool}M\"\nbuffer = \"8K\"\n");
        let keepers = if self.plot.nodes < 3 { "[1]" } else { "[1, 2, 3]" };
        let member =
            format!("[node]\nid = {}\nkeepers = {keepers}\n[network]\nunsealed = true\n", node + 1);
        let config = Config::parse(&format!("{pool}{member}"));
        let mut config = config.expect("it is the same for all nodes but for a number");
        config.packages = nile_sim::STORE;
        config
    }

    fn options(&self, node: usize) -> Options {
        let is_judge = node == self.plot.nodes;
        let disk = DiskOptions { bytes: DISK, ..DiskOptions::default() };
        let roles = match is_judge {
            true => vec![RoleSet::EMPTY.with(Role::Management).with(Role::Network)],
            false => {
                let roles = self.config(node).roles(2 + WORKERS as usize);
                roles.expect("the default fits any number of cores")
            }
        };
        Options {
            seed: self.plot.seed.wrapping_mul(1000).wrapping_add(node as u64),
            roles,
            memory_bytes: 32 << 20,
            pool_bytes: pool_mebibytes(self.plot.nodes) << 20,
            wake_mode: None,
            packages: nile_sim::PACKAGES.into(),
            disks: if is_judge { Vec::new() } else { vec![disk] },
            files: Vec::new(),
            faults: Faults { package_faults: self.plot.package_faults, ..Faults::default() },
            limit: LIMIT,
        }
    }
}
