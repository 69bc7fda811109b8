//! An interface as the kernel has it. Its core polls it; only a core that is about to sleep lets
//! the device interrupt, and only for frames that come. Buffers of frames that have gone are
//! taken back when the next ones go.
//!
//! Of what `virtio-drivers` knows about network devices nothing is used, only its queues: its
//! driver tells the device of each frame by itself, counts interrupts instead of switching them
//! off, and trusts the numbers that the device gives back.

use core::cell::{Cell, RefCell};
use core::fmt;

use heapless::Vec;
use nile_abi::MacAddress;
use nile_abi::ethernet::HEADER_BYTES;
use nile_platform::interface::Traffic;
use nile_platform::{Interface, Line};
use virtio_drivers::BufferDirection;
use virtio_drivers::transport::{DeviceStatus, Transport};

use super::memory::{self, BUFFER_BYTES, RECEIVE_BUFFERS, TRANSMIT_BUFFERS};
use super::queue::Queue;
use crate::node::Frames;
use crate::virtio::DeviceRegisters;
use crate::virtio::registers::{ACCESS_PLATFORM, MESSAGE, NEVER};
use crate::virtio::ring::Broken;

/// Where its own registers have its address and the largest packet.
const ADDRESS_REGISTER: usize = 0;
const LARGEST_PACKET_REGISTER: usize = 10;

const RECEIVE_QUEUE: u16 = 0;
const TRANSMIT_QUEUE: u16 = 1;

/// Features (virtio 1.1, 5.1.3 and 6): the device says the largest packet; it has an address; it
/// is not of before virtio 1.0.
const LARGEST_PACKET: u64 = 1 << 3;
const ADDRESS: u64 = 1 << 5;
const VERSION_1: u64 = 1 << 32;

/// What the device is told, or tells, before each frame: that there is nothing to tell.
const PREFIX_BYTES: usize = 12;

/// Bytes of a packet, without the Ethernet header: the fewest that a link may carry, and those of
/// a link without jumbo frames.
const PACKET_BYTES: core::ops::RangeInclusive<usize> = 68..=1500;

/// Why an interface is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// The device does not come back from a reset.
    Stands,
    /// It offers nothing that this driver can work with.
    Features,
    /// It has no message to interrupt by.
    NoMessage,
    /// One of its queues has no room for our buffers, or no place where the device is told.
    Queue,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Stands => f.write_str("the device does not come back from a reset"),
            OpenError::Features => f.write_str("the device is older than virtio 1.0"),
            OpenError::NoMessage => f.write_str("the device cannot interrupt by messages"),
            OpenError::Queue => f.write_str("a queue of the device is too short or out of reach"),
        }
    }
}

/// A virtio-net device.
pub struct VirtioNet {
    registers: DeviceRegisters,
    address: MacAddress,
    max_frame: usize,
    receive: RefCell<Queue>,
    transmit: RefCell<Transmit>,
    traffic: Cell<Traffic>,
    /// Whether the device broke the protocol, and was stopped.
    stopped: Cell<bool>,
    on_stop: fn(MacAddress),
}

struct Transmit {
    queue: Queue,
    free: Vec<u16, TRANSMIT_BUFFERS>,
}

impl VirtioNet {
    /// Resets the device and begins anew with it: interrupts go by [`MESSAGE`], frames through
    /// `memory`. Should the device break the protocol, it is stopped, and `on_stop` is called.
    ///
    /// # Safety
    /// `memory` are [`memory::BYTES`] bytes that this core has mapped at their place in the
    /// shared zone for ever, and that nobody else uses but this device.
    pub unsafe fn open(
        mut registers: DeviceRegisters,
        memory: Frames,
        on_stop: fn(MacAddress),
    ) -> Result<VirtioNet, OpenError> {
        if !registers.reset() {
            return Err(OpenError::Stands);
        }
        // SAFETY: the caller's promise; the device has just been reset.
        let opened = unsafe { begin(&mut registers, memory) };
        let (max_frame, receive, transmit) = opened.inspect_err(|_| {
            // It is not there for the node, so it is to do nothing.
            registers.reset();
        })?;
        Ok(VirtioNet::new(registers, max_frame, receive, transmit, on_stop))
    }

    /// The interface of a device that lives.
    pub(super) fn new(
        registers: DeviceRegisters,
        max_frame: usize,
        receive: Queue,
        transmit: Queue,
        on_stop: fn(MacAddress),
    ) -> VirtioNet {
        VirtioNet {
            registers,
            address: MacAddress(address(&registers)),
            max_frame,
            receive: RefCell::new(receive),
            transmit: RefCell::new(Transmit { queue: transmit, free: all() }),
            traffic: Cell::default(),
            stopped: Cell::new(false),
            on_stop,
        }
    }

    fn count(&self, change: impl FnOnce(&mut Traffic)) {
        let mut traffic = self.traffic.get();
        change(&mut traffic);
        self.traffic.set(traffic);
    }

    /// The device broke the protocol. What else it does cannot be known; so it is stopped.
    fn stop(&self) {
        let mut registers = self.registers;
        registers.reset();
        self.stopped.set(true);
        (self.on_stop)(self.address);
    }

    /// What has come into a buffer of which the device says that it wrote `bytes` bytes.
    fn frame<'a>(&self, buffer: &'a [u8], bytes: usize) -> Option<&'a [u8]> {
        let frame = buffer.get(PREFIX_BYTES..bytes)?;
        (HEADER_BYTES..=self.max_frame).contains(&frame.len()).then_some(frame)
    }
}

/// Brings a device that has been reset to life (virtio 1.1, 3.1.1): the largest frame, and both
/// queues.
///
/// # Safety
/// As for [`memory::divide`].
unsafe fn begin(
    registers: &mut DeviceRegisters,
    memory: Frames,
) -> Result<(usize, Queue, Queue), OpenError> {
    let mut status = DeviceStatus::ACKNOWLEDGE | DeviceStatus::DRIVER;
    registers.set_status(status);
    let offered = registers.read_device_features();
    let wanted = VERSION_1 | ADDRESS | LARGEST_PACKET | ACCESS_PLATFORM;
    registers.write_driver_features(offered & wanted);
    status |= DeviceStatus::FEATURES_OK;
    registers.set_status(status);
    let agreed = registers.get_status().contains(DeviceStatus::FEATURES_OK);
    if !agreed || offered & VERSION_1 == 0 || offered & ADDRESS == 0 {
        return Err(OpenError::Features);
    }
    let said = largest_packet(registers).filter(|_| offered & LARGEST_PACKET != 0);
    let packet = said.map_or(*PACKET_BYTES.end(), usize::from);
    let max_frame = HEADER_BYTES + packet.clamp(*PACKET_BYTES.start(), *PACKET_BYTES.end());

    let interrupts = registers.interrupt_by(RECEIVE_QUEUE, MESSAGE)
        && registers.interrupt_by(TRANSMIT_QUEUE, NEVER);
    if !interrupts {
        return Err(OpenError::NoMessage);
    }
    // SAFETY: the caller's promise.
    let (incoming, outgoing) = unsafe { memory::divide(memory) };
    let [receive, transmit] = [
        (RECEIVE_QUEUE, incoming, BufferDirection::DeviceToDriver),
        (TRANSMIT_QUEUE, outgoing, BufferDirection::DriverToDevice),
    ]
    .map(|(number, buffers, way)| Queue::open(registers, number, buffers, way));
    let mut receive = receive.ok_or(OpenError::Queue)?;
    let transmit = transmit.ok_or(OpenError::Queue)?;
    (0..RECEIVE_BUFFERS as u16).for_each(|buffer| receive.give(buffer, BUFFER_BYTES));
    registers.set_status(status | DeviceStatus::DRIVER_OK);
    receive.tell();
    Ok((max_frame, receive, transmit))
}

/// The interface's address, as the device says.
fn address(registers: &DeviceRegisters) -> [u8; 6] {
    core::array::from_fn(|byte| registers.configuration.read8(ADDRESS_REGISTER + byte))
}

/// Bytes of the largest packet, without the Ethernet header, of a device that offers to say it.
fn largest_packet(registers: &DeviceRegisters) -> Option<u16> {
    let is_there = LARGEST_PACKET_REGISTER + size_of::<u16>() <= registers.configuration_bytes;
    is_there.then(|| registers.configuration.read16(LARGEST_PACKET_REGISTER))
}

/// Every buffer for frames to go.
fn all() -> Vec<u16, TRANSMIT_BUFFERS> {
    (0..TRANSMIT_BUFFERS as u16).collect()
}

fn release(free: &mut Vec<u16, TRANSMIT_BUFFERS>, buffer: u16) {
    // There is room for all of them, and each is in the list once.
    let _ = free.push(buffer);
}

impl Interface for VirtioNet {
    fn address(&self) -> MacAddress {
        self.address
    }

    fn line(&self) -> Option<Line> {
        self.registers.line
    }

    fn max_frame(&self) -> usize {
        self.max_frame
    }

    fn is_ready(&self) -> bool {
        // Whoever asks while it gives frames is given the next one by the same call.
        let Ok(mut queue) = self.receive.try_borrow_mut() else { return true };
        !self.stopped.get() && !queue.arm()
    }

    fn receive(&self, limit: usize, take: &mut dyn FnMut(&[u8])) -> usize {
        let Ok(mut queue) = self.receive.try_borrow_mut() else { return 0 };
        queue.silence();
        let mut taken = 0;
        for _ in 0..limit {
            if self.stopped.get() {
                return taken;
            }
            let used = match queue.take() {
                Ok(Some(used)) => used,
                Ok(None) => break,
                Err(Broken) => {
                    self.stop();
                    return taken;
                }
            };
            match self.frame(queue.buffer(used.buffer), used.bytes) {
                Some(frame) => {
                    taken += 1;
                    self.count(|traffic| {
                        traffic.received += 1;
                        traffic.received_bytes += frame.len() as u64;
                    });
                    take(frame);
                }
                None => self.count(|traffic| traffic.dropped += 1),
            }
            queue.give(used.buffer, BUFFER_BYTES);
        }
        queue.tell();
        taken
    }

    fn transmit(&self, fill: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> bool {
        let Ok(mut side) = self.transmit.try_borrow_mut() else { return false };
        let Transmit { queue, free } = &mut *side;
        while !self.stopped.get() {
            match queue.take() {
                Ok(Some(used)) => release(free, used.buffer),
                Ok(None) => break,
                Err(Broken) => self.stop(),
            }
        }
        if self.stopped.get() {
            queue.forget();
            *free = all();
        }
        let has_room = loop {
            let Some(buffer) = free.pop() else { break false };
            let (prefix, frame) = queue.buffer(buffer).split_at_mut(PREFIX_BYTES);
            prefix.fill(0);
            let filled = fill(&mut frame[..self.max_frame]);
            let sendable = filled.filter(|bytes| (HEADER_BYTES..=self.max_frame).contains(bytes));
            match sendable {
                Some(bytes) if !self.stopped.get() => {
                    queue.give(buffer, PREFIX_BYTES + bytes);
                    self.count(|traffic| {
                        traffic.sent += 1;
                        traffic.sent_bytes += bytes as u64;
                    });
                    continue;
                }
                _ => release(free, buffer),
            }
            if filled.is_none() {
                break true;
            }
            self.count(|traffic| traffic.dropped += 1);
        };
        if !self.stopped.get() {
            queue.tell();
        }
        // A device that was stopped never has room again: what there is to send is dropped, and
        // nobody is to wait for it.
        has_room || self.stopped.get()
    }

    fn traffic(&self) -> Traffic {
        self.traffic.get()
    }
}
