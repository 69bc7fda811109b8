//! `nile domain policy elastic`: a domain gets cores while it is slow or busy, and gives them back.
//! What is measured each window the domain's node is asked; what follows from that the [`Elastic`]
//! policy decides; and a step is what `nile domain resize` does.

use std::fmt;
use std::time::{Duration, Instant};

use nile_domain::{Elastic, Name, Step};
use serde_json::{Value, json};

use super::args::{By, Change, ElasticOptions, Threshold};
use super::usage::{PATIENCE, START, Sample, load, look, percentile};
use super::{carry, change_cores, cores_of};
use crate::cluster::folder::{Folder, Record};
use crate::cluster::session::Session;
use crate::failure::Failure;

/// What was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Measured {
    /// So many nanoseconds, below which the share of answers lies that is asked for.
    Within(u64),
    /// So much of the time of the worker cores, in percent.
    Busy(u64),
    /// There was nothing to measure.
    Nothing,
}

/// Follows a domain until its span is over, or until Ctrl-C.
pub fn run(options: &ElasticOptions) -> Result<(), Failure> {
    let (lower, upper) = thresholds(options)?;
    let mut elastic = Elastic::new(lower, upper, options.calm).ok_or_else(|| {
        Failure::request(format!("--lt {} is not below --ut {}", options.lt, options.ut))
    })?;
    if options.from == Some(options.name) {
        return Err(Failure::request("--from: a domain takes no cores from itself"));
    }
    let (folder, record) = carry::folder_with_supervisor(&options.which)?;
    let node = record.domain(options.name.as_str())?.node();
    if let Some(from) = options.from {
        record.domain(from.as_str())?;
    }
    let mut session = Session::open(&options.which, START)?;
    session.patience = PATIENCE;
    let mut before = look(&mut session, node)?;
    let begun = Instant::now();
    let end = options.span.map(|span| begun + span);
    let mut next = begun;
    let mut told = None;
    while end.is_none_or(|end| Instant::now() < end) {
        next = (next + options.window).max(Instant::now());
        session.peer.until(next.saturating_duration_since(Instant::now()), |_| false)?;
        let after = match look(&mut session, node) {
            Ok(after) => after,
            Err(Failure::Interrupted) => return Err(Failure::Interrupted),
            Err(failure) => {
                // One that begins anew is decided about when it is back.
                record_is_there(&folder, options.name)?;
                crate::say(format_args!("nile: {failure}"));
                session = Session::open(&options.which, PATIENCE)?;
                session.patience = PATIENCE;
                continue;
            }
        };
        let measured = measure(&before, &after, options);
        before = after;
        let step = elastic.decide(measured.number());
        let refused = match take(&folder, options, step) {
            Ok(()) => None,
            Err(Failure::Interrupted) => return Err(Failure::Interrupted),
            Err(failure) => {
                elastic.undo(step);
                Some(failure.to_string())
            }
        };
        // What is refused in each window is told once.
        let is_news = step != Step::Stay && (refused.is_none() || refused != told);
        if is_news || options.verbose {
            tell(options, begun.elapsed(), measured, step, refused.as_deref())?;
        }
        if step != Step::Stay {
            told = refused;
        }
    }
    Ok(())
}

/// The thresholds as numbers of what is measured.
fn thresholds(options: &ElasticOptions) -> Result<(u64, u64), Failure> {
    let number = |name: &str, threshold: Threshold| match (threshold, options.by) {
        (Threshold::Time(time), By::Latency) => Ok(time.as_nanos() as u64),
        (Threshold::Percent(percent), By::Load) => Ok(percent),
        (_, By::Latency) => Err(Failure::request(format!(
            "--{name} {threshold}: --by latency wants a time, as 5ms"
        ))),
        (_, By::Load) => {
            Err(Failure::request(format!("--{name} {threshold}: --by load wants a share, as 80%")))
        }
    };
    Ok((number("lt", options.lt)?, number("ut", options.ut)?))
}

/// Fails if the domain has been destroyed meanwhile.
fn record_is_there(folder: &Folder, name: Name) -> Result<(), Failure> {
    let record: Record = folder.record()?;
    record.domain(name.as_str()).map(drop)
}

fn measure(before: &Sample, after: &Sample, options: &ElasticOptions) -> Measured {
    match options.by {
        By::Latency => percentile(&before.answers, &after.answers, options.percentile)
            .map_or(Measured::Nothing, Measured::Within),
        By::Load => load(&before.cores, &after.cores).map_or(Measured::Nothing, Measured::Busy),
    }
}

/// Moves a core, or takes it from what is free and gives it back there. If one of two halves fails
/// the other is undone.
fn take(folder: &Folder, options: &ElasticOptions, step: Step) -> Result<(), Failure> {
    let (giver, taker) = match step {
        Step::Stay => return Ok(()),
        Step::Grow => {
            if !has_room(folder, options.name)? {
                let why = format!("{} has as many cores as it can have", options.name);
                return Err(Failure::request(why));
            }
            (options.from, Some(options.name))
        }
        Step::Shrink => {
            // What another one cannot have, or is not there to have, is nobody's.
            let can_have = |from: &Name| has_room(folder, *from).is_ok_and(|has_room| has_room);
            (Some(options.name), options.from.filter(can_have))
        }
    };
    if let Some(giver) = giver {
        let given = change_cores(folder, giver, Change::By(-1));
        given.map_err(|failure| failure.within(&format!("{giver} gives none")))?;
    }
    let taken = taker.map_or(Ok(()), |taker| change_cores(folder, taker, Change::By(1)));
    if let (Err(failure), Some(giver)) = (&taken, giver) {
        let given_back = change_cores(folder, giver, Change::By(1));
        given_back.map_err(|other| other.within(&format!("{failure}; and then")))?;
    }
    taken
}

/// Whether a domain can be given another core.
fn has_room(folder: &Folder, name: Name) -> Result<bool, Failure> {
    let (has, most) = cores_of(folder, name)?;
    Ok(has < usize::from(most))
}

fn tell(
    options: &ElasticOptions,
    elapsed: Duration,
    measured: Measured,
    step: Step,
    refused: Option<&str>,
) -> Result<(), Failure> {
    let (change, what) = match (step, refused) {
        (_, Some(why)) => (0, format!("stays: {why}")),
        (Step::Stay, None) => (0, "stays".into()),
        (Step::Grow, None) => (1, "gets a core".into()),
        (Step::Shrink, None) => (-1, "gives a core back".into()),
    };
    let seconds = elapsed.as_secs_f64();
    if options.json {
        let document = json!({
            "seconds": (seconds * 1e3).round() / 1e3,
            "domain": options.name.as_str(),
            "measured": measured.value(),
            "cores": change,
            "refused": refused,
        });
        return crate::print(&format!("{document}\n"));
    }
    let percent = options.percentile;
    let measured = match measured {
        Measured::Within(nanos) => {
            format!("{percent}% of its answers within {:.3} ms", nanos as f64 / 1e6)
        }
        Measured::Busy(busy) => format!("{busy}% busy"),
        Measured::Nothing => "nothing to do".into(),
    };
    crate::print(&format!("{seconds:8.1} s  {}: {measured}; {what}\n", options.name))
}

impl Measured {
    fn number(self) -> Option<u64> {
        match self {
            Measured::Within(number) | Measured::Busy(number) => Some(number),
            Measured::Nothing => None,
        }
    }

    fn value(self) -> Value {
        match self {
            Measured::Within(nanos) => json!({ "within_ns": nanos }),
            Measured::Busy(percent) => json!({ "busy_percent": percent }),
            Measured::Nothing => Value::Null,
        }
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Threshold::Time(time) => write!(f, "{time:?}"),
            Threshold::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}
