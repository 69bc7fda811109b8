//! Functions in a configuration space made by hand.

extern crate std;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::vec::Vec;

use nile_abi::PhysAddr;
use virtio_drivers::transport::pci::bus::{ConfigurationAccess, DeviceFunction};

use super::function::NoRegisters;
use super::*;

/// A function's words, and which bits of its address ranges are fixed.
#[derive(Clone)]
pub(crate) struct FakeFunction {
    pub words: [u32; 64],
    pub fixed: [u32; 6],
}

impl FakeFunction {
    /// A function of this identity and kind, without capabilities.
    pub(crate) fn new(vendor: u16, device: u16, header: u8) -> FakeFunction {
        let mut words = [0; 64];
        words[0] = u32::from(device) << 16 | u32::from(vendor);
        words[3] = u32::from(header) << 16;
        FakeFunction { words, fixed: [0xffff_ffff; 6] }
    }

    /// Gives it a 64-bit address range of `bytes` bytes.
    pub(crate) fn with_range(mut self, range: usize, start: u64, bytes: u64) -> FakeFunction {
        const MEMORY_64: u32 = 0b100;
        self.words[4 + range] = start as u32 | MEMORY_64;
        self.words[5 + range] = (start >> 32) as u32;
        self.fixed[range] = (bytes - 1) as u32;
        self.fixed[range + 1] = ((bytes - 1) >> 32) as u32;
        self
    }

    /// Puts a capability before the others.
    pub(crate) fn with_capability(mut self, at: u8, words: &[u32]) -> FakeFunction {
        const HAS_CAPABILITIES: u32 = 1 << 20;
        let first = usize::from(at) / 4;
        self.words[first..first + words.len()].copy_from_slice(words);
        self.words[first] |= self.words[13] << 8;
        self.words[13] = at.into();
        self.words[1] |= HAS_CAPABILITIES;
        self
    }
}

/// All functions, by bus, device and function.
#[derive(Default)]
pub(crate) struct FakeSpace(pub RefCell<BTreeMap<DeviceFunction, FakeFunction>>);

impl FakeSpace {
    pub(crate) fn put(&self, bus: u8, device: u8, function: u8, fake: FakeFunction) {
        self.0.borrow_mut().insert(DeviceFunction { bus, device, function }, fake);
    }

    pub(crate) fn word(&self, at: DeviceFunction, register: u8) -> u32 {
        self.0.borrow()[&at].words[usize::from(register) / 4]
    }
}

impl ConfigurationAccess for &FakeSpace {
    fn read_word(&self, at: DeviceFunction, register: u8) -> u32 {
        assert!(register.is_multiple_of(4));
        let functions = self.0.borrow();
        let word = usize::from(register) / 4;
        functions.get(&at).map_or(space::NOTHING, |fake| fake.words[word])
    }

    fn write_word(&mut self, at: DeviceFunction, register: u8, value: u32) {
        let mut functions = self.0.borrow_mut();
        let Some(fake) = functions.get_mut(&at) else { return };
        let word = usize::from(register) / 4;
        let fixed = fake.fixed.get(word.wrapping_sub(4)).copied().unwrap_or(0);
        fake.words[word] = fake.words[word] & fixed | value & !fixed;
    }

    unsafe fn unsafe_clone(&self) -> Self {
        self
    }
}

const HOST_BRIDGE: u8 = 0x00;
const SEVERAL: u8 = 0x80;
const BRIDGE: u8 = 0x01;

fn bridge_to(bus: u8) -> FakeFunction {
    let mut bridge = FakeFunction::new(0x8086, 0x10, BRIDGE);
    bridge.words[6] = u32::from(bus) << 8;
    bridge
}

fn visited(space: &FakeSpace) -> Vec<(u8, u8, u8)> {
    let mut visited = Vec::new();
    walk(space, &mut |function| {
        let at = function.at();
        visited.push((at.bus, at.device, at.function));
    });
    visited
}

#[test]
fn every_function_on_every_bus_is_visited_once() {
    let space = FakeSpace::default();
    space.put(0, 0, 0, FakeFunction::new(1, 1, HOST_BRIDGE));
    space.put(0, 3, 0, bridge_to(7));
    // Buses that lead back, to themselves and into each other.
    space.put(7, 1, 0, bridge_to(0));
    space.put(7, 2, 0, bridge_to(7));
    space.put(7, 31, 0, FakeFunction::new(1, 2, SEVERAL));
    space.put(7, 31, 5, FakeFunction::new(1, 3, HOST_BRIDGE));
    // It does not say that it has several: this is the same function once more.
    space.put(0, 4, 0, FakeFunction::new(1, 4, HOST_BRIDGE));
    space.put(0, 4, 1, FakeFunction::new(1, 4, HOST_BRIDGE));
    // Without a first function there are no others.
    space.put(0, 5, 1, FakeFunction::new(1, 5, HOST_BRIDGE));
    let all = [(0, 0, 0), (0, 3, 0), (0, 4, 0), (7, 1, 0), (7, 2, 0), (7, 31, 0), (7, 31, 5)];
    assert_eq!(visited(&space), all);
}

#[test]
fn a_machine_without_the_bus_has_no_function() {
    assert!(visited(&FakeSpace::default()).is_empty());
}

#[test]
fn more_buses_than_are_looked_at_end_the_walk() {
    let space = FakeSpace::default();
    for bus in 0..=u8::MAX {
        space.put(bus, 0, 0, bridge_to(bus.wrapping_add(1)));
    }
    assert_eq!(visited(&space).len(), MAX_BUSES);
}

const AT: DeviceFunction = DeviceFunction { bus: 0, device: 2, function: 0 };

fn with_function(space: &FakeSpace, fake: FakeFunction) -> Function<&FakeSpace> {
    space.put(AT.bus, AT.device, AT.function, fake);
    Function::find(space, AT).unwrap()
}

#[test]
fn registers_lie_inside_their_range() {
    let space = FakeSpace::default();
    let fake = FakeFunction::new(1, 1, 0).with_range(4, 0x80_0000_0000, 0x4000);
    let mut function = with_function(&space, fake.with_range(0, 0, 0x1000));
    let found = function.registers(4, 0x3000, 0x1000).unwrap();
    assert_eq!(found, Registers { start: PhysAddr(0x80_0000_3000), bytes: 0x1000 });
    assert_eq!(function.registers(4, 0x3000, 0x1001), Err(NoRegisters::OutOfRange));
    assert_eq!(function.registers(4, u32::MAX, u32::MAX), Err(NoRegisters::OutOfRange));
    assert_eq!(function.registers(0, 0, 4), Err(NoRegisters::Unassigned));
    assert_eq!(function.registers(2, 0, 4), Err(NoRegisters::NotInMemory));
    assert_eq!(function.registers(6, 0, 4), Err(NoRegisters::NotInMemory));
    assert_eq!(function.registers(255, 0, 4), Err(NoRegisters::NotInMemory));
    assert_eq!(space.word(AT, 0x20), 4, "the range is where it was");
}

#[test]
fn pages_of_registers_are_whole() {
    let pages = Registers { start: PhysAddr(0x1ff0), bytes: 0x20 }.pages();
    assert_eq!((pages.start, pages.bytes), (PhysAddr(0x1000), 0x2000));
    let pages = Registers { start: PhysAddr(0x2000), bytes: 0x1000 }.pages();
    assert_eq!((pages.start, pages.bytes), (PhysAddr(0x2000), 0x1000));
}

#[test]
fn a_list_of_capabilities_that_goes_in_circles_ends() {
    let space = FakeSpace::default();
    let mut fake = FakeFunction::new(1, 1, 0);
    fake = fake.with_capability(0x40, &[0x09]).with_capability(0x50, &[0x11]);
    let function = with_function(&space, fake.clone());
    assert_eq!(function.capabilities(0x09)[..], [0x40]);
    assert_eq!(function.capabilities(0x11)[..], [0x50]);
    fake.words[0x10] |= 0x50 << 8;
    let function = with_function(&space, fake);
    assert!(function.capabilities(0x09).iter().all(|at| *at == 0x40));
}

#[test]
fn messages_are_switched_on_and_their_table_is_found() {
    let space = FakeSpace::default();
    let control = 0x11 | (2 | 0x4000) << 16;
    let fake = FakeFunction::new(1, 1, 0).with_range(0, 0xfebd_0000, 0x1000);
    let mut function = with_function(&space, fake.with_capability(0x98, &[control, 0x800, 0x900]));
    let at = msix::find(&function).unwrap();
    let table = msix::enable(&mut function, at).unwrap();
    assert_eq!(table, Registers { start: PhysAddr(0xfebd_0800), bytes: 3 * 16 });
    assert_eq!(space.word(AT, 0x98) >> 16, 0x8002, "enabled, and not masked as a whole");
    function.enable();
    assert_eq!(space.word(AT, 0x04) & 0xffff, 0x406);
}
