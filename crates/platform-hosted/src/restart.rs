//! What happens when a core's incarnation ends badly: its record says why, its managers are
//! woken, and a next incarnation starts, unless the core does nothing but die.

use std::time::{Duration, Instant};

use nile_abi::{CoreId, Generation};
use nile_platform::{CorePhase, Fault, NodePhase, Outcome};

use crate::node::{Node, log};

/// An incarnation that ends sooner than this after its start has ended in its first moments.
const FIRST_MOMENTS: Duration = Duration::from_secs(1);

/// How many times in a row a core may end in its first moments and still be restarted.
const MAX_EARLY_ENDS: u32 = 8;

/// The incarnations of one core.
#[derive(Clone)]
pub(crate) struct Lives {
    core: CoreId,
    generation: Generation,
    began: Instant,
    early_ends: u32,
}

impl Lives {
    /// The first incarnation of `core`, which starts now.
    pub fn first(core: CoreId) -> Lives {
        Lives { core, generation: Generation::FIRST, began: Instant::now(), early_ends: 0 }
    }

    /// The core.
    pub fn core(&self) -> CoreId {
        self.core
    }

    /// The present incarnation.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Ends the present incarnation because of `fault` and says whether a next one is to start.
    /// The core itself must not run: this writes its record.
    pub fn end(&mut self, node: &Node, fault: Fault) -> bool {
        let early = self.began.elapsed() < FIRST_MOMENTS;
        self.early_ends = if early { self.early_ends + 1 } else { 0 };
        let stopping = node.board.phase() == NodePhase::Stopping;
        let again = self.early_ends <= MAX_EARLY_ENDS && !stopping;
        let record = node.board.record(self.core);
        record.set_fault(fault);
        let (who, ended, what) = (self.core.to_string(), self.generation, describe(fault));
        if again {
            self.generation = ended.next();
            self.began = Instant::now();
            record.set_generation(self.generation);
            record.set_phase(CorePhase::Restarting);
            log(&who, format_args!("{ended} ended: {what}; {} starts", self.generation));
        } else {
            let why = if stopping { "the node stops" } else { "once too often" };
            log(&who, format_args!("{ended} ended: {what}; {why}, it stays stopped"));
            self.stop(node);
        }
        node.wake_managers_of(self.core);
        again
    }

    /// Ends the present incarnation, which has left as planned; whether the next one is to start,
    /// which is not while the core is away. The core itself must not run.
    pub fn leave(&mut self, node: &Node) -> bool {
        let (record, who) = (node.board.record(self.core), self.core.to_string());
        let is_away = node.board.record(CoreId::BOOT).is_away(self.core);
        let ended = self.generation;
        self.generation = ended.next();
        record.set_fault(Fault::LEFT);
        record.set_phase(if is_away { CorePhase::Away } else { CorePhase::Restarting });
        record.set_generation(self.generation);
        match is_away {
            true => {
                log(&who, format_args!("{ended} has left, and is away until it is called back"))
            }
            false => {
                log(&who, format_args!("{ended} has left as planned; {} starts", self.generation));
                self.began = Instant::now();
            }
        }
        node.wake_managers_of(self.core);
        !is_away
    }

    /// The same, whose present incarnation starts now.
    pub fn begun(mut self) -> Lives {
        self.began = Instant::now();
        self
    }

    /// The core's loop has ended for good. A node cannot go on without the core that manages it.
    pub fn stop(&self, node: &Node) {
        node.board.record(self.core).set_phase(CorePhase::Stopped);
        if self.core == CoreId::BOOT {
            node.finish(Outcome::Failure);
        }
    }
}

fn describe(fault: Fault) -> String {
    let Fault { code, at, address, .. } = fault;
    let mut text = fault.kind_name().to_owned();
    if code != 0 {
        text += &format!(", code {code}");
    }
    if address != 0 {
        text += &format!(", touching {address:#x}");
    }
    if at != 0 {
        text += &format!(", at {at:#x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_described_by_what_is_known_of_it() {
        let killed = Fault { kind: Fault::KILLED, code: 9, at: 0, address: 0 };
        assert_eq!(describe(killed), "killed, code 9");
        let page = Fault { kind: Fault::PAGE, code: 11, at: 0x40, address: 0x1000 };
        assert_eq!(describe(page), "page fault, code 11, touching 0x1000, at 0x40");
    }
}
