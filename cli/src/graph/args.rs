//! The words of `nile graph`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, value_parser};
use nile_graph::ONE;

use crate::args::seconds;
use crate::cluster::args::{Query, Said};

#[derive(Args)]
pub struct Graph {
    #[command(subcommand)]
    pub action: GraphAction,
}

#[derive(Subcommand)]
pub enum GraphAction {
    /// Make a graph without vertices, which a worker core has open.
    Create {
        /// What it is called.
        name: String,
        /// The worker core, as n1.c2; without it one of those with the fewest graphs.
        #[arg(long, value_name = "CORE")]
        on: Option<Said>,
        /// The sum of the errors of all ranks that is good enough; all ranks together are 1.
        #[arg(long, default_value = "1e-3", value_parser = error, value_name = "E")]
        error: u64,
        /// Seconds that a source may be silent until the watermark goes on without it.
        #[arg(long, default_value = "10", value_parser = seconds, value_name = "SECONDS")]
        patience: Duration,
        /// The most vertices that it may have; it may have 64 times as many edges.
        #[arg(long, default_value_t = 1 << 20, value_name = "N")]
        vertices: u32,
        /// Into how many parts it is divided, each on a worker core of its own while there are as
        /// many; each may have as many vertices as are said.
        #[arg(
            long, default_value_t = 1, conflicts_with = "on", value_name = "N",
            value_parser = value_parser!(u32).range(1..=64)
        )]
        parts: u32,
        /// On how many nodes it is kept; 0 for none: it is gone with its core. Without this on one,
        /// or on none if the cluster has no disks.
        #[arg(long, value_parser = value_parser!(u8).range(0..=8))]
        copies: Option<u8>,
        #[command(flatten)]
        query: Query,
    },
    /// Give a graph edges from a file: a line has two vertices and perhaps a time, with spaces,
    /// tabs or a comma between; one that begins with - removes its edge. When it is over they are
    /// kept. Lines that are no edges are kept beside the graph until they come again and are right.
    Feed {
        /// The graph.
        name: String,
        /// The file; - is what comes in.
        file: PathBuf,
        /// The number of the source. Lines that have come of it once do not count again.
        #[arg(long, value_name = "N")]
        source: Option<u64>,
        #[command(flatten)]
        query: Query,
    },
    /// Show the vertices with the highest ranks.
    Top {
        /// The graph.
        name: String,
        /// How many.
        #[arg(short, long, default_value_t = 10, value_parser = value_parser!(u32).range(1..=500))]
        number: u32,
        /// First wait until all that has come is in, and ranks are as good as they are to be.
        #[arg(long)]
        settled: bool,
        /// Show them again every second.
        #[arg(long)]
        watch: bool,
        #[command(flatten)]
        query: Query,
    },
    /// Show how a graph stands, or write a page with its ranks, staleness and watermark over time.
    Show {
        /// The graph.
        name: String,
        /// Watch the graph, and write a page for browsers to this file.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
        /// For how many seconds to watch it; Ctrl-C ends it earlier, and the page is written.
        #[arg(long = "for", default_value = "10", value_parser = seconds, value_name = "SECONDS")]
        watched: Duration,
        /// How many of the highest vertices the page has.
        #[arg(short, long, default_value_t = 10, value_parser = value_parser!(u32).range(1..=50))]
        number: u32,
        #[command(flatten)]
        query: Query,
    },
    /// Watch how fresh a graph is: for how long the first event has waited that is not in the
    /// ranks, over all of the time.
    Freshness {
        /// The graph.
        name: String,
        /// For how many seconds; Ctrl-C ends it earlier. Without it for ten, or with --watch until
        /// Ctrl-C.
        #[arg(long = "for", value_parser = seconds, value_name = "SECONDS")]
        watched: Option<Duration>,
        /// Also show each publication, with its highest vertices.
        #[arg(long)]
        watch: bool,
        /// How many vertices of each publication.
        #[arg(
            short, long, default_value_t = 10, requires = "watch",
            value_parser = value_parser!(u32).range(1..=500)
        )]
        number: u32,
        #[command(flatten)]
        query: Query,
    },
    /// Show a vertex: its rank, and the component that it is in.
    Vertex {
        /// The graph.
        name: String,
        /// The vertex.
        vertex: u64,
        #[command(flatten)]
        query: Query,
    },
    /// Show how many edges the shortest way between two vertices has.
    Distance {
        /// The graph.
        name: String,
        /// Where it begins.
        from: u64,
        /// Where it ends.
        to: u64,
        #[command(flatten)]
        query: Query,
    },
    /// Show the sources of a graph.
    Sources {
        /// The graph.
        name: String,
        #[command(flatten)]
        query: Query,
    },
    /// Show the lines that are no edges, and why.
    Rejects {
        /// The graph.
        name: String,
        #[command(flatten)]
        query: Query,
    },
    /// Show the graphs of the cluster.
    List(Query),
    /// Remove a graph.
    Remove {
        /// The graph.
        name: String,
        #[command(flatten)]
        query: Query,
    },
}

/// An error in parts of [`ONE`].
fn error(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text} is no number above 0 and up to 1, as 1e-3");
    let error: f64 = text.parse().map_err(|_| wrong())?;
    if !(error > 0.0 && error <= 1.0) {
        return Err(wrong());
    }
    Ok(((error * ONE as f64) as u64).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_parts_of_one() {
        assert_eq!([error("1"), error("0.5"), error("1e-30")], [Ok(ONE), Ok(ONE / 2), Ok(1)]);
        for wrong in ["0", "-1", "1.1", "NaN", "inf", "x", ""] {
            assert!(error(wrong).is_err(), "{wrong}");
        }
    }
}
