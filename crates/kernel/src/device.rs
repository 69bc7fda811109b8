//! The devices of a core as its loop sees them: looked at once a pass while a task waits for them.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{OnceCell, RefCell};
use core::ops::Deref;
use core::task::{Poll, Waker};

use nile_platform::{Interface, Machine};
use nile_sync::Waiter;

use crate::disk::Disk;

/// What a core drives.
#[derive(Default)]
pub struct Devices {
    interfaces: OnceCell<Vec<Rc<Device>>>,
    disks: OnceCell<Vec<Rc<Disk>>>,
    /// Files of other programs that are used here, by their names.
    files: RefCell<Vec<(u64, Rc<Disk>)>>,
}

impl Devices {
    /// The network interfaces of the calling core, which are opened when they are first asked for.
    pub fn interfaces(&self, machine: &impl Machine) -> &[Rc<Device>] {
        let open = || machine.interfaces().into_iter().map(|it| Rc::new(Device::new(it))).collect();
        self.interfaces.get_or_init(open)
    }

    /// The disks of the calling core, which are opened when they are first asked for.
    pub fn disks(&self, machine: &impl Machine) -> &[Rc<Disk>] {
        let open = || machine.disks().into_iter().map(|it| Rc::new(Disk::new(it))).collect();
        self.disks.get_or_init(open)
    }

    /// The file that another program has handed to the node under this name.
    pub fn file(&self, machine: &impl Machine, name: u64) -> Option<Rc<Disk>> {
        let mut files = self.files.borrow_mut();
        let known = files.iter().find(|(known, _)| *known == name && machine.has_file(name));
        if let Some((_, file)) = known {
            return Some(file.clone());
        }
        let file = Rc::new(Disk::new(machine.file(name)?));
        files.push((name, file.clone()));
        Some(file)
    }

    /// Whether a device has something for a task.
    pub fn is_ready(&self) -> bool {
        self.interfaces.get().into_iter().flatten().any(|device| device.is_ready())
            || self.disks.get().into_iter().flatten().any(|disk| disk.is_ready())
            || self.files.borrow().iter().any(|(_, file)| file.is_ready())
    }

    /// Wakes the tasks that devices have something for; whether there was one.
    pub fn turn(&self, machine: &impl Machine) -> bool {
        let mut found = false;
        for device in self.interfaces.get().into_iter().flatten() {
            found |= device.wake_if_ready();
        }
        for disk in self.disks.get().into_iter().flatten() {
            found |= disk.turn();
        }
        let mut files = self.files.borrow_mut();
        files.retain(|(name, file)| {
            found |= file.turn();
            // A file whose program is gone is closed when nobody is at work on it.
            !file.is_idle() || Rc::strong_count(file) > 1 || machine.has_file(*name)
        });
        found
    }
}

/// An interface and the task that waits for its frames.
pub struct Device {
    interface: Box<dyn Interface>,
    waiter: Waiter,
}

impl Device {
    /// An interface that nobody waits for yet.
    pub fn new(interface: Box<dyn Interface>) -> Device {
        Device { interface, waiter: Waiter::default() }
    }

    /// Whether a task waits and would be woken.
    pub fn is_ready(&self) -> bool {
        self.waiter.waits() && self.interface.is_ready()
    }

    /// Wakes the waiting task if a frame has come; whether it did.
    pub fn wake_if_ready(&self) -> bool {
        self.is_ready() && self.waiter.wake()
    }

    /// Ready when a frame has come; else `waker` is woken when one does.
    pub fn poll_frame(&self, waker: &Waker) -> Poll<()> {
        if self.interface.is_ready() {
            self.waiter.forget();
            return Poll::Ready(());
        }
        self.waiter.wait(waker);
        Poll::Pending
    }
}

impl Deref for Device {
    type Target = dyn Interface;

    fn deref(&self) -> &(dyn Interface + 'static) {
        &*self.interface
    }
}
