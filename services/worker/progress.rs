//! Whether a package goes on with what it does. That its core lives its master hears from the core,
//! however long the package computes. But code that loops does so wherever it runs, and nobody
//! else can tell: so an attempt has failed that has neither taken nor given anything for as long as
//! its job allows, and its package is stopped.

use alloc::format;
use alloc::rc::Rc;
use core::time::Duration;

use nile_abi::{Status, Window};
use nile_job::Job;
use nile_stl::CallError;
use nile_stl::node::RunningPackage;

use super::engine::Engine;

impl Engine {
    /// The package calls, or a call of its is over.
    pub fn hears(&self, begins: bool) {
        let now = self.now();
        if let Some(program) = &mut self.state.borrow_mut().program {
            program.heard = now;
            let calls = program.calls;
            program.calls = if begins { calls + 1 } else { calls.saturating_sub(1) };
        }
    }

    /// Stops a package that does nothing for longer than its job allows; whatever it waits for in
    /// a call is not its fault.
    pub(super) fn see_to_progress(self: &Rc<Self>, job: &Rc<Job>, running: Rc<dyn RunningPackage>) {
        let Some(seconds) = job.task_timeout else { return };
        let (engine, job) = (self.clone(), job.clone());
        let most = Duration::from_secs(seconds.into());
        self.stl.host().spawn(alloc::boxed::Box::pin(async move {
            let mut due = engine.now() + most;
            loop {
                engine.stl.host().sleep_in(Window::within(due, most / 8)).await;
                let now = engine.now();
                let program = engine.state.borrow();
                let it = program.program.as_ref().filter(|it| Rc::ptr_eq(&it.running, &running));
                let Some((heard, calls)) = it.map(|it| (it.heard, it.calls)) else { return };
                drop(program);
                due = if calls > 0 { now + most } else { heard + most };
                if due <= now {
                    engine.give_up(&job, seconds);
                    running.stop();
                    return;
                }
            }
        }));
    }

    /// What the package works on has failed.
    fn give_up(self: &Rc<Self>, job: &Job, seconds: u32) {
        let text = format!(
            "it has done nothing for {seconds} s, neither taken input nor given output: it loops, \
             or is slower than --task-timeout allows"
        );
        let found = self.with_job(job.id, |it| {
            let ticket = it.desk.working();
            let attempt = it.attempt.clone().filter(|it| Some(it.ticket) == ticket);
            (attempt, it.cut.clone().filter(|it| Some(it.ticket) == ticket))
        });
        let Some((attempt, cut)) = found else { return };
        if let Some(cut) = cut {
            cut.fail(CallError::new(Status::Failed, text.clone()));
            self.changes.notify();
        }
        if let Some(attempt) = attempt {
            self.fail_by_code(&attempt, &text);
        }
    }
}
