//! What a master says to a worker, and what the worker does with it.

use alloc::vec::Vec;
use core::mem;

use nile_abi::Instant;

use super::{Action, Core, Held, Next, Run, Worker};
use crate::id::{AttemptId, Kind};
use crate::lane::Lane;
use crate::message::{Note, Order, Peer, ToMaster, ToWorker, Work};

impl Worker {
    /// A message of a master.
    pub fn receive(&mut self, now: Instant, message: ToWorker) {
        if message.job != self.job_id || self.is_dropped {
            return;
        }
        if message.epoch < self.epoch {
            return self.refuse(message);
        }
        let is_opening = message.orders.first == 0 && message.orders.items.is_empty();
        if message.machine != self.machine && (message.machine != 0 || !is_opening) {
            return;
        }
        let [theirs, ours] = [(message.epoch, message.session), (self.epoch, self.session)];
        if theirs < ours {
            return;
        }
        if theirs > ours {
            // A session begins with this worker's word: there are no orders before.
            if !is_opening {
                return;
            }
            (self.epoch, self.session) = theirs;
            self.begin();
        }
        self.master = message.master;
        self.heard = now;
        for order in self.lane.receive(message.orders) {
            self.obey(now, order);
        }
        if message.ask {
            self.lane.answer();
        }
        if self.over.is_some() && matches!(self.core, Core::Idle) && self.lane.is_empty() {
            self.drop_out();
        }
        self.flush(now);
    }

    /// A former master is told that there is a later one.
    fn refuse(&mut self, message: ToWorker) {
        let notes = crate::lane::Batch { first: 0, items: Vec::new(), taken: 0 };
        let answer = ToMaster {
            job: self.job_id,
            epoch: self.epoch,
            session: message.session,
            worker: self.id,
            machine: self.machine,
            running: None,
            notes,
        };
        self.actions.push_back(Action::Send(message.master, answer));
    }

    /// A session begins: what runs is of a former one and stops; what was made is told of.
    fn begin(&mut self) {
        self.lane = Lane::default();
        self.next.clear();
        self.stop();
        if self.over.is_some() {
            return self.lane.push(Note::Over);
        }
        if let Some(plan) = &self.plan {
            self.lane.push(Note::Plan(plan.clone()));
        }
        for (attempt, Held { plan, summary }) in &self.held {
            self.lane.push(Note::Held { attempt: *attempt, plan: *plan, summary: summary.clone() });
        }
        self.lane.push(Note::Ready);
    }

    /// Ends what runs, if anything does.
    pub(super) fn stop(&mut self) {
        match mem::replace(&mut self.core, Core::Idle) {
            Core::Running(run) => {
                self.actions.push_back(Action::Stop(run.attempt));
                self.core = Core::Stopping(run.attempt);
            }
            other => self.core = other,
        }
    }

    fn obey(&mut self, now: Instant, order: Order) {
        match order {
            Order::End(parts) => self.end(now, parts),
            _ if self.over.is_some() => {}
            Order::Job(job) => self.job = Some(*job),
            Order::Plan(plan) => self.plan = Some(plan),
            Order::Assign { attempt, work } => {
                let is_first = matches!(self.core, Core::Idle) && self.next.is_empty();
                if let (false, Work::Split(_)) = (is_first, &work) {
                    self.actions.push_back(Action::Expect(attempt, work.clone()));
                }
                self.next.push_back(Next { attempt, work, outputs: Vec::new() });
            }
            Order::Cancel(attempt) => self.cancel(attempt),
            Order::Drop(attempt) => {
                if self.held.remove(&attempt).is_some() {
                    self.actions.push_back(Action::Drop(attempt));
                }
            }
            Order::Outputs(outputs) => match (self.next.front_mut(), &mut self.core) {
                (Some(next), _) => next.outputs.extend(outputs),
                (None, Core::Running(Run { gathering: Some(gathering), .. })) => {
                    gathering.learn(&outputs);
                    self.fetch(now);
                }
                _ => {}
            },
        }
    }

    fn cancel(&mut self, attempt: AttemptId) {
        if let Some(place) = self.next.iter().position(|next| next.attempt == attempt) {
            self.next.remove(place);
            self.lane.push(Note::Stopped(attempt));
        } else if matches!(&self.core, Core::Running(run) if run.attempt == attempt) {
            self.stop();
        }
        // Else its end is already told of.
    }

    /// The job is over.
    pub(super) fn end(&mut self, now: Instant, parts: Vec<AttemptId>) {
        if self.over.is_some() {
            return;
        }
        self.over = Some(now + self.settings.closing);
        self.next.clear();
        self.stop();
        for (attempt, _) in mem::take(&mut self.held) {
            let is_part = attempt.task.kind == Kind::Reduce && parts.contains(&attempt);
            let action = if is_part { Action::Commit(attempt) } else { Action::Drop(attempt) };
            self.actions.push_back(action);
        }
        if matches!(self.core, Core::Idle) {
            self.finish_over(now);
        }
    }

    /// Nothing runs any more: the master may know.
    pub(super) fn finish_over(&mut self, now: Instant) {
        self.lane.push(Note::Over);
        // The answer tells that it is known; if none comes, it is not waited for.
        self.over = Some(now + self.settings.closing);
    }

    pub(super) fn drop_out(&mut self) {
        if !self.is_dropped && matches!(self.core, Core::Idle) {
            self.is_dropped = true;
            self.actions.push_back(Action::Over);
        }
    }

    /// A message of another worker.
    pub fn receive_peer(&mut self, now: Instant, message: Peer) {
        match message {
            Peer::Fetch { job, piece, by, from } if job == self.job_id => {
                if self.held.contains_key(&piece.output) {
                    self.actions.push_back(Action::Deliver { piece, to: from, by });
                } else {
                    let answer = Peer::Missing { job, piece, by };
                    self.actions.push_back(Action::Peer(from, answer));
                }
            }
            Peer::Missing { job, piece, by } if job == self.job_id => {
                self.is_missing(piece, by);
                self.fetch(now);
            }
            _ => {}
        }
        self.flush(now);
    }
}
