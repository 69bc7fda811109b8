//! A port made by hand behind a disk: well-behaved, out of order, and failing.

extern crate std;

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering::Relaxed;
use std::vec;
use std::vec::Vec;

use nile_abi::{PhysAddr, VirtAddr};
use nile_platform::Disk;
use nile_platform::disk::{Completion, Description, DiskError, Piece, Request};
use nile_ring::Region;

use super::disk::AhciDisk;
use super::port::{self, Port, SLOTS};
use crate::layout;
use crate::mmio::Mmio;
use crate::node::Frames;

const BYTES: usize = 1 << 20;

/// The second port's registers, in words.
const PORT: usize = 0x180 / 4;
const INTERRUPT_STATUS: usize = PORT + 4;
const INTERRUPT_ENABLE: usize = PORT + 5;
const COMMAND: usize = PORT + 6;
const TASK: usize = PORT + 8;
const ISSUED: usize = PORT + 14;

const TASK_ERROR: u32 = 1 << 30;
const BUSY: u32 = 1 << 7;
const READ: u8 = 0x25;
const WRITE: u8 = 0x35;
const FLUSH: u8 = 0xea;

#[repr(C, align(4096))]
#[derive(Clone)]
struct Page([u8; 4096]);

/// The other side: reads and writes what the core shares with it, as a controller does.
struct FakePort {
    registers: *mut u32,
    memory: *mut u8,
    _owned: (Vec<Page>, Vec<u32>),
    contents: RefCell<Vec<u8>>,
    /// Slots that it was given and has not ended.
    given: Cell<u32>,
}

std::thread_local! {
    /// How often this thread's disks failed for good.
    static STOPPED: Cell<u32> = const { Cell::new(0) };
}

impl FakePort {
    fn new() -> FakePort {
        let mut pages = vec![Page([0; 4096]); port::BYTES as usize / 4096];
        let mut registers = vec![0; 0x200 / 4];
        STOPPED.set(0);
        FakePort {
            registers: registers.as_mut_ptr(),
            memory: pages.as_mut_ptr().cast(),
            _owned: (pages, registers),
            contents: RefCell::new(vec![0; BYTES]),
            given: Cell::new(0),
        }
    }

    fn open(&self) -> AhciDisk {
        let start = (self.memory.addr() as u64).wrapping_sub(layout::SHARED_BASE.0);
        let memory = Frames { start: PhysAddr(start), bytes: port::BYTES };
        // SAFETY: words and memory live as long as this; only the disk and this use them.
        let port = unsafe {
            Port::new(Mmio::new(VirtAddr(self.registers.addr() as u64), 0x200), 1, memory)
        };
        let description = Description {
            name: "fake".into(),
            serial: "".into(),
            bytes: BYTES as u64,
            sector_bytes: 512,
        };
        AhciDisk::new(port, description, || STOPPED.set(STOPPED.get() + 1))
    }

    fn get(&self, register: usize) -> u32 {
        // SAFETY: the words live as long as this.
        unsafe { self.registers.add(register).read_volatile() }
    }

    fn set(&self, register: usize, value: u32) {
        // SAFETY: as in `get`.
        unsafe { self.registers.add(register).write_volatile(value) }
    }

    /// Takes what was issued since, as the register does by itself.
    fn absorb(&self) {
        self.given.set(self.given.get() | self.get(ISSUED));
        self.set(ISSUED, self.given.get());
        self.set(INTERRUPT_STATUS, 0);
    }

    fn read<T: Copy>(&self, at: u64) -> T {
        // SAFETY: the core has given this memory to the device.
        unsafe { (layout::SHARED_BASE.0.wrapping_add(at) as *const T).read_unaligned() }
    }

    /// Does what the command in a slot says.
    fn perform(&self, slot: u32) {
        let list = (self.memory.addr() as u64).wrapping_sub(layout::SHARED_BASE.0);
        let header = list.wrapping_add(u64::from(slot) * 32);
        let (first, table) = (self.read::<u32>(header), self.read::<u64>(header.wrapping_add(8)));
        let command = self.read::<[u8; 16]>(table);
        assert_eq!((first & 0x1f, command[0], command[1]), (5, 0x27, 0x80));
        assert_eq!(first & 1 << 6 != 0, command[2] == WRITE);
        let sector = u32::from_le_bytes([command[4], command[5], command[6], command[8]]);
        let sectors = u16::from_le_bytes([command[12], command[13]]);
        let mut at = sector as usize * 512;
        let end = at + usize::from(sectors) * 512;
        let mut contents = self.contents.borrow_mut();
        for entry in 0..u64::from(first >> 16) {
            let entry = table.wrapping_add(0x80 + entry * 16);
            let start = layout::SHARED_BASE.0.wrapping_add(self.read::<u64>(entry));
            let length = self.read::<u32>(entry.wrapping_add(12)) as usize + 1;
            // SAFETY: as in `read`.
            let bytes = unsafe { core::slice::from_raw_parts_mut(start as *mut u8, length) };
            let place = &mut contents[at..at + length];
            match command[2] {
                READ => bytes.copy_from_slice(place),
                WRITE => place.copy_from_slice(bytes),
                other => panic!("{other:#x} has memory"),
            }
            at += length;
        }
        assert!(at == end && (sectors > 0 || command[2] == FLUSH));
        self.end(slot);
    }

    fn end(&self, slot: u32) {
        self.given.set(self.given.get() & !(1 << slot));
        self.set(ISSUED, self.given.get());
    }
}

fn memory_of(bytes: usize, mark: u64) -> Region {
    let region = Region::owned(bytes);
    region.words().iter().for_each(|word| word.store(mark, Relaxed));
    region
}

fn pieces(region: &Region, cut: usize) -> Vec<Piece> {
    let parts = [(0, cut), (cut, region.len() - cut)];
    let piece =
        |(start, length)| Piece { at: PhysAddr(0), region: region.slice(start, length).unwrap() };
    parts.into_iter().filter(|(_, length)| *length > 0).map(piece).collect()
}

fn write(at: u64, region: &Region) -> Request {
    Request::Write { at, from: pieces(region, 64) }
}

fn end(disk: &AhciDisk) -> Option<(u32, Result<(), DiskError>)> {
    disk.complete().map(|Completion { tag, result, .. }| (tag, result))
}

#[test]
fn commands_end_in_the_controller_s_order() {
    let port = FakePort::new();
    let disk = port.open();
    let sent: Vec<Region> = (1..4).map(|mark| memory_of(1024, mark)).collect();
    for (tag, region) in sent.iter().enumerate() {
        assert!(disk.submit(tag as u32, &write(tag as u64 * 4096, region)));
    }
    assert!(disk.submit(3, &Request::Flush));
    assert_eq!(port.get(ISSUED), 0, "the controller is told once, of all");
    disk.tell();
    assert_eq!(port.get(ISSUED), 0b1111);
    port.absorb();
    for slot in [2, 0, 3, 1] {
        port.perform(slot);
        assert_eq!(end(&disk), Some((slot, Ok(()))));
        assert_eq!(end(&disk), None);
    }
    let got = memory_of(1024, 0);
    assert!(disk.submit(9, &Request::Read { at: 4096, into: pieces(&got, 512) }));
    disk.tell();
    port.absorb();
    port.perform(0);
    assert_eq!(end(&disk), Some((9, Ok(()))));
    assert!(got.words().iter().all(|word| word.load(Relaxed) == 2));
}

#[test]
fn a_full_port_has_room_again_when_a_command_has_ended() {
    let port = FakePort::new();
    let disk = port.open();
    let region = memory_of(512, 7);
    for tag in 0..SLOTS as u32 {
        assert!(disk.submit(tag, &write(0, &region)));
    }
    assert!(!disk.submit(99, &write(0, &region)));
    disk.tell();
    port.absorb();
    port.perform(20);
    assert_eq!(end(&disk), Some((20, Ok(()))));
    assert!(disk.submit(99, &write(0, &region)) && !disk.submit(98, &write(0, &region)));
}

#[test]
fn interrupts_are_on_only_from_an_idle_look_to_the_next_end() {
    let port = FakePort::new();
    let disk = port.open();
    assert!(!disk.is_ready() && port.get(INTERRUPT_ENABLE) == 0, "there is nothing to wait for");
    assert!(disk.submit(1, &Request::Flush));
    disk.tell();
    port.absorb();
    assert!(!disk.is_ready() && port.get(INTERRUPT_ENABLE) != 0);
    port.perform(0);
    assert!(disk.is_ready());
    assert_eq!(end(&disk), Some((1, Ok(()))));
    assert_eq!(port.get(INTERRUPT_ENABLE), 0);
}

#[test]
fn a_command_that_fails_is_told_and_the_others_go_on() {
    let port = FakePort::new();
    let disk = port.open();
    let region = memory_of(512, 7);
    for tag in 0..3 {
        assert!(disk.submit(tag, &write(u64::from(tag) * 512, &region)));
    }
    disk.tell();
    port.absorb();
    port.set(INTERRUPT_STATUS, TASK_ERROR);
    port.set(COMMAND, 1 << 8);
    assert_eq!(end(&disk), Some((1, Err(DiskError::Media { at: 512, end: 1024 }))));
    assert_eq!(port.get(ISSUED), 0b101, "they are issued anew");
    port.given.set(0);
    port.absorb();
    port.perform(0);
    port.perform(2);
    assert_eq!((end(&disk), end(&disk)), (Some((0, Ok(()))), Some((2, Ok(())))));

    // One that counts it among the ended.
    assert!(disk.submit(5, &write(0, &region)));
    disk.tell();
    port.absorb();
    port.end(0);
    port.set(INTERRUPT_STATUS, TASK_ERROR);
    assert_eq!(end(&disk), Some((5, Err(DiskError::Media { at: 0, end: 512 }))));
    assert_eq!((end(&disk), STOPPED.get()), (None, 0));
}

#[test]
fn a_port_that_does_not_come_back_has_failed() {
    let port = FakePort::new();
    let disk = port.open();
    for tag in 0..2 {
        assert!(disk.submit(tag, &Request::Flush));
    }
    disk.tell();
    port.absorb();
    port.set(INTERRUPT_STATUS, TASK_ERROR);
    port.set(TASK, BUSY);
    let failed = Err(DiskError::Failed);
    assert_eq!((end(&disk), end(&disk)), (Some((0, failed)), Some((1, failed))));
    assert_eq!(STOPPED.get(), 1);
    assert!(disk.submit(2, &Request::Flush) && disk.is_ready());
    assert_eq!(end(&disk), Some((2, failed)));
    assert!(!disk.is_ready());
}
