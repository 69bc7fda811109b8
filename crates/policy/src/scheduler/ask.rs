//! What policies are asked, and what becomes of one that answers wrong.

use core::time::Duration;

use nile_abi::Instant;

use super::Scheduler;
use crate::class::{GUARD, SLICE, usual_slice};
use crate::turn::Asked;
use crate::{Answer, ClassId, Decision, Expelled, Expulsion};

/// Failures after which a policy is expelled.
const MOST_FAILURES: u64 = 3;

/// The shortest slice; a policy that gives less gives this.
const LEAST_SLICE: Duration = Duration::from_micros(100);

impl<T> Scheduler<T> {
    /// What a class that has something gives.
    pub(super) fn ask(&mut self, id: ClassId, now: Instant) -> Asked {
        let answer = self.class(id).policy.as_mut().map(|policy| policy.next(now));
        let failure = match answer {
            // The default, which is no call.
            None => {
                let slice = usual_slice(id);
                return self.oldest(id).map_or(Asked::Wait(now), |it| Asked::Run(it, slice));
            }
            Some(Some(Answer::Wait(until))) if until > now => return Asked::Wait(until),
            Some(Some(Answer::Run(token, slice))) => {
                match self.entry(token).map(|entry| (entry.class, entry.subject)) {
                    Some((class, subject)) if class == id => {
                        let class = self.class(id);
                        class.last.note(class.decisions, subject);
                        class.decisions += 1;
                        let slice = slice.map_or(GUARD, |slice| slice.clamp(LEAST_SLICE, GUARD));
                        return Asked::Run(token, slice);
                    }
                    Some((_, subject)) => Decision::Foreign(subject),
                    None => Decision::Gone,
                }
            }
            Some(Some(Answer::Wait(_))) => Decision::Past,
            Some(None) => Decision::Nothing,
        };
        let oldest = self.oldest(id);
        let class = self.class(id);
        class.last.note_wrong(class.decisions, failure);
        class.refused += 1;
        if class.refused >= MOST_FAILURES {
            self.expel(id, failure, now);
            // Its oldest is the default's now, by another token.
            return self
                .oldest(ClassId::DEFAULT)
                .map_or(Asked::Wait(now), |it| Asked::Run(it, SLICE));
        }
        let Some(oldest) = oldest else { return Asked::Wait(now) };
        self.dequeue(id, oldest);
        Asked::Run(oldest, SLICE)
    }

    /// Ends a policy, whose subjects are the default's.
    fn expel(&mut self, id: ClassId, failure: Decision, at: Instant) {
        let subjects = self.class(id).subjects;
        self.rebind(id, ClassId::DEFAULT, |_| true);
        let why = match failure {
            Decision::Nothing | Decision::Past => Expulsion::Silent,
            _ => Expulsion::Wrong,
        };
        let class = self.class(id);
        let last = class.last.last(class.decisions);
        class.expelled = Some(Expelled { why, subjects, at, last });
        class.policy = None;
        self.expelled.push(id);
    }
}
