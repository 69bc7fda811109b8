//! Sampling for a profile: which cores can be sampled, how it begins and ends with the jobs, and
//! what is written and said of it.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use nile_abi::NodeId;
use serde_json::{Value, json};

use super::Core;
use super::names::Programs;
use super::samples::{Asked, Collected, Collector};
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
    in_qemu: Vec<NodeId>,
    collected: Collected,
    /// Why there are no samples, if there are none.
    why: Option<&'static str>,
}

impl Sampling {
    /// So many samples in a second of processor time.
    pub fn at(rate: u32) -> Sampling {
        let collected = Collected::default();
        Sampling { rate, collector: None, nodes: vec![], in_qemu: vec![], collected, why: None }
    }

    /// Before the first job: begins to collect, if there is anything to collect.
    pub fn begin(&mut self, place: &Place) -> Result<(), Failure> {
        let of = |kind: Kind| {
            let all = place.machines.iter().zip(1..).filter(move |(it, _)| **it == kind);
            all.map(|(_, id)| NodeId(id)).collect::<Vec<_>>()
        };
        // Cores of hosted nodes are sampled from their start or never, those in QEMU at any time.
        let hosted = if place.is_own { of(Kind::Hosted) } else { Vec::new() };
        self.in_qemu = of(Kind::Qemu);
        self.nodes = hosted.iter().chain(&self.in_qemu).copied().collect();
        self.why = match (self.rate, self.nodes.is_empty()) {
            (0, _) => Some("--rate 0"),
            (_, true) => Some(
                "the cluster was up before, and cores of hosted nodes are sampled from their start \
                 or never; --machine hosted starts one",
            ),
            _ => None,
        };
        if self.why.is_none() {
            let asked = Some(self.in_qemu.clone()).filter(|nodes| !nodes.is_empty());
            let asked = asked.map(|nodes| Asked {
                which: place.which.clone(),
                nodes,
                hertz: self.rate,
                ends_with_cluster: place.is_own,
            });
            self.collector = Some(Collector::begin(place.folder(), &hosted, asked)?);
        }
        Ok(())
    }

    /// Behind the last job.
    pub fn end(&mut self) -> Result<(), Failure> {
        if let Some(mut collector) = self.collector.take() {
            self.collected = collector.end()?;
        }
        Ok(())
    }

    /// What came of it, if `cores` are all that there are; else why nothing did.
    pub fn of(self, cores: &[Core]) -> Result<Sampled, &'static str> {
        match self.why {
            Some(why) => return Err(why),
            None if self.collected.stacks.is_empty() => return Err("no core was found at work"),
            None => {}
        }
        let mut programs = Programs::of_package(PACKAGE, self.in_qemu);
        let folded = stacks::fold(&self.collected, cores, &mut programs);
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
            nodes => format!("; {nodes} hosted nodes were up before, and are not sampled"),
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
