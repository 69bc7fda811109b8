//! Real time: by priority, and among equals first in first out. What is urgent runs before all
//! that is not, but for the reserve that everybody has (Dhara, IV.A).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use nile_abi::Instant;

use crate::{Answer, Parameter, Parameters, Ready, Refusal, Scheduling, Subject, Token};

const LOCAL_PRIORITY: Parameter = Parameter::new("local_priority", 0, 99);

/// Real time.
#[derive(Default)]
pub struct RealTime {
    priorities: BTreeMap<Subject, i64>,
    /// What is ready, by priority, the highest first; no queue is empty.
    ready: BTreeMap<Reverse<i64>, VecDeque<Token>>,
}

impl RealTime {
    /// Its global priority.
    pub const PRIORITY: i64 = 30;

    fn priority(&self, subject: Subject) -> i64 {
        self.priorities.get(&subject).copied().unwrap_or(0)
    }
}

impl Scheduling for RealTime {
    fn parameters(&self) -> &'static [Parameter] {
        &[LOCAL_PRIORITY]
    }

    fn admit(&mut self, subject: Subject, it: &Parameters, _: Instant) -> Result<(), Refusal> {
        self.priorities.insert(subject, it.get(LOCAL_PRIORITY.name).unwrap_or(0));
        Ok(())
    }

    fn leave(&mut self, subject: Subject) {
        self.priorities.remove(&subject);
    }

    fn enqueue(&mut self, it: &Ready) {
        let priority = Reverse(self.priority(it.subject));
        self.ready.entry(priority).or_default().push_back(it.token);
    }

    fn dequeue(&mut self, it: Token) {
        let mut empty = Vec::new();
        for (priority, queue) in &mut self.ready {
            queue.retain(|token| *token != it);
            if queue.is_empty() {
                empty.push(*priority);
            }
        }
        for priority in empty {
            self.ready.remove(&priority);
        }
    }

    fn next(&mut self, _: Instant) -> Option<Answer> {
        let mut first = self.ready.first_entry()?;
        let token = first.get_mut().pop_front();
        if first.get().is_empty() {
            first.remove();
        }
        token.map(|token| Answer::Run(token, None))
    }
}
