//! A device made by hand behind a disk: well-behaved, out of order, and hostile.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering::Relaxed;
use std::vec;
use std::vec::Vec;

use nile_abi::{PhysAddr, VirtAddr};
use nile_platform::Disk;
use nile_platform::disk::{Completion, Description, DiskError, Piece, Request};
use nile_ring::Region;
use virtio_drivers::transport::pci::bus::DeviceFunction;

use super::block::{FLUSH, OpenError, READ_ONLY, State, VirtioBlock};
use super::memory::{self, SLOTS, Slots};
use super::*;
use crate::mmio::Mmio;
use crate::virtio::memory::{OPENING, QUEUE_BUFFERS};
use crate::virtio::ring::Ring;

const BYTES: usize = 1 << 20;

/// Registers of each kind, in words, and those that the tests look at.
const REGISTERS: usize = 64;
const FEATURES: usize = 1;
const STATUS: usize = 5;
const QUEUE_SIZE: usize = 6;
const UNTOLD: u32 = 0xffff_ffff;

#[repr(C, align(4096))]
#[derive(Clone)]
struct Page([u8; 4096]);

/// The other side: reads and writes what the core shares with it, as a device does.
struct FakeDevice {
    registers: *mut u32,
    memory: *mut u8,
    _owned: (Vec<Page>, Vec<u32>),
    contents: RefCell<Vec<u8>>,
    seen: Cell<u16>,
    used: Cell<u16>,
}

std::thread_local! {
    /// How often this thread's disks were stopped.
    static STOPPED: Cell<u32> = const { Cell::new(0) };
}

impl FakeDevice {
    fn new() -> FakeDevice {
        let mut pages = vec![Page([0xee; 4096]); memory::BYTES as usize / 4096];
        let mut registers = vec![0; 3 * REGISTERS];
        registers[QUEUE_SIZE] = QUEUE_BUFFERS as u32;
        registers[REGISTERS] = UNTOLD;
        let device = FakeDevice {
            registers: registers.as_mut_ptr(),
            memory: pages.as_mut_ptr().cast(),
            _owned: (pages, registers),
            contents: RefCell::new(vec![0; BYTES]),
            seen: Cell::default(),
            used: Cell::default(),
        };
        STOPPED.set(0);
        device
    }

    fn register(&self, index: usize) -> *mut u32 {
        self.registers.wrapping_add(index)
    }

    /// A disk of it, of which only the start of the device was left out.
    fn open(&self, features: u64) -> VirtioBlock {
        self.open_with(features, 0)
    }

    /// The same; it discards so many sectors at once.
    fn open_with(&self, features: u64, discards: u32) -> VirtioBlock {
        let _alone = OPENING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut registers = self.registers();
        // SAFETY: the memory lives as long as this device, which is the only other that uses it.
        let slots = unsafe { Slots::divide(self.frames()) };
        let ring = Ring::open(&mut registers, 0).unwrap();
        // SAFETY: as in `registers`.
        unsafe { self.register(STATUS).write_volatile(0xf) };
        let description = Description {
            name: "fake".into(),
            serial: "".into(),
            bytes: BYTES as u64,
            sector_bytes: 512,
        };
        let state = State::new(ring, slots, features, discards);
        VirtioBlock::new(registers, description, state, || STOPPED.set(STOPPED.get() + 1))
    }

    /// Where the memory is that it shares with its core.
    fn frames(&self) -> Frames {
        let at = (self.memory.addr() as u64).wrapping_sub(layout::SHARED_BASE.0);
        Frames { start: PhysAddr(at), bytes: memory::BYTES }
    }

    /// Its registers; behind those of all devices, and the place where it is told, its own.
    fn registers(&self) -> crate::virtio::DeviceRegisters {
        let mmio = |first: usize| {
            // SAFETY: the words live as long as the device.
            unsafe { Mmio::new(VirtAddr(self.register(first).addr() as u64), REGISTERS * 4) }
        };
        let window = Registers { start: PhysAddr(0x1000), bytes: REGISTERS as u64 * 4 };
        let device = Device {
            at: DeviceFunction { bus: 0, device: 0, function: 0 },
            common: window,
            notify: window,
            notify_multiplier: 4,
            configuration: window,
            messages: window,
        };
        let windows = [mmio(0), mmio(REGISTERS), mmio(2 * REGISTERS), mmio(0)];
        crate::virtio::DeviceRegisters::new(&device, windows)
    }

    fn was_told(&self) -> bool {
        // SAFETY: as in `open`.
        unsafe {
            let told = self.register(REGISTERS).read_volatile() != UNTOLD;
            self.register(REGISTERS).write_volatile(UNTOLD);
            told
        }
    }

    /// A place in the queue: descriptors at 0, what the core writes at 0x1000, what the device
    /// writes at 0x2000.
    fn read<T>(&self, offset: usize) -> T {
        // SAFETY: the queue is the first part of the memory; the offsets below are aligned.
        unsafe { self.memory.add(offset).cast::<T>().read_volatile() }
    }

    fn write<T>(&self, offset: usize, value: T) {
        // SAFETY: as in `read`.
        unsafe { self.memory.add(offset).cast::<T>().write_volatile(value) }
    }

    fn may_interrupt(&self) -> bool {
        self.read::<u16>(0x1000) == 0
    }

    /// The next chain that the core has given, if there is one.
    fn next(&self) -> Option<u16> {
        let seen = self.seen.get();
        if self.read::<u16>(0x1002) == seen {
            return None;
        }
        self.seen.set(seen.wrapping_add(1));
        Some(self.read(0x1004 + 2 * (usize::from(seen) % QUEUE_BUFFERS)))
    }

    /// The pieces of a chain, and whether the device writes there.
    fn chain(&self, head: u16) -> Vec<(*mut u8, usize, bool)> {
        let mut pieces = Vec::new();
        let mut next = Some(head);
        while let Some(descriptor) = next {
            let at = usize::from(descriptor) * 16;
            let start = layout::SHARED_BASE.0.wrapping_add(self.read::<u64>(at));
            let flags = self.read::<u16>(at + 12);
            pieces.push((start as *mut u8, self.read::<u32>(at + 8) as usize, flags & 2 != 0));
            next = (flags & 1 != 0).then(|| self.read(at + 14));
            assert!(pieces.len() <= QUEUE_BUFFERS, "the chain goes in circles");
        }
        pieces
    }

    /// Does what a chain says, and ends it with `status` if that is not "done".
    fn perform(&self, head: u16, status: u8) {
        let chain = self.chain(head);
        let (first, rest) = chain.split_first().unwrap();
        let (last, pieces) = rest.split_last().unwrap();
        assert_eq!((first.1, first.2, last.1, last.2), (16, false, 1, true));
        // SAFETY: the core gave this memory to the device.
        let header = unsafe { first.0.cast::<[u8; 16]>().read_volatile() };
        let action = u32::from_le_bytes(*header.first_chunk().unwrap());
        let mut at = u64::from_le_bytes(*header.last_chunk().unwrap()) as usize * 512;
        let mut contents = self.contents.borrow_mut();
        for (start, length, is_written) in pieces {
            // SAFETY: as above.
            let bytes = unsafe { core::slice::from_raw_parts_mut(*start, *length) };
            if matches!((action, *is_written), (11 | 13, false)) {
                let number = |at| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
                let (first, sectors) = (number(0) as usize * 512, number(8) as usize);
                // What is written with zeros may be given back.
                assert_eq!((*length, number(4), number(12)), (16, 0, u32::from(action == 13)));
                contents[first..first + sectors * 512].fill(0);
                continue;
            }
            let place = &mut contents[at..at + length];
            match (action, is_written) {
                (0, true) => bytes.copy_from_slice(place),
                (1, false) => place.copy_from_slice(bytes),
                other => panic!("{other:?}"),
            }
            at += length;
        }
        assert!(action != 4 || pieces.is_empty());
        // SAFETY: as above.
        unsafe { last.0.write_volatile(status) };
        self.give_back(head.into());
    }

    fn give_back(&self, head: u32) {
        let used = self.used.get();
        let at = 0x2004 + 8 * (usize::from(used) % QUEUE_BUFFERS);
        self.write(at, head);
        self.write(at + 4, 1u32);
        self.used.set(used.wrapping_add(1));
        self.write(0x2002, used.wrapping_add(1));
    }

    fn perform_all(&self) {
        while let Some(head) = self.next() {
            self.perform(head, 0);
        }
    }
}

fn memory_of(bytes: usize, mark: u64) -> Region {
    let region = Region::owned(bytes);
    region.words().iter().for_each(|word| word.store(mark, Relaxed));
    region
}

fn pieces(region: &Region, cut: usize) -> Vec<Piece> {
    let parts = [(0, cut), (cut, region.len() - cut)];
    let parts = parts.into_iter().filter(|(_, length)| *length > 0);
    parts
        .map(|(start, length)| Piece {
            at: PhysAddr(0),
            region: region.slice(start, length).unwrap(),
        })
        .collect()
}

fn all_are(region: &Region, mark: u64) -> bool {
    region.words().iter().all(|word| word.load(Relaxed) == mark)
}

const DONE: Result<(), DiskError> = Ok(());

fn end(disk: &VirtioBlock) -> Option<(u32, Result<(), DiskError>)> {
    disk.complete().map(|Completion { tag, result, .. }| (tag, result))
}

#[test]
fn what_is_discarded_is_named_to_a_device_that_takes_it_and_stays_with_one_that_does_not() {
    for (discards, gone) in [(0, 0), (2, 2), (100, 3)] {
        let device = FakeDevice::new();
        device.contents.borrow_mut().fill(7);
        let disk = device.open_with(FLUSH, discards);
        assert!(disk.submit(1, &Request::Discard { at: 1024, bytes: 3 * 512 }));
        disk.tell();
        device.perform_all();
        assert_eq!(end(&disk), Some((1, DONE)));
        let left = device.contents.borrow();
        let zeros = left.iter().filter(|byte| **byte == 0).count();
        assert_eq!(zeros, gone * 512);
        assert!(left[1024..1024 + zeros].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_device_is_made_zero_piece_by_piece_and_is_stopped_then() {
    let _alone = OPENING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // It writes so many sectors at once with zeros; none: it cannot.
    for (most, looks) in [(2048, 1), (1500, 2), (0, 0)] {
        let device = FakeDevice::new();
        device.contents.borrow_mut().fill(7);
        let registers = device.registers();
        let own = 2 * REGISTERS;
        let words = [
            // It writes zeros, and is of virtio 1.0: the upper half of its features is as this.
            (FEATURES, 1 << 14 | 1),
            (own, (BYTES / 512) as u32),
            (own + 12, most),
            (own + 14, 1),
        ];
        // SAFETY: as in `registers`.
        words.iter().for_each(|(at, word)| unsafe { device.register(*at).write_volatile(*word) });
        let renewals = wipe::Renewals::default();
        // SAFETY: the memory and the registers live as long as the device, which alone uses them.
        let go_on = || unsafe { renewals.go_on(0, device.frames(), registers) };
        let is_able = most > 0;
        assert_eq!(wipe::is_able(&registers), is_able);
        for _ in 0..looks {
            assert_eq!(go_on(), Ok(false), "it is under way");
            device.perform_all();
        }
        let none = Err(wipe::NotRenewed::Open(OpenError::Features));
        assert_eq!(go_on(), if is_able { Ok(true) } else { none });
        assert!(is_able || go_on() == Ok(false), "it is said once");
        assert_eq!(device.contents.borrow().iter().all(|byte| *byte == 0), is_able);
        // SAFETY: as above.
        assert_eq!(unsafe { device.register(STATUS).read_volatile() }, 0, "it is stopped");
    }
}

#[test]
fn requests_end_in_the_device_s_order_with_their_memory() {
    let device = FakeDevice::new();
    let disk = device.open(FLUSH);
    let sent = [memory_of(1024, 1), memory_of(4096, 2), memory_of(512, 3)];
    for (tag, (at, region)) in [0, 8192, 1024].into_iter().zip(&sent).enumerate() {
        assert!(disk.submit(tag as u32, &Request::Write { at, from: pieces(region, 64) }));
    }
    assert!(disk.submit(3, &Request::Flush));
    assert!(!device.was_told(), "it is told once, of all");
    disk.tell();
    assert!(device.was_told());
    disk.tell();
    assert!(!device.was_told(), "there is nothing new");
    let chains: Vec<u16> = core::iter::from_fn(|| device.next()).collect();
    for chain in [2, 0, 3, 1] {
        device.perform(chains[chain], 0);
        assert_eq!(end(&disk), Some((chain as u32, DONE)));
        assert_eq!(end(&disk), None);
    }
    let got = memory_of(4096, 0);
    assert!(disk.submit(9, &Request::Read { at: 8192, into: pieces(&got, 2048) }));
    device.perform_all();
    assert_eq!(end(&disk), Some((9, DONE)));
    assert!(all_are(&got, 2));
    assert_eq!(device.contents.borrow()[1024..1032], 3u64.to_le_bytes());
}

#[test]
fn a_full_queue_has_room_again_when_a_request_has_ended() {
    let device = FakeDevice::new();
    let disk = device.open(FLUSH);
    let region = memory_of(1024, 7);
    // More often than the positions in the queue can count.
    for _ in 0..1200 {
        let mut given = 0;
        while disk.submit(given, &Request::Write { at: 0, from: pieces(&region, 512) }) {
            given += 1;
        }
        assert_eq!(given as usize, SLOTS, "four descriptors each");
        disk.tell();
        device.perform_all();
        let ended = core::iter::from_fn(|| end(&disk));
        assert!(ended.eq((0..given).map(|tag| (tag, DONE))));
    }
    let many: Vec<Piece> = (0..16).flat_map(|_| pieces(&memory_of(64, 1), 0)).collect();
    let request = Request::Write { at: 0, from: many };
    let given = (0..).take_while(|tag| disk.submit(*tag, &request)).count();
    assert_eq!(given, QUEUE_BUFFERS / 18);
}

#[test]
fn errors_of_the_device_are_told() {
    let device = FakeDevice::new();
    let disk = device.open(FLUSH);
    let region = memory_of(512, 7);
    let media = Err(DiskError::Media { at: 512, end: 1024 });
    for (request, expected) in [
        (Request::Read { at: 512, into: pieces(&region, 0) }, media),
        (Request::Write { at: 512, from: pieces(&region, 0) }, media),
        (Request::Flush, Err(DiskError::Failed)),
    ] {
        assert!(disk.submit(1, &request));
        device.perform(device.next().unwrap(), 1);
        assert_eq!(end(&disk), Some((1, expected)));
    }
}

#[test]
fn what_the_device_cannot_do_it_is_not_asked() {
    let device = FakeDevice::new();
    let disk = device.open(READ_ONLY);
    let region = memory_of(512, 7);
    assert!(disk.submit(1, &Request::Write { at: 0, from: pieces(&region, 0) }));
    assert!(disk.submit(2, &Request::Flush));
    assert!(disk.is_ready());
    assert_eq!(end(&disk), Some((1, Err(DiskError::ReadOnly))));
    assert_eq!(end(&disk), Some((2, DONE)), "it keeps nothing in memory");
    assert_eq!(device.next(), None);
}

#[test]
fn interrupts_are_on_only_from_an_idle_look_to_the_next_end() {
    let device = FakeDevice::new();
    let disk = device.open(FLUSH);
    assert!(!device.may_interrupt());
    assert!(disk.submit(1, &Request::Flush));
    disk.tell();
    assert!(!disk.is_ready() && device.may_interrupt());
    device.perform_all();
    assert!(disk.is_ready());
    assert_eq!(end(&disk), Some((1, DONE)));
    assert!(!device.may_interrupt());
}

#[test]
fn a_device_that_ends_what_it_does_not_have_is_stopped() {
    for head in [200, QUEUE_BUFFERS as u32, u32::MAX] {
        let device = FakeDevice::new();
        let disk = device.open(FLUSH);
        let region = memory_of(512, 7);
        for tag in 0..2 {
            assert!(disk.submit(tag, &Request::Write { at: 0, from: pieces(&region, 0) }));
        }
        device.give_back(head);
        let failed = Err(DiskError::Failed);
        let mut ended: Vec<_> = core::iter::from_fn(|| end(&disk)).collect();
        ended.sort_by_key(|(tag, _)| *tag);
        assert_eq!(ended, [(0, failed), (1, failed)]);
        assert_eq!(STOPPED.get(), 1);
        // SAFETY: the registers live as long as the device.
        assert_eq!(unsafe { device.register(STATUS).read_volatile() } & 0xff, 0, "it was reset");
        assert!(disk.submit(5, &Request::Flush) && disk.is_ready());
        assert_eq!(end(&disk), Some((5, failed)));
        assert!(!disk.is_ready());
    }
}

#[test]
fn no_device_brings_the_core_down() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let (mut stops, mut ends) = (0, 0);
    for _ in 0..300 {
        let device = FakeDevice::new();
        let disk = device.open(FLUSH);
        let region = memory_of(1024, 7);
        let (mut given, mut ended) = (0, 0);
        for _ in 0..100 {
            match random(8) {
                0 => device.give_back(random(300) as u32),
                1 => device.write(0x2002, random(0x1_0000) as u16),
                // Descriptors, too: the core has its own record of them.
                2 => device.write(random(0x3000 / 8) as usize * 8, random(u64::MAX)),
                3 | 4 => ended += core::iter::from_fn(|| end(&disk)).count(),
                5 => {
                    let into = pieces(&region, random(16) as usize * 64);
                    given += usize::from(disk.submit(1, &Request::Read { at: 0, into }));
                }
                _ => {
                    disk.tell();
                    let _ = disk.is_ready();
                    if let Some(head) = device.next() {
                        device.give_back(head.into());
                    }
                }
            }
        }
        assert!(ended <= given, "a request ends once");
        stops += STOPPED.get();
        ends += ended;
    }
    assert!(stops > 200 && ends > 100, "{stops} stops, {ends} ends");
}
