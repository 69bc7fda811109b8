//! The machine as a supervisor has it that dies in the midst of what it does to it.

use std::cell::RefCell;
use std::rc::Rc;

use nile_abi::Status;
use nile_platform::{Domains, Entry, Grant, Seat, Wanted};
use nile_ring::Region;

use super::Misdeed;
use super::user::User;

/// The machine.
pub struct Dying<'a> {
    pub machine: &'a dyn Domains,
    pub user: &'a Rc<RefCell<User>>,
    pub misdeed: Misdeed,
}

impl Dying<'_> {
    /// Perhaps the supervisor gets no further.
    fn go_on(&self) {
        let dies = self.user.borrow_mut().dies();
        if dies {
            // As a panic, which nobody is told of outside.
            std::panic::resume_unwind(Box::new(String::from("the supervisor dies")));
        }
    }
}

impl Domains for Dying<'_> {
    fn cores(&self) -> u16 {
        self.machine.cores()
    }

    fn memory(&self) -> Grant {
        self.machine.memory()
    }

    fn most(&self) -> u8 {
        self.machine.most()
    }

    fn seat(&self, slot: u8) -> Option<Seat> {
        self.machine.seat(slot)
    }

    fn build(&self, wanted: &Wanted<'_>) -> Result<(), Status> {
        self.go_on();
        let built = self.machine.build(wanted);
        self.go_on();
        built
    }

    fn admit(&self, entry: &Entry) -> Result<(), Status> {
        self.go_on();
        let admitted = self.machine.admit(entry);
        self.go_on();
        admitted
    }

    fn interrupt(&self, core: u16) {
        self.go_on();
        self.machine.interrupt(core);
    }

    fn is_parked(&self, core: u16) -> bool {
        self.machine.is_parked(core)
    }

    fn park(&self, cores: &[u16]) {
        self.go_on();
        match self.misdeed {
            Misdeed::TakesNothing => {}
            Misdeed::TakesRed => {
                let all: Vec<u16> =
                    cores.iter().copied().chain(self.user.borrow().of_red()).collect();
                self.machine.park(&all);
            }
            _ => self.machine.park(cores),
        }
        self.user.borrow_mut().counts.forced += cores.len() as u64;
        self.go_on();
    }

    fn scrub(&self, memory: Grant) {
        self.go_on();
        if self.misdeed != Misdeed::LeavesMemory {
            self.machine.scrub(memory);
        }
    }

    fn disks(&self) -> u16 {
        self.machine.disks()
    }

    fn is_part(&self, disk: u16) -> bool {
        self.machine.is_part(disk)
    }

    fn confines(&self, disk: u16) -> bool {
        self.machine.confines(disk)
    }

    fn renew(&self, disk: u16) -> bool {
        self.go_on();
        self.misdeed == Misdeed::LeavesParts || self.machine.renew(disk)
    }

    fn ledger(&self) -> Region {
        self.machine.ledger()
    }
}
