//! A device made by hand behind an interface: well-behaved, slow, and hostile.

use std::cell::Cell;
use std::vec;
use std::vec::Vec;

use nile_abi::{MacAddress, PhysAddr, VirtAddr};
use nile_platform::Interface;
use virtio_drivers::BufferDirection;
use virtio_drivers::transport::pci::bus::DeviceFunction;

use super::memory::{self, BUFFER_BYTES, QUEUE_BUFFERS, RECEIVE_BUFFERS, TRANSMIT_BUFFERS};
use super::queue::Queue;
use super::*;
use crate::layout;
use crate::mmio::Mmio;
use crate::pci::Registers;
use crate::virtio::DeviceRegisters;
use crate::virtio::memory::OPENING;

const PREFIX: usize = 12;
const MAX_FRAME: usize = 1514;
const ADDRESS: [u8; 6] = [2, 0, 0, 0, 7, 1];

/// Where the registers are that the tests look at, in words.
const STATUS: usize = 5;
const QUEUE_SIZE: usize = 6;
const QUEUE_ENABLE: usize = 7;

/// Registers of each kind, in words.
const REGISTERS: usize = 64;

/// What the place of notifications holds as long as nobody has notified.
const UNTOLD: u32 = 0xffff_ffff;

#[repr(C, align(4096))]
#[derive(Clone)]
struct Page([u8; 4096]);

/// The other side: reads and writes what the core shares with it, as a device does.
struct FakeDevice {
    common: *mut u32,
    notify: *mut u32,
    configuration: *mut u32,
    memory: *mut u8,
    /// Where all of that is.
    _owned: (Vec<Page>, Vec<u32>),
    /// How far it has come in each queue.
    seen: [Cell<u16>; 2],
    used: [Cell<u16>; 2],
}

const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;

impl FakeDevice {
    fn new() -> FakeDevice {
        let mut pages = vec![Page([0xee; 4096]); memory::BYTES as usize / 4096];
        let mut registers = vec![0; 3 * REGISTERS];
        let memory = pages.as_mut_ptr().cast();
        let common = registers.as_mut_ptr();
        let device = FakeDevice {
            common,
            notify: common.wrapping_add(REGISTERS),
            configuration: common.wrapping_add(2 * REGISTERS),
            memory,
            _owned: (pages, registers),
            seen: Default::default(),
            used: Default::default(),
        };
        device.set(device.configuration, 0, u32::from_le_bytes(*ADDRESS.first_chunk().unwrap()));
        device.set(device.configuration, 1, u16::from_le_bytes([ADDRESS[4], ADDRESS[5]]).into());
        device.set(device.common, QUEUE_SIZE, QUEUE_BUFFERS as u32);
        device.set(device.notify, 0, UNTOLD);
        device
    }

    fn set(&self, words: *mut u32, index: usize, value: u32) {
        // SAFETY: the words live as long as the device, and are `REGISTERS`.
        unsafe { words.add(index).write_volatile(value) }
    }

    fn get(&self, words: *mut u32, index: usize) -> u32 {
        // SAFETY: as in `set`.
        unsafe { words.add(index).read_volatile() }
    }

    /// An interface to it, of which only the start of the device was left out.
    fn open(&self) -> VirtioNet {
        let _alone = OPENING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mmio = |words: *mut u32| {
            // SAFETY: as in `set`.
            unsafe { Mmio::new(VirtAddr(words.addr() as u64), REGISTERS * 4) }
        };
        let messages = self.configuration;
        let windows = [self.common, self.notify, self.configuration, messages].map(mmio);
        let mut registers = DeviceRegisters::new(&device(), windows);

        let at = PhysAddr((self.memory.addr() as u64).wrapping_sub(layout::SHARED_BASE.0));
        // SAFETY: the memory lives as long as this device, which is the only other that uses it.
        let (incoming, outgoing) =
            unsafe { memory::divide(Frames { start: at, bytes: memory::BYTES }) };
        let ways = [
            (incoming, BufferDirection::DeviceToDriver),
            (outgoing, BufferDirection::DriverToDevice),
        ];
        let [mut receive, transmit] = ways.map(|(buffers, way)| {
            // All queues of this device have the same registers.
            self.set(self.common, QUEUE_ENABLE, 0);
            Queue::open(&mut registers, 0, buffers, way).unwrap()
        });
        (0..RECEIVE_BUFFERS as u16).for_each(|buffer| receive.give(buffer, BUFFER_BYTES));
        receive.tell();
        self.set(self.common, STATUS, 0xf);
        self.set(self.notify, 0, UNTOLD);
        STOPPED.set(0);
        let on_stop = |_| STOPPED.set(STOPPED.get() + 1);
        VirtioNet::new(registers, MAX_FRAME, receive, transmit, on_stop)
    }

    /// Whether it was notified since it was last asked.
    fn was_told(&self) -> bool {
        let told = self.get(self.notify, 0) != UNTOLD;
        self.set(self.notify, 0, UNTOLD);
        told
    }

    /// A place in a queue: descriptors at 0, what the core writes at 0x1000, what the device
    /// writes at 0x2000.
    fn place<T>(&self, queue: usize, offset: usize) -> *mut T {
        // SAFETY: the queues are the first part of the memory.
        unsafe { self.memory.add(queue * 0x3000 + offset).cast() }
    }

    fn read<T>(&self, queue: usize, offset: usize) -> T {
        // SAFETY: as in `place`; the offsets below are aligned.
        unsafe { self.place::<T>(queue, offset).read_volatile() }
    }

    fn write<T>(&self, queue: usize, offset: usize, value: T) {
        // SAFETY: as in `read`.
        unsafe { self.place::<T>(queue, offset).write_volatile(value) }
    }

    /// Whether the core wants to be interrupted.
    fn may_interrupt(&self, queue: usize) -> bool {
        self.read::<u16>(queue, 0x1000) == 0
    }

    /// The next descriptor that the core has given, if there is one.
    fn next(&self, queue: usize) -> Option<u16> {
        let seen = self.seen[queue].get();
        if self.read::<u16>(queue, 0x1002) == seen {
            return None;
        }
        self.seen[queue].set(seen.wrapping_add(1));
        Some(self.read(queue, 0x1004 + 2 * (usize::from(seen) % QUEUE_BUFFERS)))
    }

    /// Lets `work` at the bytes that a descriptor means.
    fn with<R>(&self, queue: usize, descriptor: u16, work: impl FnOnce(&mut [u8]) -> R) -> R {
        let at = usize::from(descriptor) * 16;
        let start = layout::SHARED_BASE.0.wrapping_add(self.read::<u64>(queue, at));
        let length = self.read::<u32>(queue, at + 8) as usize;
        let first = self.memory.addr() as u64;
        let inside = start >= first && start + length as u64 <= first + memory::BYTES;
        assert!(inside, "the device is led astray");
        // SAFETY: it is inside of the memory, and belongs to the device now.
        work(unsafe { core::slice::from_raw_parts_mut(start as *mut u8, length) })
    }

    /// Gives a descriptor back.
    fn give_back(&self, queue: usize, descriptor: u32, length: u32) {
        let used = self.used[queue].get();
        let at = 0x2004 + 8 * (usize::from(used) % QUEUE_BUFFERS);
        self.write(queue, at, descriptor);
        self.write(queue, at + 4, length);
        self.used[queue].set(used.wrapping_add(1));
        self.write(queue, 0x2002, used.wrapping_add(1));
    }

    /// A frame comes; whether there was a buffer for it.
    fn receive(&self, frame: &[u8]) -> bool {
        let Some(descriptor) = self.next(RECEIVE) else { return false };
        self.with(RECEIVE, descriptor, |bytes| {
            bytes[PREFIX..PREFIX + frame.len()].copy_from_slice(frame);
        });
        self.give_back(RECEIVE, descriptor.into(), (PREFIX + frame.len()) as u32);
        true
    }

    /// Sends the next frame, and gives it.
    fn send(&self) -> Option<Vec<u8>> {
        let descriptor = self.next(TRANSMIT)?;
        let bytes = self.with(TRANSMIT, descriptor, |bytes| bytes.to_vec());
        self.give_back(TRANSMIT, descriptor.into(), 0);
        assert_eq!(bytes[..PREFIX], [0; PREFIX]);
        Some(bytes[PREFIX..].to_vec())
    }
}

std::thread_local! {
    /// How often this thread's interfaces were stopped.
    static STOPPED: Cell<u32> = const { Cell::new(0) };
}

fn device() -> Device {
    let registers = Registers { start: PhysAddr(0x1000), bytes: REGISTERS as u64 * 4 };
    Device {
        at: DeviceFunction { bus: 0, device: 0, function: 0 },
        common: registers,
        notify: registers,
        notify_multiplier: 4,
        configuration: registers,
        messages: registers,
    }
}

#[test]
fn queues_and_buffers_fill_the_memory_and_do_not_overlap() {
    let _alone = OPENING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let memory = Frames { start: PhysAddr(0x10_0000), bytes: memory::BYTES };
    // SAFETY: nothing is taken of it, and the next one is divided before.
    let (incoming, outgoing) = unsafe { memory::divide(memory) };
    let queues = memory.bytes - ((RECEIVE_BUFFERS + TRANSMIT_BUFFERS) * BUFFER_BYTES) as u64;
    let start = |buffers: memory::Buffers, index: usize| buffers.start(index as u16).addr() as u64;
    assert_eq!(start(incoming, 0), layout::shared(memory.start).0 + queues);
    assert_eq!(start(incoming, RECEIVE_BUFFERS), start(outgoing, 0));
    assert_eq!(start(outgoing, TRANSMIT_BUFFERS), layout::shared(memory.end()).0);
}

/// The frame with this number, each of another length.
fn frame(number: usize) -> Vec<u8> {
    let length = 14 + number % (MAX_FRAME - 13);
    (0..length).map(|at| (number * 7 + at) as u8).collect()
}

fn received(interface: &VirtioNet, limit: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let count = interface.receive(limit, &mut |frame| frames.push(frame.to_vec()));
    assert_eq!(count, frames.len());
    frames
}

/// Sends these frames; whether there was room.
fn send(interface: &VirtioNet, frames: &[Vec<u8>]) -> (usize, bool) {
    let mut left = frames.iter();
    let room = interface.transmit(&mut |bytes| {
        assert_eq!(bytes.len(), MAX_FRAME);
        let frame = left.next()?;
        bytes[..frame.len()].copy_from_slice(frame);
        Some(frame.len())
    });
    (frames.len() - left.len(), room)
}

#[test]
fn frames_come_whole_in_their_order_for_ever() {
    let device = FakeDevice::new();
    let interface = device.open();
    assert_eq!((interface.address(), interface.max_frame()), (MacAddress(ADDRESS), MAX_FRAME));
    // More often than the positions in the queue can count.
    let (mut sent, mut taken) = (0, 0);
    while taken < 70_000 {
        for _ in 0..RECEIVE_BUFFERS + 3 {
            sent += usize::from(device.receive(&frame(sent)));
        }
        for bytes in received(&interface, 100) {
            assert_eq!(bytes, frame(taken));
            taken += 1;
        }
    }
    let traffic = interface.traffic();
    assert_eq!((traffic.received, traffic.dropped), (taken as u64, 0));
}

#[test]
fn a_batch_is_told_once_and_only_if_the_device_wants_it() {
    const DO_NOT_TELL: u16 = 1;
    let device = FakeDevice::new();
    let interface = device.open();
    let frames: Vec<_> = (0..5).map(frame).collect();
    assert_eq!(send(&interface, &frames), (5, true));
    assert!(device.was_told());
    let gone: Vec<_> = core::iter::from_fn(|| device.send()).collect();
    assert_eq!(gone, frames);
    assert_eq!(send(&interface, &[]), (0, true));
    assert!(!device.was_told(), "there is nothing new");
    device.write(TRANSMIT, 0x2000, DO_NOT_TELL);
    send(&interface, &frames);
    assert!(!device.was_told());

    assert!(frames.iter().all(|frame| device.receive(frame)));
    assert_eq!(received(&interface, 3), frames[..3]);
    assert!(device.was_told(), "the buffers are back");
    assert_eq!(received(&interface, 3), frames[3..]);
}

#[test]
fn without_room_nothing_waits_and_nothing_is_lost() {
    let device = FakeDevice::new();
    let interface = device.open();
    let frames: Vec<_> = (0..TRANSMIT_BUFFERS + 10).map(frame).collect();
    assert_eq!(send(&interface, &frames), (TRANSMIT_BUFFERS, false));
    assert!(device.was_told());
    assert_eq!(send(&interface, &frames), (0, false));
    assert_eq!(device.send(), Some(frame(0)));
    assert_eq!(send(&interface, &frames[..1]), (1, false), "it was the last room");
    let gone = core::iter::from_fn(|| device.send()).count();
    assert_eq!(gone, TRANSMIT_BUFFERS);
    assert_eq!(interface.traffic().sent, TRANSMIT_BUFFERS as u64 + 1);
}

#[test]
fn what_is_no_frame_is_not_sent() {
    let device = FakeDevice::new();
    let interface = device.open();
    let mut lengths = [0, 13, MAX_FRAME + 1, usize::MAX, 14].into_iter();
    assert!(interface.transmit(&mut |_| lengths.next()));
    assert_eq!(device.send().map(|frame| frame.len()), Some(14));
    assert_eq!(device.send(), None);
    assert_eq!((interface.traffic().sent, interface.traffic().dropped), (1, 4));
}

#[test]
fn interrupts_are_on_only_from_an_idle_look_to_the_next_taking() {
    let device = FakeDevice::new();
    let interface = device.open();
    assert!(!device.may_interrupt(RECEIVE) && !device.may_interrupt(TRANSMIT));
    device.receive(&frame(1));
    assert!(interface.is_ready());
    assert!(!device.may_interrupt(RECEIVE), "there is no need for one");
    received(&interface, 8);
    assert!(!interface.is_ready());
    assert!(device.may_interrupt(RECEIVE) && !device.may_interrupt(TRANSMIT));
    device.receive(&frame(2));
    assert!(interface.is_ready());
    received(&interface, 8);
    assert!(!device.may_interrupt(RECEIVE));
}

#[test]
fn a_frame_can_be_answered_while_it_is_there() {
    let device = FakeDevice::new();
    let interface = device.open();
    device.receive(&frame(40));
    interface.receive(1, &mut |bytes| {
        assert!(interface.is_ready());
        assert_eq!(interface.receive(1, &mut |_| panic!("the same frame twice")), 0);
        assert_eq!(send(&interface, &[bytes.to_vec()]), (1, true));
    });
    assert_eq!(device.send(), Some(frame(40)));
    let traffic = interface.traffic();
    assert_eq!((traffic.received, traffic.sent), (1, 1));
}

#[test]
fn a_frame_of_an_impossible_length_is_dropped() {
    let device = FakeDevice::new();
    let interface = device.open();
    let lengths = [0, 11, 12, 25, PREFIX + MAX_FRAME + 1, BUFFER_BYTES, BUFFER_BYTES + 1];
    for length in lengths.into_iter().chain([u32::MAX as usize]) {
        let descriptor = device.next(RECEIVE).unwrap();
        device.give_back(RECEIVE, descriptor.into(), length as u32);
    }
    device.receive(&frame(3));
    assert_eq!(received(&interface, 20), [frame(3)]);
    assert_eq!(interface.traffic().dropped, 8);
    // Their buffers are not lost.
    assert_eq!((0..).take_while(|_| device.receive(&frame(4))).count(), RECEIVE_BUFFERS);
}

/// What holds of an interface whose device was stopped.
fn check_stopped(device: &FakeDevice, interface: &VirtioNet) {
    assert_eq!(STOPPED.get(), 1);
    assert_eq!(device.get(device.common, STATUS) & 0xff, 0, "it was reset");
    assert!(!interface.is_ready());
    assert!(received(interface, 10).is_empty());
    let before = interface.traffic();
    let frames: Vec<_> = (0..3 * TRANSMIT_BUFFERS).map(frame).collect();
    assert_eq!(send(interface, &frames), (frames.len(), true), "nobody waits for it");
    let after = interface.traffic();
    assert_eq!(after.dropped - before.dropped, frames.len() as u64);
    assert_eq!((after.sent, STOPPED.get()), (before.sent, 1));
}

#[test]
fn a_device_that_gives_back_what_it_does_not_have_is_stopped() {
    for descriptor in [QUEUE_BUFFERS as u32, 0xffff, u32::MAX] {
        let device = FakeDevice::new();
        let interface = device.open();
        device.give_back(RECEIVE, descriptor, 100);
        assert!(received(&interface, 10).is_empty());
        check_stopped(&device, &interface);
    }
    let device = FakeDevice::new();
    let interface = device.open();
    send(&interface, &[frame(1)]);
    device.send();
    // The same again, which the core has not given anew.
    device.give_back(TRANSMIT, 0, 0);
    send(&interface, &[]);
    check_stopped(&device, &interface);
}

#[test]
fn a_device_that_sends_what_it_was_not_given_is_stopped() {
    let device = FakeDevice::new();
    let interface = device.open();
    send(&interface, &[frame(1)]);
    device.give_back(TRANSMIT, 77, 0);
    // Nothing that is filled while it turns out is lost without being counted.
    let (taken, room) = send(&interface, &[frame(2)]);
    assert_eq!((taken, room, interface.traffic().dropped), (1, true, 1));
    check_stopped(&device, &interface);
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
    let (mut stops, mut frames) = (0, 0);
    for _ in 0..300 {
        let device = FakeDevice::new();
        let interface = device.open();
        for _ in 0..100 {
            let queue = random(2) as usize;
            match random(8) {
                0 => device.give_back(queue, random(400) as u32, random(4000) as u32),
                1 => device.write(queue, 0x2002, random(0x1_0000) as u16),
                2 => device.write(queue, random(0x3000 / 8) as usize * 8, random(u64::MAX)),
                3 | 4 => frames += received(&interface, 10).len(),
                5 => drop(send(&interface, &[frame(random(2000) as usize)])),
                _ => {
                    let _ = interface.is_ready();
                    if let Some(descriptor) = device.next(RECEIVE) {
                        device.give_back(RECEIVE, descriptor.into(), 60);
                    }
                }
            }
        }
        stops += STOPPED.get();
    }
    assert!(stops > 200 && frames > 100, "{stops} stops, {frames} frames");
}
