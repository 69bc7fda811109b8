//! The devices of a core as its loop sees them: looked at once a pass while a task waits for them.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{OnceCell, RefCell};

use nile_abi::{CoreId, Instant};
use nile_device::{DrivenDisk, DrivenInterface, DrivenSeat, Line};
use nile_platform::Machine;

use crate::lines::Lines;

/// What a core drives.
#[derive(Default)]
pub struct Devices {
    interfaces: OnceCell<Vec<Rc<DrivenInterface>>>,
    disks: OnceCell<Vec<Rc<DrivenDisk>>>,
    /// What a domain's managing core has of its supervisor.
    seat: OnceCell<Option<Rc<DrivenSeat>>>,
    /// Files of other programs that are used here, by their names.
    files: RefCell<Vec<(u64, Rc<DrivenDisk>)>>,
    /// What they interrupt by.
    pub lines: Lines,
}

impl Devices {
    /// The network interfaces of the calling core, which are opened when they are first asked for.
    pub fn interfaces(&self, machine: &impl Machine) -> &[Rc<DrivenInterface>] {
        let driven = |it| Rc::new(DrivenInterface::new(it));
        let open = || {
            let all: Vec<Rc<DrivenInterface>> =
                machine.interfaces().into_iter().map(driven).collect();
            all.iter().filter_map(|it| it.line()).for_each(|it| self.lines.add(machine, it));
            all
        };
        self.interfaces.get_or_init(open)
    }

    /// The disks of the calling core, which are opened when they are first asked for.
    pub fn disks(&self, machine: &impl Machine) -> &[Rc<DrivenDisk>] {
        let driven = |it| Rc::new(DrivenDisk::new(it));
        let open = || {
            let all: Vec<Rc<DrivenDisk>> = machine.disks().into_iter().map(driven).collect();
            all.iter().filter_map(|it| it.line()).for_each(|it| self.lines.add(machine, it));
            all
        };
        self.disks.get_or_init(open)
    }

    /// The seat of the domain that the calling core manages, if it does.
    pub fn seat(&self, machine: &impl Machine) -> Option<Rc<DrivenSeat>> {
        let open = || machine.seated().map(|it| Rc::new(DrivenSeat::new(it.seat)));
        self.seat.get_or_init(open).clone()
    }

    fn known_seat(&self) -> Option<&Rc<DrivenSeat>> {
        self.seat.get()?.as_ref()
    }

    /// The file that another program has handed to the node under this name.
    pub fn file(&self, machine: &impl Machine, name: u64) -> Option<Rc<DrivenDisk>> {
        let mut files = self.files.borrow_mut();
        let known = files.iter().find(|(known, _)| *known == name && machine.has_file(name));
        if let Some((_, file)) = known {
            return Some(file.clone());
        }
        let file = Rc::new(DrivenDisk::new(machine.file(name)?));
        files.push((name, file.clone()));
        Some(file)
    }

    /// Whether this core looks at any device or file.
    pub fn is_any(&self) -> bool {
        let any = |it: Option<bool>| it.unwrap_or(false);
        any(self.interfaces.get().map(|all| !all.is_empty()))
            || any(self.disks.get().map(|all| !all.is_empty()))
            || !self.files.borrow().is_empty()
    }

    /// Whether a device has something for a task.
    pub fn is_ready(&self) -> bool {
        self.interfaces.get().into_iter().flatten().any(|it| it.is_ready())
            || self.disks.get().into_iter().flatten().any(|disk| disk.is_ready())
            || self.files.borrow().iter().any(|(_, file)| file.is_ready())
            || self.known_seat().is_some_and(|seat| seat.is_ready())
    }

    /// Whether no disk has a request under way.
    pub fn are_drained(&self) -> bool {
        self.disks.get().into_iter().flatten().all(|disk| disk.is_idle())
            && self.files.borrow().iter().all(|(_, file)| file.is_idle())
    }

    /// Wakes the tasks that devices have something for; whether there was one.
    pub fn turn(&self, machine: &impl Machine) -> bool {
        let mut found = false;
        for interface in self.interfaces.get().into_iter().flatten() {
            found |= interface.turn();
        }
        for disk in self.disks.get().into_iter().flatten() {
            found |= disk.turn();
        }
        found |= self.known_seat().is_some_and(|seat| seat.turn());
        if !self.lines.is_empty() {
            self.lines.look(machine, |line| self.done(line));
        }
        let mut files = self.files.borrow_mut();
        files.retain(|(name, file)| {
            found |= file.turn();
            // A file whose program is gone is closed when nobody is at work on it.
            !file.is_idle() || Rc::strong_count(file) > 1 || machine.has_file(*name)
        });
        found
    }

    /// How much the devices of a line have done: requests that ended, frames that came or went.
    fn done(&self, line: Line) -> u64 {
        let traffic = |it: &Rc<DrivenInterface>| {
            let traffic = it.traffic();
            traffic.received + traffic.sent
        };
        let interfaces = self.interfaces.get().into_iter().flatten();
        let frames: u64 = interfaces.filter(|it| it.line() == Some(line)).map(traffic).sum();
        let disks = self.disks.get().into_iter().flatten();
        frames + disks.filter(|it| it.line() == Some(line)).map(|it| it.ended()).sum::<u64>()
    }

    /// When the core has to look at them at the latest, as a line does not tell it.
    #[inline]
    pub fn next_look(&self, now: impl FnOnce() -> Instant, own: CoreId) -> Option<Instant> {
        if self.lines.is_empty() { None } else { self.lines.next_look(now, own) }
    }
}
