//! Sampling for a profile: which cores can be sampled, how it begins and ends with the jobs, and
//! what is written and said of it.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use nile_abi::NodeId;
use serde_json::{Value, json};

use super::Core;
use super::names::Names;
use super::samples::{Collected, Collector};
use super::stacks::{self, Folded};
use super::{flame, hot};
use crate::cluster::args::Kind;
use crate::failure::Failure;
use crate::run::place::Place;
use crate::run::terasort::PACKAGE;

/// The files.
const GRAPH: &str = "flame.svg";
const FOLDED: &str = "samples.folded";
pub const FILES: [&str; 2] = [GRAPH, FOLDED];

/// Sampling, from before the jobs to behind them.
pub struct Sampling {
    rate: u32,
    collector: Option<Collector>,
    nodes: Vec<NodeId>,
    collected: Collected,
    /// Why there are no samples, if there are none.
    why: Option<&'static str>,
}

impl Sampling {
    /// So many samples in a second of processor time.
    pub fn at(rate: u32) -> Sampling {
        let (collector, nodes, collected) = (None, Vec::new(), Collected::default());
        Sampling { rate, collector, nodes, collected, why: None }
    }

    /// Before the first job: begins to collect, if there is anything to collect.
    pub fn begin(&mut self, place: &Place) -> Result<(), Failure> {
        let hosted = place.machines.iter().zip(1..).filter(|(kind, _)| **kind == Kind::Hosted);
        self.nodes = hosted.map(|(_, id)| NodeId(id)).collect();
        self.why = match (self.rate, place.is_own, self.nodes.is_empty()) {
            (0, ..) => Some("--rate 0"),
            (_, false, _) => Some(
                "the cluster was up before, and cores are sampled from their start or never; \
                 --machine hosted starts one",
            ),
            (.., true) => Some("nodes in QEMU are not sampled yet"),
            _ => None,
        };
        if self.why.is_none() {
            self.collector = Some(Collector::begin(place.folder(), &self.nodes)?);
        }
        Ok(())
    }

    /// Behind the last job.
    pub fn end(&mut self) {
        self.collected = self.collector.take().map_or_else(Collected::default, |mut it| it.end());
    }

    /// What came of it, if `cores` are all that there are; else why nothing did.
    pub fn of(self, cores: &[Core]) -> Result<Sampled, &'static str> {
        match self.why {
            Some(why) => return Err(why),
            None if self.collected.stacks.is_empty() => return Err("no core was found at work"),
            None => {}
        }
        let folded = stacks::fold(&self.collected, cores, &mut Names::of(PACKAGE));
        let sampled = |core: &&Core| self.nodes.contains(&core.node);
        let own: Vec<&Core> = cores.iter().filter(sampled).collect();
        let shares = hot::shares(&folded, &own, self.collected.took, self.rate);
        let unsampled = cores.iter().filter(|it| !sampled(it)).map(|it| it.node);
        let unsampled = unsampled.collect::<HashSet<_>>().len();
        let functions = hot::functions(&folded);
        let (samples, lost) = (self.collected.samples, self.collected.lost);
        Ok(Sampled { rate: self.rate, samples, lost, unsampled, folded, shares, functions })
    }
}

/// What samples say.
pub struct Sampled {
    rate: u32,
    samples: u64,
    lost: u64,
    /// Nodes that were not sampled.
    unsampled: usize,
    folded: BTreeMap<Folded, u64>,
    shares: Vec<hot::Share>,
    functions: Vec<hot::Function>,
}

/// Where the files are.
pub struct Files {
    graph: PathBuf,
    folded: PathBuf,
}

impl Sampled {
    /// Writes the files by `write`.
    pub fn write(
        &self,
        title: &str,
        write: impl Fn(&str, &[u8]) -> Result<PathBuf, Failure>,
    ) -> Result<Files, Failure> {
        let folded = stacks::text(&self.folded);
        let graph = flame::graph(&folded, title, self.rate);
        Ok(Files {
            graph: write(GRAPH, graph.as_bytes())?,
            folded: write(FOLDED, folded.as_bytes())?,
        })
    }

    /// For people.
    pub fn text(&self, files: &Files) -> String {
        let tables = hot::text(&self.shares, &self.functions);
        let Sampled { samples, lost, .. } = self;
        let unsampled = match self.unsampled {
            0 => String::new(),
            nodes => format!("; {nodes} nodes in QEMU are not sampled yet"),
        };
        let (graph, folded) = (files.graph.display(), files.folded.display());
        format!(
            "{tables}{samples} samples, {lost} lost{unsampled}\n\n\
             {graph}: open it in a browser\n{folded}: the same stacks as text\n"
        )
    }

    /// As JSON.
    pub fn document(&self, files: &Files) -> Value {
        let (roles, functions) = hot::documents(&self.shares, &self.functions);
        json!({
            "rate": self.rate, "samples": self.samples, "lost_samples": self.lost,
            "unsampled_nodes": self.unsampled, "roles": roles, "functions": functions,
            "flame_graph": files.graph, "folded_stacks": files.folded,
        })
    }
}
