//! How fresh a graph is, which is asked without rest for a while. What counts is for how long the
//! first event has waited that the publication lacks, over all moments of that while.

use std::thread;
use std::time::{Duration, Instant};

use nile_interfaces::graph::{GraphClient, GraphState, RankEntry};
use serde_json::{Value, json};

use super::cores::Cores;
use super::show::error;
use crate::cluster::args::Query;
use crate::failure::Failure;
use crate::peer::known::Target;
use crate::{interrupt, table};

/// How long it is until the graph is asked again: what is told is as exact as this and a call.
const AGAIN: Duration = Duration::from_millis(1);

/// Watches a graph until `watched` is over, or Ctrl-C, and tells how fresh it was. With `each`, a
/// line tells of each publication that is seen, with so many of the highest vertices.
pub fn run(
    cores: &mut Cores,
    core: Target,
    name: &str,
    watched: Duration,
    each: Option<u32>,
    query: &Query,
) -> Result<(), Failure> {
    Failure::at_signals()?;
    let begun = Instant::now();
    let mut seen = Seen::default();
    loop {
        let look = async |it: GraphClient| {
            let state = it.state(name).await?;
            // The call after the other may find another publication: then it is seen next.
            let top = match each.filter(|_| seen.lacks(&state)) {
                Some(most) => it.top(name, most).await?,
                None => Vec::new(),
            };
            Ok((state, top))
        };
        let (state, top) = match cores.ask(core, look) {
            Err(Failure::Interrupted) if seen.first.is_some() => break,
            asked => asked?,
        };
        if each.is_some() && seen.lacks(&state) {
            crate::print(&line(&state, &top, query.json))?;
        }
        seen.add(begun.elapsed(), state);
        if begun.elapsed() >= watched || interrupt::requested() {
            break;
        }
        thread::sleep(AGAIN.min(watched.saturating_sub(begun.elapsed())));
    }
    let told = seen.told();
    if query.json {
        return crate::print(&format!("{}\n", told.document(name)));
    }
    crate::print(&told.text())
}

/// What is told of one publication.
fn line(state: &GraphState, top: &[RankEntry], is_json: bool) -> String {
    let vertices: Vec<u64> = top.iter().map(|it| it.vertex).collect();
    let GraphState { publication, events, behind, age_us, staleness_us, .. } = state;
    let error = error(state.error);
    if is_json {
        let document = json!({
            "publication": publication, "events": events, "behind": behind, "age_us": age_us,
            "staleness_us": staleness_us, "error": error, "top": vertices,
        });
        return format!("{document}\n");
    }
    let first: Vec<String> = vertices.iter().map(u64::to_string).collect();
    format!("publication {publication}: {events} events, error {error:.1e}: {}\n", first.join(" "))
}

/// What has been seen.
#[derive(Default)]
struct Seen {
    first: Option<GraphState>,
    last: Option<GraphState>,
    publications: u64,
    error: u64,
    /// When it was looked last.
    at: Duration,
    /// How stale it was, in microseconds, and for how long it had not been looked before.
    stale: Vec<(u64, Duration)>,
}

impl Seen {
    /// Whether this is another publication than the last one.
    fn lacks(&self, state: &GraphState) -> bool {
        state.publication > 0
            && self.last.as_ref().is_none_or(|it| it.publication != state.publication)
    }

    fn add(&mut self, at: Duration, state: GraphState) {
        self.publications += u64::from(self.lacks(&state));
        self.error = self.error.max(state.error);
        self.stale.push((state.staleness_us, at.saturating_sub(self.at)));
        self.at = at;
        self.first.get_or_insert_with(|| state.clone());
        self.last = Some(state);
    }

    fn told(mut self) -> Told {
        self.stale.sort_unstable();
        let whole: Duration = self.stale.iter().map(|(_, lasted)| *lasted).sum();
        // The least staleness that it was not worse than for such a part of the time.
        let part = |part: f64| {
            let mut left = whole.mul_f64(part);
            let is_it = |(_, lasted): &&(u64, Duration)| {
                let is_it = *lasted >= left;
                left = left.saturating_sub(*lasted);
                is_it
            };
            self.stale.iter().find(is_it).or(self.stale.last()).map_or(0, |it| it.0)
        };
        let events = |state: &Option<GraphState>| state.as_ref().map_or(0, |it| it.events);
        Told {
            seconds: self.at.as_secs_f64(),
            publications: self.publications,
            events: events(&self.last).saturating_sub(events(&self.first)),
            staleness_us: [part(0.5), part(0.99), part(1.0)],
            error: error(self.error),
        }
    }
}

/// What is told in the end.
struct Told {
    seconds: f64,
    publications: u64,
    events: u64,
    /// Half of the time, 99 hundredths of it, and always it was at most so stale.
    staleness_us: [u64; 3],
    error: f64,
}

impl Told {
    fn document(&self, name: &str) -> Value {
        let [half, most, all] = self.staleness_us;
        json!({
            "name": name, "seconds": self.seconds, "publications": self.publications,
            "events": self.events, "error": self.error,
            "staleness_us": { "p50": half, "p99": most, "max": all },
        })
    }

    fn text(&self) -> String {
        let [half, most, all] = self.staleness_us.map(|it| format!("{:.1} ms", it as f64 / 1e3));
        let rows = [
            ("watched", format!("{:.1} s", self.seconds)),
            ("publications", self.publications.to_string()),
            ("events in", self.events.to_string()),
            ("staleness, half of the time", format!("{half} at most")),
            ("99% of the time", format!("{most} at most")),
            ("always", format!("{all} at most")),
            ("errors of all ranks", format!("{:.1e} at most", self.error)),
        ];
        let rows: Vec<_> = rows.into_iter().map(|(what, is)| vec![what.into(), is]).collect();
        table::columns("", &rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(publication: u64, events: u64, staleness_us: u64) -> GraphState {
        GraphState { publication, events, staleness_us, error: events, ..GraphState::default() }
    }

    #[test]
    fn staleness_counts_for_as_long_as_it_lasted() {
        let mut seen = Seen::default();
        assert!(!seen.lacks(&state(0, 0, 0)), "nothing is published yet");
        // It answers after 90 ms of a hundred only, and is stale by as much.
        for at in 1..=10 {
            seen.add(Duration::from_millis(at), state(1, 7, 100));
        }
        seen.add(Duration::from_millis(100), state(2, 9, 90_000));
        let told = seen.told();
        assert_eq!(told.staleness_us, [90_000; 3], "most of the time it was stale");
        assert_eq!((told.publications, told.events), (2, 2));
        assert_eq!(told.error, error(9));
    }

    #[test]
    fn percentiles_are_those_of_time() {
        let mut seen = Seen::default();
        for at in 1..=100 {
            seen.add(Duration::from_millis(at), state(at, at, at));
        }
        assert_eq!(seen.told().staleness_us, [50, 99, 100]);
        assert_eq!(Seen::default().told().staleness_us, [0; 3]);
    }

    #[test]
    fn a_publication_is_a_line() {
        let top = [RankEntry { vertex: 7, rank: 1, certain: true }];
        let text = line(&state(3, 5, 0), &top, false);
        assert_eq!(text, "publication 3: 5 events, error 1.2e-9: 7\n");
        let document: Value = serde_json::from_str(&line(&state(3, 5, 0), &top, true)).unwrap();
        assert_eq!((&document["events"], &document["top"][0]), (&5.into(), &7.into()));
    }
}
