//! A split virtqueue of `virtio-drivers` whose device is told once of much, and interrupts only
//! when its core is about to sleep.

use core::sync::atomic::{Ordering, fence};

use virtio_drivers::queue::VirtQueue;

use super::memory::{NodeMemory, QUEUE_BUFFERS};
use super::registers::{DeviceRegisters, Notification};

/// The device says that it has used what it was not given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broken;

/// A queue.
pub struct Ring {
    /// What it is made of.
    pub queue: VirtQueue<NodeMemory, QUEUE_BUFFERS>,
    notification: Notification,
    /// Whether it was given what it was not told of.
    pub untold: bool,
}

impl Ring {
    /// The queue with this number, empty and silent, in what [`super::memory::set_aside`] has set
    /// aside for it. `None` if the device has room for fewer buffers there, or nowhere to be told.
    pub fn open(registers: &mut DeviceRegisters, number: u16) -> Option<Ring> {
        let notification = registers.notification(number)?;
        // No lists of descriptors apart, which would be on the heap, and no counted interrupts:
        // they are switched on and off.
        let mut queue = VirtQueue::new(registers, number, false, false).ok()?;
        queue.set_dev_notify(false);
        Some(Ring { queue, notification, untold: false })
    }

    /// Tells the device of what it was given since it was told, if it wants to be told.
    pub fn tell(&mut self) {
        // What the device is to find is stored before its wish is read; else it might go to
        // sleep between the two.
        fence(Ordering::SeqCst);
        if core::mem::take(&mut self.untold) && self.queue.should_notify() {
            self.notification.send();
        }
    }

    /// Whether the device has given something back.
    pub fn is_ready(&self) -> bool {
        self.queue.can_pop()
    }

    /// Does not let the device interrupt. It may have begun to.
    pub fn silence(&mut self) {
        self.queue.set_dev_notify(false);
    }

    /// Lets the device interrupt when it gives back something next; `false`, and it does not, if
    /// there is something already.
    pub fn arm(&mut self) -> bool {
        if self.is_ready() {
            return false;
        }
        self.queue.set_dev_notify(true);
        // Either the device sees this, or what it gave back before is seen now.
        fence(Ordering::SeqCst);
        let armed = !self.is_ready();
        if !armed {
            self.silence();
        }
        armed
    }
}
