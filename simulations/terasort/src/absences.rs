//! When nodes were away, by loss of power or behind a cable that was cut.

use std::collections::BTreeSet;
use std::time::Duration;

use nile_abi::Instant;

/// A node is away.
#[derive(Clone, Copy, Debug)]
struct Absence {
    node: usize,
    from: Instant,
    to: Option<Instant>,
}

impl Absence {
    fn is_at(&self, moment: Instant) -> bool {
        self.from <= moment && self.to.is_none_or(|to| moment < to)
    }
}

/// All absences of a run, those to come among them.
#[derive(Default, Debug)]
pub struct Absences(Vec<Absence>);

impl Absences {
    /// A node is away from one moment to another, or for good.
    pub fn add(&mut self, node: usize, from: Instant, to: Option<Instant>) {
        self.0.push(Absence { node, from, to });
    }

    /// Whether a node is away then.
    pub fn is_away(&self, node: usize, moment: Instant) -> bool {
        self.0.iter().any(|it| it.node == node && it.is_at(moment))
    }

    /// All nodes come back now: those that would have stayed away.
    pub fn end(&mut self, now: Instant) -> Vec<usize> {
        let lasts = |it: &&mut Absence| it.to.is_none_or(|to| to > now);
        let ended = self.0.iter_mut().filter(lasts).map(|it| {
            it.to = Some(now);
            it.node
        });
        ended.collect()
    }

    /// The longest time between two moments for which all these nodes were away together.
    pub fn longest(&self, nodes: &BTreeSet<usize>, since: Instant, now: Instant) -> Duration {
        let ends = self.0.iter().flat_map(|it| [it.from, it.to.unwrap_or(now)]);
        let between = ends.filter(|it| *it > since && *it < now);
        let moments: BTreeSet<Instant> = between.chain([since, now]).collect();
        let mut longest = Duration::ZERO;
        let mut begun = None;
        for moment in moments {
            let all_away = moment < now && nodes.iter().all(|node| self.is_away(*node, moment));
            match (all_away, begun) {
                (true, None) => begun = Some(moment),
                (false, Some(from)) => {
                    longest = longest.max(moment.since(from));
                    begun = None;
                }
                _ => {}
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_away_together_while_all_of_them_are() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut absences = Absences::default();
        absences.add(0, at(10), Some(at(50)));
        absences.add(1, at(30), None);
        absences.add(0, at(60), Some(at(65)));
        let longest = |absences: &Absences, nodes: &[usize]| {
            let nodes = nodes.iter().copied().collect();
            absences.longest(&nodes, at(20), at(100)).as_millis()
        };
        assert_eq!(longest(&absences, &[0]), 30);
        assert_eq!(longest(&absences, &[0, 1]), 20);
        assert_eq!(longest(&absences, &[1]), 70);
        assert_eq!(longest(&absences, &[0, 1, 2]), 0);
        assert!(absences.is_away(1, at(99)) && !absences.is_away(0, at(55)));
        assert_eq!(absences.end(at(80)), [1]);
        assert_eq!(longest(&absences, &[1]), 50);
    }
}
