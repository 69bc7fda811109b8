//! A core as whoever binds its subjects to policies sees it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::task::{Context, Poll};

use nile_abi::{CoreId, Instant};
use nile_platform::{Board, Machine};
use nile_policy::{
    Answer, Manager, Parameter, Parameters, Ran, Ready, Refusal, Scheduling, Statistics, Subject,
    SubjectState,
};

use super::host::CoreHost;
use crate::control::{self, Request};

impl<M: Machine> Manager for CoreHost<M> {
    fn subjects(&self) -> Vec<SubjectState> {
        self.0.executor.subjects()
    }

    fn policies(&self) -> Vec<Statistics> {
        self.0.executor.policies()
    }

    fn install(&self, name: &str, priority: i64, policy: Box<dyn Scheduling>) {
        let (board, core) = (self.0.machine.board().clone(), self.0.id());
        let number = board.record(core).name_policy(name);
        let noted = Noted { policy, board, core, number };
        self.0.executor.install(name, priority, Box::new(noted));
    }

    fn bind(&self, subject: &str, policy: &str, parameters: &Parameters) -> Result<(), Refusal> {
        self.0.executor.bind(subject, policy, parameters, self.0.now())?;
        if !self.note_bound() {
            // Lost with its incarnation: the next one looks by itself.
            self.0.client.post(&self.0, Request::Watch.encode(control::UNANSWERED));
        }
        Ok(())
    }

    fn unbind(&self, subject: &str) -> bool {
        let was_bound = self.0.executor.unbind(subject);
        self.note_bound();
        was_bound
    }

    fn poll_expelled(&self, context: &mut Context<'_>) -> Poll<String> {
        self.0.executor.poll_expelled(context)
    }
}

impl<M: Machine> CoreHost<M> {
    /// Says in the core's record whether it asks policies; gives whether it did.
    fn note_bound(&self) -> bool {
        let record = self.0.machine.board().record(self.0.id());
        let was_bound = record.is_bound();
        record.set_bound(self.0.executor.is_bound());
        was_bound
    }
}

/// A policy while which decides the core's record says so: the managing core sees from that which
/// one does not return, and the core's next incarnation in which one the last has ended.
struct Noted {
    policy: Box<dyn Scheduling>,
    board: Board,
    core: CoreId,
    number: u64,
}

impl Noted {
    fn ask<R>(&mut self, work: impl FnOnce(&mut dyn Scheduling) -> R) -> R {
        let record = self.board.record(self.core);
        record.set_policy(self.number);
        let result = work(&mut *self.policy);
        record.set_policy(0);
        result
    }
}

impl Scheduling for Noted {
    fn parameters(&self) -> &'static [Parameter] {
        self.policy.parameters()
    }

    fn is_by_age(&self) -> bool {
        self.policy.is_by_age()
    }

    fn is_bounded(&self) -> bool {
        self.policy.is_bounded()
    }

    fn goes_on(&self) -> bool {
        self.policy.goes_on()
    }

    fn admit(&mut self, it: Subject, given: &Parameters, now: Instant) -> Result<(), Refusal> {
        self.ask(|policy| policy.admit(it, given, now))
    }

    fn leave(&mut self, subject: Subject) {
        self.ask(|policy| policy.leave(subject));
    }

    fn enqueue(&mut self, it: &Ready) {
        self.ask(|policy| policy.enqueue(it));
    }

    fn dequeue(&mut self, it: &Ready) {
        self.ask(|policy| policy.dequeue(it));
    }

    fn next(&mut self, now: Instant) -> Option<Answer> {
        self.ask(|policy| policy.next(now))
    }

    fn ran(&mut self, it: &Ran) {
        self.ask(|policy| policy.ran(it));
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use nile_policy::policies::{EarliestDeadline, Fair, Fifo, RealTime};
    use nile_policy::{Next, Scheduler, Stop};
    use nile_ring::{Doorbells, Region};

    use super::*;

    fn noted(policy: Box<dyn Scheduling>) -> Noted {
        let board = Board::in_memory(1, Region::owned(Doorbells::region_len(1)));
        Noted { policy, board, core: CoreId::BOOT, number: 1 }
    }

    #[test]
    fn promised_budgets_go_before_who_has_waited() {
        let mut scheduler = Scheduler::default();
        let policy = noted(Box::<EarliestDeadline>::default());
        let class =
            scheduler.install("earliest_deadline", EarliestDeadline::PRIORITY, Box::new(policy));
        let budget = Parameters::none().with("period_us", 1_000_000).with("budget_us", 900_000);
        let (waits, promised, mut now) = (Subject(0), Subject(1), Instant::START);
        scheduler.bind(promised, class, &budget, now).unwrap();
        scheduler.enqueue(waits, waits, now);
        // Beyond the guard of 100 ms, and within the budget.
        while now < Instant::START + Duration::from_millis(500) {
            scheduler.enqueue(promised, promised, now);
            let Next::Run(picked) = scheduler.next(now) else { panic!("two are ready") };
            assert_eq!(picked.task, promised, "at {now:?}");
            let end = now + Duration::from_millis(1);
            scheduler.ran(picked.turn, now, end, Stop::Waits);
            now = end;
        }
    }

    #[test]
    fn a_policy_is_noted_as_what_it_says_of_itself() {
        let all: [fn() -> Box<dyn Scheduling>; 4] = [
            || Box::<RealTime>::default(),
            || Box::<EarliestDeadline>::default(),
            || Box::<Fair>::default(),
            || Box::<Fifo>::default(),
        ];
        let says =
            |it: &dyn Scheduling| (it.parameters(), it.is_by_age(), it.is_bounded(), it.goes_on());
        let said = all.map(|make| says(&*make()));
        assert_eq!(all.map(|make| says(&noted(make()))), said);
        // Each says something that not all say.
        assert!(said.iter().any(|it| it.1) && said.iter().any(|it| it.2));
        assert!(said.iter().any(|it| it.3) && said.iter().any(|it| !it.3));
    }
}
