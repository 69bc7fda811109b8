//! The command line of benchmarks beside whole other systems.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Recorded;
use crate::size::Bytes;

/// Benchmarks beside whole other systems.
#[derive(Subcommand)]
pub enum Beside {
    /// Sort the same records with NileOS and with Hadoop, Spark, DuckDB, Polars, GNU sort and a
    /// hand-tuned program, in turns. What is missing of them is installed.
    Peers(Peers),
    /// The experiment of the NileOS paper: how long sorting takes by the size of the input, the
    /// number of reducers and the environment, with its analysis.
    Paper(Paper),
    /// Sort with the same code in a NileOS guest and in Linux guests on the same machine in QEMU,
    /// in turns, find out how much the cores that work are disturbed, and have programs of one core
    /// pass a token.
    #[command(visible_alias = "switch")]
    Linux(Linux),
    /// How fresh the ranks of a graph are while edges come, of NileOS and of libraries that compute
    /// them in a loop, in turns. What is missing of them is installed.
    Stream(Stream),
    /// What a node's network does beside Linux's: how long it is silent while a server begins anew,
    /// and how fast it is. Traffic is in network namespaces of its own, which takes root.
    Net(Traffic),
    /// What domains of a NileOS machine take to come, go and change, beside the hotplug of a Linux
    /// guest on the same machine in QEMU, in turns.
    Hotplug(Hotplug),
}

/// What comes of a comparison.
#[derive(Args)]
pub struct Outcome {
    /// Write the document, plots and a page that shows all to this folder.
    #[arg(long, value_name = "FOLDER")]
    pub report: Option<PathBuf>,
    /// Hinder NileOS on purpose: that has to be found.
    #[arg(long)]
    pub control: bool,
    /// Print the result as one JSON document and nothing else.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub recorded: Recorded,
}

#[derive(Args)]
pub struct Paper {
    /// The sizes of the input; without them 64M,128M,256M.
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    pub sizes: Vec<Bytes>,
    /// The numbers of reducers; without them 1,4. The largest is how many mappers there are.
    #[arg(long, value_name = "R", value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(1..=64))]
    pub reducers: Vec<u16>,
    /// How often each combination is run; without it 3 times, and twice to try it out.
    #[arg(long, value_parser = clap::value_parser!(u16).range(2..=1000))]
    pub runs: Option<u16>,
    /// What the order of the runs is drawn from.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// For trying: 8M and 32M, 1 and 2 reducers, without Hadoop.
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub outcome: Outcome,
}

/// How many cores a machine can have that Linux is measured on.
pub const GUEST_CORES: RangeInclusive<i64> = 2..=32;

#[derive(Args)]
pub struct Linux {
    /// How much is sorted, as 256M; without it 96M.
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,
    /// How often each has its turn; without it 5 times.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub runs: Option<u16>,
    /// For trying: once, 8M. Targets are no promise then.
    #[arg(long)]
    pub quick: bool,
    /// Machines that share each sort, on a virtual switch: 1 or 2.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=2))]
    pub nodes: u16,
    /// Cores of each machine, the last half of which sort; without it as many as CPUs are here.
    #[arg(long, value_parser = clap::value_parser!(u16).range(GUEST_CORES))]
    pub cores: Option<u16>,
    #[command(flatten)]
    pub outcome: Outcome,
}

#[derive(Args)]
pub struct Stream {
    /// The graph has up to 2^N vertices, and 16 edges a vertex; without it 20.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(8..=23))]
    pub scale: Option<u16>,
    /// How many edges come in a second; without it 200000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub rate: Option<u32>,
    /// For how many seconds they come; without it 10.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=600))]
    pub seconds: Option<u16>,
    /// Measure these only, as nileos,scipy.
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<Ranker>,
    /// Measure a graph in N parts, too, each on a worker core of its own, beside one in one.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..=62))]
    pub parts: Option<u16>,
    /// How often each has its turn; without it 3 times.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub runs: Option<u16>,
    /// For trying: once, a graph of 4,096 vertices. Targets are no promise then.
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub outcome: Outcome,
}

#[derive(Args)]
pub struct Traffic {
    /// Measure these only, as restart,bulk.
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<Carried>,
    /// How often each has its turn; without it 3 times.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub runs: Option<u16>,
    /// For trying: once, for a second each, few restarts. Targets are no promise then.
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub outcome: Outcome,
}

#[derive(Args)]
pub struct Hotplug {
    /// How often each has its turn; without it 3 times.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub runs: Option<u16>,
    /// For trying: once, three rounds. Targets are no promise then.
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub outcome: Outcome,
}

/// What is measured of a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Carried {
    /// A download while the server that has its connection is ended and begins anew.
    Restart,
    /// Echoes on 100 connections while that server is replaced.
    Replace,
    /// Streams of iperf3, both ways.
    Bulk,
    /// 64 bytes there and back.
    Rtt,
    /// A connection for each 64 bytes.
    Connections,
    /// System calls of who receives a stream.
    Calls,
    /// A stream through a packet filter with 1,000 rules, beside none.
    Filter,
}

/// Who computes ranks while edges come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Ranker {
    /// A hosted node, the graph in its memory.
    Nileos,
    /// The same, all edges on its disk, too.
    NileosKept,
    /// A graph in memory that is divided among worker cores.
    NileosParts,
    /// NetworKit's PageRank, again and again.
    Networkit,
    /// Power iteration by scipy, from the last ranks on.
    Scipy,
    /// igraph's PageRank, of a graph that is made anew each time.
    Igraph,
}

#[derive(Args)]
pub struct Peers {
    /// How much is sorted, as 8G; without it about a gigabyte.
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Bytes>,
    /// Sort beside these only, as duckdb,polars.
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<Peer>,
    /// How often each has its turn; without it 3 times.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub runs: Option<u16>,
    /// For trying: once, 10M, beside those that need no Java. Targets are no promise then.
    #[arg(long)]
    pub quick: bool,
    #[command(flatten)]
    pub outcome: Outcome,
}

/// Whom NileOS can be measured beside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Peer {
    /// The sort in one process that `bench sort` knows.
    Reference,
    /// GNU sort.
    GnuSort,
    /// DuckDB.
    Duckdb,
    /// Polars.
    Polars,
    /// Spark, in one JVM.
    Spark,
    /// Hadoop MapReduce, in one JVM.
    HadoopLocal,
    /// Hadoop MapReduce on HDFS and YARN, on this machine.
    HadoopYarn,
}
