//! What the simulations of `nile sim` measure, as results: each value beside its bound.

use nile_simulations::{Options, Report, gossip, report};

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};

/// Gossip with 100, 1,000 and 10,000 nodes. The control asks for a quarter of the bounds.
pub fn run_gossip(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let sizes: &[u32] = if mode == Mode::Control { &[100] } else { &[100, 1_000, 10_000] };
    let mut figures = Vec::new();
    for nodes in sizes {
        let options = Options { nodes: Some(*nodes), ..Options::default() };
        figures.extend(self::figures(mode, &format!("gossip-{nodes}"), &gossip::run(&options))?);
    }
    Ok(figures)
}

/// The figures of a report that have bounds.
pub fn figures(mode: Mode, prefix: &str, report: &Report) -> Result<Vec<Figure>, Failure> {
    if let Some(failure) = report.failed.first() {
        return Err(Failure::Node(format!(
            "the simulation {} broke with seed {}: {}",
            report.scenario, failure.seed, failure.invariant
        )));
    }
    // What must not happen at all has no ratio: it is among the failures if it does.
    let none = |target| matches!(target, report::Target::AtMost(bound) if bound == 0.0);
    let bounded = report.figures.iter().filter_map(|it| Some((it, it.target?)));
    let bounded = bounded.filter(|(_, target)| !none(*target));
    let figures = bounded.map(|(it, target)| {
        eprintln!("  {prefix} {}: {:.3} {}, {target}", it.name, it.value, it.unit);
        // A control has to do with less, or to reach more, than anything does.
        let (bound, at) = match (target, mode) {
            (report::Target::AtLeast(bound), Mode::Real) => (bound, Target::AtLeast(1.0)),
            (report::Target::AtLeast(bound), Mode::Control) => (bound * 4.0, Target::AtLeast(1.0)),
            (report::Target::AtMost(bound), Mode::Real) => (bound, Target::AtMost(1.0)),
            (report::Target::AtMost(bound), Mode::Control) => (bound / 4.0, Target::AtMost(1.0)),
        };
        let name = format!("{prefix}-{}", it.name.replace(", ", "-").replace(' ', "-"));
        let peer = Peer { name: "bound".into(), value: bound };
        Figure::new(name, "as simulated", it.value, peer, at)
    });
    Ok(figures.collect())
}
