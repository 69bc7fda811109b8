//! What the boot path finds out about a virtio device: where its registers are.
//!
//! The device says in capabilities of its own in which address range each kind of its registers
//! lies (virtio 1.1, 4.1.4). What it says is checked here, once: a core that drives it maps what
//! is written down in [`Device`], and reaches nothing else.

use core::fmt;

use nile_abi::PageSize;
use virtio_drivers::transport::DeviceType;
use virtio_drivers::transport::pci::bus::{ConfigurationAccess, DeviceFunction, PCI_CAP_ID_VNDR};
use virtio_drivers::transport::pci::{
    VIRTIO_PCI_CAP_COMMON_CFG, VIRTIO_PCI_CAP_DEVICE_CFG, VIRTIO_PCI_CAP_NOTIFY_CFG,
    VIRTIO_VENDOR_ID,
};

use super::registers::COMMON_BYTES;
use crate::layout;
use crate::pci::function::NoRegisters;
use crate::pci::{Function, Registers, msix};

/// Devices are named by this plus their type, but for those that also have registers of before
/// virtio 1.0.
const NEW_IDENTITIES: u16 = 0x1040;

/// A kind of devices.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its number.
    pub number: DeviceType,
    /// The name of a device that also has registers of before virtio 1.0.
    pub transitional: u16,
    /// What the kind's own registers are called.
    pub name: &'static str,
    /// Bytes of those that all of them have.
    pub configuration_bytes: usize,
}

impl Kind {
    /// Whether a function of this name is one.
    pub fn includes(&self, (vendor, device): (u16, u16)) -> bool {
        let names = [self.transitional, NEW_IDENTITIES + self.number as u16];
        vendor == VIRTIO_VENDOR_ID && names.contains(&device)
    }
}

/// Where in a capability it says how long it is, what it is for, and which registers it means.
const LENGTH_AND_KIND: u8 = 0;
const RANGE: u8 = 4;
const OFFSET: u8 = 8;
const BYTES: u8 = 12;
const MULTIPLIER: u8 = 16;
const NOTIFY_LENGTH: u8 = 20;

/// A device that can be driven. Its registers are in memory, as long and as aligned as they must
/// be, but nobody has looked at them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device {
    /// Where it is.
    pub at: DeviceFunction,
    /// Those that every virtio device has.
    pub common: Registers,
    /// Where it is told that a queue has something.
    pub notify: Registers,
    /// Bytes between the places of two queues there.
    pub notify_multiplier: u32,
    /// Those of its kind.
    pub configuration: Registers,
    /// Which message it interrupts by.
    pub messages: Registers,
}

/// Why a device cannot be driven.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoDevice {
    /// It lacks one kind of registers: it is older than virtio 1.0.
    Missing(&'static str),
    /// They are where they cannot be reached.
    Registers(&'static str, NoRegisters),
    /// It cannot interrupt by messages.
    NoMessages,
    /// They are too few, or not aligned.
    Malformed(&'static str),
}

impl fmt::Display for NoDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoDevice::Missing(kind) => {
                write!(f, "it has no {kind} registers as devices of virtio 1.0 do")
            }
            NoDevice::NoMessages => f.write_str("it cannot interrupt by messages (MSI-X)"),
            NoDevice::Registers(kind, NoRegisters::Unassigned) => {
                write!(f, "firmware gave its {kind} registers no address")
            }
            NoDevice::Registers(kind, _) => write!(f, "its {kind} registers are out of reach"),
            NoDevice::Malformed(kind) => write!(f, "its {kind} registers are malformed"),
        }
    }
}

impl Device {
    /// The device that this function is, switched on.
    pub fn of<C: ConfigurationAccess + Copy>(
        function: &mut Function<C>,
        kind: &Kind,
    ) -> Result<Device, NoDevice> {
        let mut find = |kind, name, least| find_registers(function, kind, name, least);
        let (common, _) = find(VIRTIO_PCI_CAP_COMMON_CFG, "common", COMMON_BYTES)?;
        let (notify, at) = find(VIRTIO_PCI_CAP_NOTIFY_CFG, "notification", size_of::<u16>())?;
        let (configuration, _) =
            find(VIRTIO_PCI_CAP_DEVICE_CFG, kind.name, kind.configuration_bytes)?;
        let messages = msix::find(function).ok_or(NoDevice::NoMessages)?;
        let messages = msix::enable(function, messages);
        let messages = messages.map_err(|why| NoDevice::Registers("message", why))?;
        let notify_multiplier = function.read(at + MULTIPLIER);
        function.enable();
        let messages = within_window(messages);
        let at = function.at();
        Ok(Device { at, common, notify, notify_multiplier, configuration, messages })
    }

    /// All of its registers, in the order in which its core has them mapped.
    pub fn windows(&self) -> [Registers; layout::DEVICE_WINDOWS] {
        [self.common, self.notify, self.configuration, self.messages]
    }
}

/// Which registers the first capability of this kind means, and where the capability is.
fn find_registers<C: ConfigurationAccess + Copy>(
    function: &mut Function<C>,
    kind: u8,
    name: &'static str,
    least: usize,
) -> Result<(Registers, u8), NoDevice> {
    let wanted_length = if kind == VIRTIO_PCI_CAP_NOTIFY_CFG { NOTIFY_LENGTH } else { MULTIPLIER };
    let is_it = |at: &u8| {
        let [_, _, length, found] = function.read(*at + LENGTH_AND_KIND).to_le_bytes();
        let whole = length >= wanted_length && usize::from(*at) + usize::from(length) <= 256;
        found == kind && whole
    };
    let at = function.capabilities(PCI_CAP_ID_VNDR).into_iter().find(is_it);
    let at = at.ok_or(NoDevice::Missing(name))?;
    let [bar, ..] = function.read(at + RANGE).to_le_bytes();
    let found = function.registers(bar, function.read(at + OFFSET), function.read(at + BYTES));
    let found = found.map_err(|why| NoDevice::Registers(name, why))?;
    let found = within_window(found);
    let sound = found.start.0.is_multiple_of(4) && found.bytes >= least as u64;
    if sound { Ok((found, at)) } else { Err(NoDevice::Malformed(name)) }
}

/// As much of it as a core has room to map.
fn within_window(found: Registers) -> Registers {
    let before = found.start.0 - found.start.align_down(PageSize::Small).0;
    Registers { bytes: found.bytes.min(layout::DEVICE_WINDOW_BYTES - before), ..found }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;
    use crate::disk::BLOCK;
    use crate::network::NETWORK;
    use crate::pci::tests::{FakeFunction, FakeSpace};

    const BAR: u64 = 0x80_0000_0000;
    const MESSAGES: u64 = 0xfebd_0000;
    const VENDOR_SPECIFIC: u32 = 0x09;

    /// A capability of this kind for these registers of range 4.
    fn capability(kind: u8, length: u8, offset: u32, bytes: u32) -> [u32; 5] {
        let first = VENDOR_SPECIFIC | u32::from(length) << 16 | u32::from(kind) << 24;
        [first, 4, offset, bytes, 4]
    }

    /// What QEMU shows of a virtio-net device.
    fn whole() -> FakeFunction {
        FakeFunction::new(VIRTIO_VENDOR_ID, 0x1041, 0)
            .with_range(0, MESSAGES, 0x1000)
            .with_range(4, BAR, 0x4000)
            .with_capability(0x98, &[0x11 | 2 << 16, 0, 0x800])
            .with_capability(0x50, &capability(VIRTIO_PCI_CAP_NOTIFY_CFG, 20, 0x3000, 0x1000))
            .with_capability(0x64, &capability(VIRTIO_PCI_CAP_DEVICE_CFG, 16, 0x2000, 0x1000))
            .with_capability(0x74, &capability(3, 16, 0x1000, 0x1000))
            .with_capability(0x84, &capability(VIRTIO_PCI_CAP_COMMON_CFG, 16, 0, 0x1000))
    }

    fn look_at(fake: FakeFunction) -> Result<Device, NoDevice> {
        let space = FakeSpace::default();
        space.put(0, 1, 0, fake);
        let at = DeviceFunction { bus: 0, device: 1, function: 0 };
        let found = Device::of(&mut Function::find(&space, at).unwrap(), &NETWORK);
        let enabled = space.word(at, 4) & 0b110 != 0;
        assert_eq!(enabled, found.is_ok(), "what is not used is not switched on");
        found
    }

    #[test]
    fn registers_are_where_the_capabilities_say() {
        let device = look_at(whole()).unwrap();
        let [common, notify, configuration, messages] = device.windows();
        assert_eq!([common, notify, configuration].map(|it| it.start.0 - BAR), [0, 0x3000, 0x2000]);
        assert_eq!((messages.start.0, messages.bytes), (MESSAGES, 48));
        assert_eq!((notify.bytes, device.notify_multiplier), (0x1000, 4));
    }

    #[test]
    fn registers_longer_than_their_window_are_cut() {
        let long = whole()
            .with_range(4, BAR, 1 << 20)
            .with_capability(0xb0, &capability(VIRTIO_PCI_CAP_NOTIFY_CFG, 20, 0x3ff0, 0x8_0000));
        let device = look_at(long).unwrap();
        for registers in device.windows() {
            assert!(registers.pages().bytes <= layout::DEVICE_WINDOW_BYTES);
        }
        assert_eq!(device.notify.bytes, layout::DEVICE_WINDOW_BYTES - 0xff0);
    }

    #[test]
    fn what_cannot_be_driven_is_left_alone_and_says_why() {
        let without = |name: &str, fake: FakeFunction| {
            let why = look_at(fake).unwrap_err().to_string();
            assert!(why.contains(name), "{why} instead of {name}");
        };
        let wrong = |words: [u32; 5]| whole().with_capability(0xb0, &words);
        without("no common", FakeFunction::new(VIRTIO_VENDOR_ID, 0x1000, 0));
        without("gave its common registers no address", whole().with_range(4, 0, 0x4000));
        without("message", whole().with_range(0, 0, 0x1000));
        without("common registers are out of reach", wrong(capability(1, 16, 0x3fff, 0x1000)));
        without("common registers are malformed", wrong(capability(1, 16, 0, 55)));
        without("common registers are malformed", wrong(capability(1, 16, 2, 60)));
        without("network registers are malformed", wrong(capability(4, 16, 0, 0)));
        without("notification registers are out", wrong(capability(2, 20, u32::MAX, u32::MAX)));
        let in_no_range = |range| {
            let [first, _, offset, bytes, _] = capability(1, 16, 0, 0x1000);
            [first, range, offset, bytes, 0]
        };
        without("common registers are out of reach", wrong(in_no_range(5)));
        without("common registers are out of reach", wrong(in_no_range(0xff)));
        let mut no_messages = whole();
        no_messages.words[0x98 / 4] = 0x05;
        without("MSI-X", no_messages);
    }

    #[test]
    fn a_capability_that_is_too_short_is_not_one() {
        let short = |kind, length| whole().with_capability(0xb0, &capability(kind, length, 9, 9));
        assert_eq!(look_at(short(VIRTIO_PCI_CAP_COMMON_CFG, 15)), look_at(whole()));
        assert_eq!(look_at(short(VIRTIO_PCI_CAP_NOTIFY_CFG, 16)), look_at(whole()));
        let at_the_end = [capability(VIRTIO_PCI_CAP_COMMON_CFG, 16, 9, 9)[0]];
        assert_eq!(look_at(whole().with_capability(0xfc, &at_the_end)), look_at(whole()));
    }

    #[test]
    fn both_names_of_a_device_are_known() {
        let known = |kind: Kind| {
            let names = [0x1000, 0x1001, 0x1041, 0x1042];
            names.map(|name| kind.includes((VIRTIO_VENDOR_ID, name)))
        };
        assert_eq!(known(NETWORK), [true, false, true, false]);
        assert_eq!(known(BLOCK), [false, true, false, true]);
        assert!(!NETWORK.includes((0x8086, 0x1000)));
    }
}
