//! A package that is replaced under callers who do not rest: the longest that one of them waited,
//! hosted, beside what is promised. The scenario `package-replace` measures it, and fails if a call
//! is lost.

use std::time::Duration;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::{Node, number};

const LIMIT: Duration = Duration::from_secs(120);

/// The longest wait that is promised, in milliseconds, under so many calls in a second.
const WAIT: f64 = 10.0;
const CALLS: f64 = 10_000.0;

/// See the module. The package of the control is stopped, and started a while later, in place of
/// that, and what is lost is asked for again.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let (rounds, control) = if mode == Mode::Control { (3, 2) } else { (20, 0) };
    let program = format!("package-replace rounds={rounds} control={control}");
    let report = Node::boot(&["--machine", "hosted", "--program", &program], LIMIT)?.report()?;
    if report["program"]["passed"] != true {
        let failures = &report["program"]["failures"];
        return Err(Failure::Node(format!("package-replace failed: {failures}")));
    }
    let of = |name: &str| number(&report, &format!("program.figures.{name}"));
    let calls = of("calls_per_second")?;
    eprintln!("  {calls:.0} calls in a second, none lost");
    if mode != Mode::Control && calls < CALLS {
        return Err(Failure::Node(format!("{calls:.0} calls in a second are no {CALLS:.0}")));
    }
    let peer = Peer { name: String::from("what is promised"), value: WAIT };
    let longest = of("longest_us")? / 1000.0;
    Ok(vec![Figure::new("replace", "ms", longest, peer, Target::AtMost(1.0))])
}
