//! The machines that listen for the switch, and when to try each again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long the switch waits after the first try that failed; twice as long after every other.
const SOON: Duration = Duration::from_millis(5);

/// How long it waits at most, and after a connection that hardly lived.
const LATE: Duration = Duration::from_millis(200);

/// When to dial whom.
#[derive(Default)]
pub struct Dials {
    machines: BTreeMap<String, State>,
}

#[derive(Clone, Copy)]
enum State {
    /// To be tried at a moment; for how long to pause if it fails.
    Out(Instant, Duration),
    /// Plugged in, since a moment.
    In(Instant),
}

impl Dials {
    /// From `now` on `name` is to be plugged in.
    pub fn add(&mut self, name: &str, now: Instant) {
        self.machines.entry(name.into()).or_insert(State::Out(now, SOON));
    }

    /// `name` is no longer to be plugged in; whether it was.
    pub fn remove(&mut self, name: &str) -> bool {
        self.machines.remove(name).is_some()
    }

    /// The machines to try at `now`.
    pub fn due(&self, now: Instant) -> Vec<String> {
        let due = |state: &State| matches!(state, State::Out(at, _) if *at <= now);
        let names = self.machines.iter().filter(|(_, state)| due(state));
        names.map(|(name, _)| name.clone()).collect()
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<Instant> {
        let at = |state: &State| match state {
            State::Out(at, _) => Some(*at),
            State::In(_) => None,
        };
        self.machines.values().filter_map(at).min()
    }

    /// `name` did not answer at `now`.
    pub fn failed(&mut self, name: &str, now: Instant) {
        if let Some(State::Out(at, pause)) = self.machines.get_mut(name) {
            *at = now + *pause;
            *pause = LATE.min(2 * *pause);
        }
    }

    /// `name` is plugged in from `now` on.
    pub fn reached(&mut self, name: &str, now: Instant) {
        if let Some(state) = self.machines.get_mut(name) {
            *state = State::In(now);
        }
    }

    /// `name` is no longer plugged in at `now`.
    pub fn lost(&mut self, name: &str, now: Instant) {
        if let Some(state @ State::In(_)) = self.machines.get_mut(name) {
            let lived = matches!(state, State::In(since) if now >= *since + LATE);
            *state = State::Out(now + if lived { SOON } else { LATE }, SOON);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_answer_is_tried_ever_more_seldom() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut dials = Dials::default();
        dials.add("n1", start);
        dials.add("n1", at(90));
        let mut tried = Vec::new();
        while let Some(next) = dials.next().filter(|next| *next < at(1000)) {
            assert_eq!(dials.due(next), ["n1"]);
            tried.push((next - start).as_millis());
            dials.failed("n1", next);
        }
        assert_eq!(tried, [0, 5, 15, 35, 75, 155, 315, 515, 715, 915]);
        dials.reached("n1", at(1000));
        assert_eq!(dials.next(), None);
        dials.lost("n1", at(2000));
        assert_eq!(dials.next(), Some(at(2005)));
        // One that hangs up at once does not keep the switch busy.
        dials.reached("n1", at(2005));
        dials.lost("n1", at(2006));
        assert_eq!(dials.next(), Some(at(2206)));
        assert!(dials.remove("n1") && !dials.remove("n1"));
        assert_eq!((dials.next(), dials.due(at(3000)).len()), (None, 0));
    }
}
