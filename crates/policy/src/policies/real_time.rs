//! Real time: by priority, and among equals first in first out. What is urgent runs before all
//! that is not, but for the reserve that everybody has (Dhara, IV.A).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use nile_abi::Instant;

use crate::{Answer, Parameter, Parameters, Ready, Refusal, Scheduling, Subject, Token};

const LOCAL_PRIORITY: Parameter = Parameter::new("local_priority", 0, 99);

/// Real time.
#[derive(Default)]
pub struct RealTime {
    priorities: Vec<(Subject, i64)>,
    /// What is ready, by priority, the highest first.
    ready: VecDeque<(i64, Subject, Token)>,
}

impl RealTime {
    /// Its global priority.
    pub const PRIORITY: i64 = 30;

    fn priority(&self, subject: Subject) -> i64 {
        let own = self.priorities.iter().find(|(known, _)| *known == subject);
        own.map_or(0, |(_, priority)| *priority)
    }

    /// Behind all that is as urgent.
    fn insert(&mut self, subject: Subject, token: Token) {
        let priority = self.priority(subject);
        let place = self.ready.partition_point(|(other, ..)| *other >= priority);
        self.ready.insert(place, (priority, subject, token));
    }
}

impl Scheduling for RealTime {
    fn parameters(&self) -> &'static [Parameter] {
        &[LOCAL_PRIORITY]
    }

    fn goes_on(&self) -> bool {
        true
    }

    fn admit(&mut self, subject: Subject, it: &Parameters, _: Instant) -> Result<(), Refusal> {
        self.leave(subject);
        self.priorities.push((subject, it.get(LOCAL_PRIORITY.name).unwrap_or(0)));
        // What is ready already is as urgent now as what comes later.
        let is_own = |(_, whose, _): &(i64, Subject, Token)| *whose == subject;
        let own: Vec<Token> = self.ready.iter().filter(|it| is_own(it)).map(|it| it.2).collect();
        self.ready.retain(|it| !is_own(it));
        own.into_iter().for_each(|token| self.insert(subject, token));
        Ok(())
    }

    fn leave(&mut self, subject: Subject) {
        self.priorities.retain(|(known, _)| *known != subject);
    }

    fn enqueue(&mut self, it: &Ready) {
        self.insert(it.subject, it.token);
    }

    fn dequeue(&mut self, it: &Ready) {
        self.ready.retain(|(.., token)| *token != it.token);
    }

    fn next(&mut self, _: Instant) -> Option<Answer> {
        self.ready.pop_front().map(|(.., token)| Answer::Run(token, None))
    }
}
