//! Cores of a domain's node, whose hardware comes and goes.

use nile_abi::CoreId;
use nile_platform::{CorePhase, Fault};

use super::{Finished, Scheduler};
use crate::status::Status;
use crate::trace::Happening;

impl Scheduler<'_> {
    /// A core that has no hardware yet: it is away.
    pub fn begin_away(&mut self, core: CoreId) {
        let state = self.state.borrow();
        state.board.record(core).set_phase(CorePhase::Away);
        state.board.record(CoreId::BOOT).set_away(core, true);
        drop(state);
        self.cores[core.index()].status = Status::Away;
    }

    /// Whether a core is away.
    pub fn is_away(&self, core: CoreId) -> bool {
        matches!(self.cores.get(core.index()).map(|it| &it.status), Some(Status::Away))
    }

    /// A core's hardware is taken, whatever it does. Nobody of the node is told.
    pub fn lose_hardware(&mut self, core: CoreId) {
        let at = core.index();
        self.cores[at].body = None;
        self.cores[at].status = Status::Away;
        drop(self.cores[at].bell.prepare());
        let mut state = self.state.borrow_mut();
        state.end_pass(core);
        state.set_tick(core, None);
        state.sources[at] = 0;
        state.note(core, Happening::Stop, Fault::KILLED);
        state.memory.flush(core);
    }

    /// What a domain came to whose hardware is taken: what its pool held stays where that was.
    pub fn close(mut self) -> Finished {
        self.cores.iter_mut().for_each(|core| core.body = None);
        let state = self.state.borrow();
        if let (Some(own), Some(pool)) = (state.memory.own(), &state.pool) {
            own.close_pool(pool);
        }
        drop(state);
        self.finish()
    }
}
