//! A command's first steps: its stores, in an order that a successor can undo, and its messages.

use nile_abi::Instant;

use super::{Action, RequestId, Resizing, Step, Supervisor, Task, Work};
use crate::command::{Command, Create};
use crate::domain::{Domain, Lifecycle};
use crate::message::Message;
use crate::plan::{Plan, Source};
use crate::refused::Thing;
use crate::words::{Party, Words};

impl<W: Words> Supervisor<W> {
    pub(super) fn begin(
        &mut self,
        now: Instant,
        request: RequestId,
        command: &Command,
        plan: Plan,
    ) {
        let slot = plan.domain.slot;
        let ask = Some(now + self.deadlines.ask);
        let (deadline, task) = match command {
            Command::Create(create) => {
                self.begin_create(now, create, &plan);
                (Some(now + self.deadlines.build), Task::Create { asked: false })
            }
            Command::Resize(resize) => {
                let resizing = self.begin_resize(now, &plan, resize.force);
                (Some(self.step_ends(now, &resizing)), Task::Resize(resizing))
            }
            Command::Destroy { force, .. } => {
                return self.begin_destroy(now, request, &plan, *force);
            }
            Command::Lend { millis, .. } => {
                let Some(to) = plan.to else { return };
                for core in &plan.leave {
                    let due = now + self.deadlines.ask + Command::span(*millis);
                    self.ledger.set_due(*core, due);
                    let [lender, next] = [slot, to.slot].map(Party::Domain);
                    self.ask_back(*core, next, lender);
                }
                (ask, Task::Lend { to, cores: plan.leave })
            }
            Command::Recall { .. } => {
                for core in &plan.leave {
                    let lender = self.ledger.holding(Thing::Core(*core)).lender;
                    self.recall(now, *core, lender);
                }
                (None, Task::Recall)
            }
        };
        self.resizes(slot);
        self.works.insert(slot, Work { request: Some(request), deadline, task });
    }

    fn begin_create(&mut self, now: Instant, create: &Create, plan: &Plan) {
        let Create { name, limits, .. } = *create;
        let (limits, state) = (limits.of_something(), Lifecycle::Building);
        self.ledger.enter(now, &Domain { id: plan.domain, state, limits, name });
        self.gather(now, plan);
        if let Some(device) = plan.device {
            self.ledger.hand(Thing::Device(device), Some(plan.domain), Party::Pool);
        }
    }

    /// What the plan takes from the pool and from others is the domain's, or will be.
    fn gather(&mut self, now: Instant, plan: &Plan) {
        for (core, source) in &plan.cores {
            match source {
                Source::Pool => {
                    self.ledger.hand(Thing::Core(*core), Some(plan.domain), Party::Pool);
                }
                Source::From(_) => self.recall(now, *core, Party::Domain(plan.domain.slot)),
            }
        }
        for unit in plan.extents.iter().flat_map(|extent| extent.units()) {
            self.ledger.hand(Thing::Unit(unit), Some(plan.domain), Party::Pool);
        }
    }

    fn begin_resize(&mut self, now: Instant, plan: &Plan, force: bool) -> Resizing {
        self.resizes(plan.domain.slot);
        self.gather(now, plan);
        for core in &plan.leave {
            match force {
                true => self.recall(now, *core, Party::Pool),
                false => self.ask_back(*core, Party::Pool, Party::Pool),
            }
        }
        if plan.want > 0 {
            self.send(plan.domain, Message::WantMemory(plan.want));
        }
        let comes = plan.cores.iter().any(|(_, source)| *source != Source::Pool);
        Resizing {
            step: Step::Taking,
            cores: plan.cores.iter().map(|(core, _)| *core).collect(),
            extents: plan.extents.clone(),
            missing: plan.want,
            forces: force || comes,
        }
    }

    fn begin_destroy(&mut self, now: Instant, request: RequestId, plan: &Plan, force: bool) {
        let Some(domain) = self.ledger.domain(plan.domain) else { return };
        if let Some(work) = self.works.remove(&domain.id.slot) {
            self.tell(&work, Err(crate::Refused::Died));
        }
        let deadline = Some(now + self.deadlines.stop);
        let work = Work { request: Some(request), deadline, task: Task::Destroy };
        self.works.insert(domain.id.slot, work);
        let runs = domain.state.is_running();
        match force || !runs {
            true => self.die(now, &domain),
            false => {
                self.set_state(&domain, Lifecycle::Draining);
                self.actions.push_back(Action::Send(domain.id, Message::Stop));
            }
        }
    }
}
