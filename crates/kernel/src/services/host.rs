//! A core as its service transport layer sees it.

use alloc::boxed::Box;
use alloc::rc::Rc;
use core::fmt;
use core::time::Duration;

use nile_abi::{CoreId, Generation, Instant, Status, Window};
use nile_platform::Machine;
use nile_policy::Subject;
use nile_stl::frame::{CallId, Header};
use nile_stl::node::Node;
use nile_stl::{Host, LocalFuture};

use crate::core::Core;

/// A core beneath a transport layer.
pub(super) struct CoreHost<M: Machine>(pub Core<M>);

impl<M: Machine> Host for CoreHost<M> {
    fn core(&self) -> CoreId {
        self.0.id()
    }

    fn generation(&self) -> Generation {
        self.0.machine.generation()
    }

    fn cores(&self) -> usize {
        self.0.machine.board().cores()
    }

    fn generation_of(&self, core: CoreId) -> Generation {
        let board = self.0.machine.board();
        if core.index() < board.cores() { board.record(core).generation() } else { Generation(0) }
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        self.0.machine.log(line);
    }

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn spawn(&self, task: LocalFuture<'static, ()>) {
        self.0.spawn(task);
    }

    fn sleep_until(&self, due: Instant) -> LocalFuture<'static, ()> {
        Box::pin(self.0.sleep_until(due))
    }

    fn sleep_in(&self, window: Window) -> LocalFuture<'static, ()> {
        Box::pin(self.0.sleep_in(window))
    }

    fn send(&self, to: CoreId, header: &Header, data: &[u8]) -> Result<(), Status> {
        let link = self.0.link(to)?;
        if matches!(header, Header::Request { .. }) && link.is_crowded() {
            return Err(Status::Busy);
        }
        link.send(&self.0, to, header, data);
        Ok(())
    }

    fn working_for(&self, call: Option<(CoreId, CallId)>) {
        let machine = &self.0.machine;
        let record = machine.board().record(machine.core());
        record.set_working_for(machine.generation(), call.map(|(core, call)| (core, call.0)));
    }

    fn answered(&self, took: Duration) {
        let machine = &self.0.machine;
        machine.board().record(machine.core()).count_answer(took);
    }

    fn subject(&self, name: &str) -> Subject {
        self.0.executor.subject(name)
    }

    fn act_as(&self, subject: Subject) -> Subject {
        self.0.executor.act_as(subject)
    }

    fn node(&self) -> Option<Rc<dyn Node>> {
        Some(Rc::new(CoreHost(self.0.clone())))
    }
}
