//! The registers of a virtio device, as the core that drives it has them mapped (virtio 1.1,
//! 4.1.4.3). `virtio-drivers` sees them as its `Transport`.
//!
//! It has a transport of its own for PCI. That one searches configuration space anew each time,
//! which only the boot path may touch here, knows nothing of messages, and accesses the device
//! three times for each notification, of which two can be done once.

use nile_abi::PageSize;
use nile_platform::Line;
use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use virtio_drivers::{Error, PhysAddr};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::device::Device;
use crate::mmio::Mmio;
use crate::{devices, layout};

/// Bytes of the registers that every virtio device has.
pub const COMMON_BYTES: usize = 56;

const DEVICE_FEATURE_SELECT: usize = 0;
const DEVICE_FEATURE: usize = 4;
const DRIVER_FEATURE_SELECT: usize = 8;
const DRIVER_FEATURE: usize = 12;
const CONFIGURATION_MESSAGE: usize = 16;
const STATUS: usize = 20;
const GENERATION: usize = 21;
const QUEUE_SELECT: usize = 22;
const QUEUE_SIZE: usize = 24;
const QUEUE_MESSAGE: usize = 26;
const QUEUE_ENABLE: usize = 28;
const QUEUE_NOTIFY_OFF: usize = 30;
const QUEUE_DESCRIPTORS: usize = 32;
const QUEUE_DRIVER: usize = 40;
const QUEUE_DEVICE: usize = 48;

/// "No message": the queue does not interrupt.
const SILENT: u16 = 0xffff;

/// Looks at a device that has been reset before it is taken for dead.
const MAX_RESET_LOOKS: u32 = 1 << 16;

/// A device's registers. A copy names the same ones.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRegisters {
    common: Mmio,
    notify: Mmio,
    notify_bytes: usize,
    notify_multiplier: usize,
    /// Those of its kind.
    pub configuration: Mmio,
    /// How many bytes of those there are.
    pub configuration_bytes: usize,
    /// The table of the messages that it interrupts by.
    pub messages: Mmio,
    /// What it interrupts by, as the node has it.
    pub line: Option<Line>,
}

impl DeviceRegisters {
    /// The registers of the node's device number `number`.
    ///
    /// # Safety
    /// They are mapped on this core as [`layout::device_window`] says, and nobody else uses
    /// them.
    pub unsafe fn mapped(number: usize, device: &Device) -> DeviceRegisters {
        let mut index = 0;
        let [common, notify, configuration, messages] = device.windows().map(|registers| {
            let window = layout::device_window(number, index);
            index += 1;
            let before = registers.start.0 % PageSize::Small.bytes();
            let start = nile_abi::VirtAddr(window.0 + before);
            // SAFETY: the caller's promise.
            unsafe { Mmio::new(start, registers.bytes as usize) }
        });
        let line = devices::line(number);
        let windows = [common, notify, configuration, messages];
        DeviceRegisters { line, ..DeviceRegisters::new(device, windows) }
    }

    pub(crate) fn new(device: &Device, windows: [Mmio; 4]) -> DeviceRegisters {
        let [common, notify, configuration, messages] = windows;
        DeviceRegisters {
            common,
            notify,
            notify_bytes: device.notify.bytes as usize,
            notify_multiplier: device.notify_multiplier as usize,
            configuration,
            configuration_bytes: device.configuration.bytes as usize,
            messages,
            line: None,
        }
    }

    /// Stops the device: when this returns `true`, it touches no memory any more.
    pub fn reset(&mut self) -> bool {
        self.set_status(DeviceStatus::empty());
        (0..MAX_RESET_LOOKS).any(|_| self.get_status().is_empty())
    }

    /// Has the device interrupt by message `message` when it has used a buffer of `queue`;
    /// whether it will. It never does when its configuration changes.
    pub fn interrupt_by(&self, queue: u16, message: u16) -> bool {
        self.common.write16(CONFIGURATION_MESSAGE, SILENT);
        self.common.write16(QUEUE_SELECT, queue);
        self.common.write16(QUEUE_MESSAGE, message);
        self.common.read16(QUEUE_MESSAGE) == message
    }

    /// Where the device is told that `queue` has something: a place to write the queue's number
    /// to. `None` if the device says a place that it does not have.
    pub fn notification(&self, queue: u16) -> Option<Notification> {
        self.common.write16(QUEUE_SELECT, queue);
        let at = usize::from(self.common.read16(QUEUE_NOTIFY_OFF)) * self.notify_multiplier;
        let sound = at.is_multiple_of(2) && at + 2 <= self.notify_bytes;
        sound.then_some(Notification { place: self.notify, at, queue })
    }

    fn write64(&self, register: usize, value: u64) {
        self.common.write32(register, value as u32);
        self.common.write32(register + 4, (value >> 32) as u32);
    }
}

/// How the device is told that a queue has something.
#[derive(Clone, Copy, Debug)]
pub struct Notification {
    place: Mmio,
    at: usize,
    queue: u16,
}

impl Notification {
    /// Tells it.
    pub fn send(&self) {
        self.place.write16(self.at, self.queue);
    }
}

impl Transport for DeviceRegisters {
    fn device_type(&self) -> DeviceType {
        unreachable!("only drivers of virtio-drivers ask, and they are not used")
    }

    fn read_device_features(&mut self) -> u64 {
        self.common.write32(DEVICE_FEATURE_SELECT, 0);
        let low = self.common.read32(DEVICE_FEATURE);
        self.common.write32(DEVICE_FEATURE_SELECT, 1);
        u64::from(self.common.read32(DEVICE_FEATURE)) << 32 | u64::from(low)
    }

    fn write_driver_features(&mut self, features: u64) {
        self.common.write32(DRIVER_FEATURE_SELECT, 0);
        self.common.write32(DRIVER_FEATURE, features as u32);
        self.common.write32(DRIVER_FEATURE_SELECT, 1);
        self.common.write32(DRIVER_FEATURE, (features >> 32) as u32);
    }

    fn max_queue_size(&mut self, queue: u16) -> u32 {
        self.common.write16(QUEUE_SELECT, queue);
        self.common.read16(QUEUE_SIZE).into()
    }

    fn notify(&mut self, queue: u16) {
        if let Some(notification) = self.notification(queue) {
            notification.send();
        }
    }

    fn get_status(&self) -> DeviceStatus {
        DeviceStatus::from_bits_retain(self.common.read8(STATUS).into())
    }

    fn set_status(&mut self, status: DeviceStatus) {
        self.common.write8(STATUS, status.bits() as u8);
    }

    fn set_guest_page_size(&mut self, _: u32) {
        // Only devices of before virtio 1.0 ask for it.
    }

    fn requires_legacy_layout(&self) -> bool {
        false
    }

    fn queue_set(
        &mut self,
        queue: u16,
        size: u32,
        descriptors: PhysAddr,
        driver_area: PhysAddr,
        device_area: PhysAddr,
    ) {
        self.common.write16(QUEUE_SELECT, queue);
        self.common.write16(QUEUE_SIZE, size as u16);
        self.write64(QUEUE_DESCRIPTORS, descriptors);
        self.write64(QUEUE_DRIVER, driver_area);
        self.write64(QUEUE_DEVICE, device_area);
        self.common.write16(QUEUE_ENABLE, 1);
    }

    fn queue_unset(&mut self, _: u16) {
        // A queue ends with a reset of the device.
    }

    fn queue_used(&mut self, queue: u16) -> bool {
        self.common.write16(QUEUE_SELECT, queue);
        self.common.read16(QUEUE_ENABLE) != 0
    }

    fn ack_interrupt(&mut self) -> InterruptStatus {
        // A message is over when it has come.
        InterruptStatus::empty()
    }

    fn read_config_generation(&self) -> u32 {
        self.common.read8(GENERATION).into()
    }

    // What a device says of itself its driver reads from `configuration`.

    fn read_config_space<T: FromBytes + IntoBytes>(&self, _: usize) -> Result<T, Error> {
        Err(Error::Unsupported)
    }

    fn write_config_space<T: IntoBytes + Immutable>(
        &mut self,
        _: usize,
        _: T,
    ) -> Result<(), Error> {
        Err(Error::Unsupported)
    }
}

/// The message that a device interrupts by; the only one that is used.
pub const MESSAGE: u16 = 0;

/// Its device goes to memory by the addresses that the platform gives it (virtio 1.1, 6.1): where
/// an IOMMU is, through that. One that does not say so goes past it.
pub const ACCESS_PLATFORM: u64 = 1 << 33;

/// "The queue does not interrupt", for [`DeviceRegisters::interrupt_by`].
pub const NEVER: u16 = SILENT;
