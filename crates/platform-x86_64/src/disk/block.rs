//! A virtio-blk device as the kernel has it. Several requests are under way at once, each a chain
//! of a header, the request's memory, to and from which the device copies by itself, and a status.
//! Its core polls it; only a core that is about to sleep lets the device interrupt.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use core::slice;

use nile_platform::disk::{Completion, Description, DiskError, MAX_BYTES, MAX_PIECES, Request};
use nile_platform::{Disk, Line};
use virtio_drivers::transport::{DeviceStatus, Transport};

use super::memory::{DISCARDED_BYTES, HEADER_BYTES, SERIAL_BYTES, SLOTS, Slots};
use crate::node::Frames;
use crate::virtio::DeviceRegisters;
use crate::virtio::memory::QUEUE_BUFFERS;
use crate::virtio::registers::{ACCESS_PLATFORM, MESSAGE};
use crate::virtio::ring::{Broken, Ring};

/// Features (virtio 1.1, 5.2.3 and 6): the device says how long a piece of memory may be, how
/// many a request may have, that it may only be read, what its sectors are; it keeps what it is
/// told in memory until a flush; it gives back what is discarded; it is not of before virtio 1.0.
const LARGEST_PIECE: u64 = 1 << 1;
const MOST_PIECES: u64 = 1 << 2;
pub(super) const READ_ONLY: u64 = 1 << 5;
const SECTOR: u64 = 1 << 6;
pub(super) const FLUSH: u64 = 1 << 9;
const DISCARDS: u64 = 1 << 13;
pub(super) const VERSION_1: u64 = 1 << 32;
const WANTED: u64 = LARGEST_PIECE
    | MOST_PIECES
    | READ_ONLY
    | SECTOR
    | FLUSH
    | DISCARDS
    | VERSION_1
    | ACCESS_PLATFORM;

/// Where its own registers say so (virtio 1.1, 5.2.4).
pub(super) const CAPACITY_REGISTER: usize = 0;
const LARGEST_PIECE_REGISTER: usize = 8;
const MOST_PIECES_REGISTER: usize = 12;
const SECTOR_REGISTER: usize = 20;
const DISCARDED_REGISTER: usize = 36;

/// Bytes in which places on the disk and its capacity are counted, whatever its sectors are.
const UNIT: u64 = 512;

/// What a request is to do.
const READ: u32 = 0;
const WRITE: u32 = 1;
const DO_FLUSH: u32 = 4;
const SAY_SERIAL: u32 = 8;
const DISCARD: u32 = 11;

/// How it ended, if well.
pub(super) const DONE: u8 = 0;
pub(super) const NOT_YET: u8 = 0xff;

/// Looks at a device that was asked for its serial number before it is taken for dead.
const MAX_LOOKS: u32 = 1 << 24;

/// Why a disk is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenError {
    /// The device does not come back from a reset.
    Stands,
    /// It is older than virtio 1.0, or takes less at a time than a request may have.
    Features,
    /// It has no message to interrupt by.
    NoMessage,
    /// Its queue has no room for our requests, or no place where the device is told.
    Queue,
    /// It does not answer.
    Silent,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OpenError::Stands => "the device does not come back from a reset",
            OpenError::Features => "the device is too old, or takes too little at a time",
            OpenError::NoMessage => "the device cannot interrupt by messages",
            OpenError::Queue => "the queue of the device is too short or out of reach",
            OpenError::Silent => "the device does not answer",
        })
    }
}

/// A virtio-blk device.
pub struct VirtioBlock {
    registers: DeviceRegisters,
    description: Description,
    state: RefCell<State>,
    on_stop: fn(),
}

/// A request that is under way.
struct Pending {
    tag: u32,
    request: Request,
}

pub(super) struct State {
    ring: Ring,
    slots: Slots,
    /// By the descriptor that begins its chain, the slot of a request.
    given: [Option<u16>; QUEUE_BUFFERS],
    pending: [Option<Pending>; SLOTS],
    free: Vec<u16>,
    ended: VecDeque<Completion>,
    writable: bool,
    /// Whether there is anything to flush in the device.
    flushes: bool,
    /// The most [`UNIT`]s that the device discards at once; none if it does not.
    discards: u32,
    /// Whether the device broke the protocol, and was stopped.
    stopped: bool,
}

impl VirtioBlock {
    /// Resets the device and begins anew with it: it interrupts by [`MESSAGE`], and requests go
    /// through `memory`. Should it break the protocol, it is stopped, and `on_stop` is called.
    ///
    /// # Safety
    /// `memory` are [`super::memory::BYTES`] bytes that this core has mapped at their place in the
    /// shared zone for ever, and that nobody else uses but this device.
    pub unsafe fn open(
        mut registers: DeviceRegisters,
        memory: Frames,
        name: String,
        on_stop: fn(),
    ) -> Result<VirtioBlock, OpenError> {
        if !registers.reset() {
            return Err(OpenError::Stands);
        }
        // SAFETY: the caller's promise; the device has just been reset.
        let opened = unsafe { begin(&mut registers, memory, name) };
        let (description, state) = opened.inspect_err(|_| {
            // It is not there for the node, so it is to do nothing.
            registers.reset();
        })?;
        Ok(VirtioBlock::new(registers, description, state, on_stop))
    }

    /// The disk of a device that lives.
    pub(super) fn new(
        registers: DeviceRegisters,
        description: Description,
        state: State,
        on_stop: fn(),
    ) -> VirtioBlock {
        VirtioBlock { registers, description, state: RefCell::new(state), on_stop }
    }

    /// The device broke the protocol. What else it does cannot be known; so it is stopped, and
    /// what it was to do has failed.
    fn stop(&self, state: &mut State) {
        let mut registers = self.registers;
        registers.reset();
        state.stopped = true;
        state.given.fill(None);
        for slot in 0..SLOTS as u16 {
            state.end(slot, |_| Err(DiskError::Failed));
        }
        (self.on_stop)();
    }
}

/// Brings a device that has been reset to life (virtio 1.1, 3.1.1), and asks it what it is.
///
/// # Safety
/// As for [`VirtioBlock::open`].
unsafe fn begin(
    registers: &mut DeviceRegisters,
    memory: Frames,
    name: String,
) -> Result<(Description, State), OpenError> {
    let mut status = DeviceStatus::ACKNOWLEDGE | DeviceStatus::DRIVER;
    registers.set_status(status);
    let offered = registers.read_device_features();
    registers.write_driver_features(offered & WANTED);
    status |= DeviceStatus::FEATURES_OK;
    registers.set_status(status);
    let agreed = registers.get_status().contains(DeviceStatus::FEATURES_OK);
    let said = |feature, register: usize| {
        let is_there = register + size_of::<u32>() <= registers.configuration_bytes;
        let is_said = offered & feature != 0 && is_there;
        is_said.then(|| registers.configuration.read32(register))
    };
    let piece = said(LARGEST_PIECE, LARGEST_PIECE_REGISTER);
    let pieces = said(MOST_PIECES, MOST_PIECES_REGISTER);
    let takes_enough = piece.is_none_or(|bytes| u64::from(bytes) >= MAX_BYTES)
        && pieces.is_none_or(|pieces| pieces as usize >= MAX_PIECES);
    if !agreed || offered & VERSION_1 == 0 || !takes_enough {
        return Err(OpenError::Features);
    }
    let sector = said(SECTOR, SECTOR_REGISTER).unwrap_or(UNIT as u32);
    let discards = said(DISCARDS, DISCARDED_REGISTER).unwrap_or_default();
    let sector_is_sound = sector.is_power_of_two() && u64::from(sector) >= UNIT;
    let capacity = registers.configuration;
    let low = capacity.read32(CAPACITY_REGISTER);
    let high = capacity.read32(CAPACITY_REGISTER + size_of::<u32>());
    let units = u64::from(high) << 32 | u64::from(low);
    let bytes = units.checked_mul(UNIT).filter(|_| sector_is_sound).ok_or(OpenError::Features)?;
    if !registers.interrupt_by(0, MESSAGE) {
        return Err(OpenError::NoMessage);
    }
    // SAFETY: the caller's promise.
    let slots = unsafe { Slots::divide(memory) };
    let ring = Ring::open(registers, 0).ok_or(OpenError::Queue)?;
    registers.set_status(status | DeviceStatus::DRIVER_OK);
    let mut state = State::new(ring, slots, offered, discards);
    let serial = state.ask_serial().ok_or(OpenError::Silent)?;
    let bytes = bytes - bytes % u64::from(sector);
    Ok((Description { name, serial, bytes, sector_bytes: sector }, state))
}

impl State {
    pub(super) fn new(ring: Ring, slots: Slots, features: u64, discards: u32) -> State {
        State {
            ring,
            slots,
            given: [None; QUEUE_BUFFERS],
            pending: [const { None }; SLOTS],
            free: (0..SLOTS as u16).collect(),
            ended: VecDeque::with_capacity(SLOTS),
            writable: features & READ_ONLY == 0,
            flushes: features & FLUSH != 0,
            discards,
            stopped: false,
        }
    }

    /// Calls `act` with the chain of a slot's request: what the device reads, what it writes.
    ///
    /// # Safety
    /// The device does not have the slot, or has given it back.
    unsafe fn with_chain<T>(
        &mut self,
        slot: u16,
        request: Option<&Request>,
        act: impl for<'a> FnOnce(&mut State, &'a [&'a [u8]], &'a mut [&'a mut [u8]]) -> T,
    ) -> T {
        let mut read = [&[][..]; MAX_PIECES + 1];
        let mut written: [&mut [u8]; MAX_PIECES + 1] = core::array::from_fn(|_| &mut [][..]);
        let (mut reads, mut writes) = (1, 0);
        // SAFETY: the slots are mapped on this core for ever, and this one is nobody else's now.
        // A request's memory is mapped as long as it is under way, which is what `Disk` asks of
        // its callers. Both are used for their addresses alone.
        unsafe {
            read[0] = slice::from_raw_parts(self.slots.header(slot).cast(), HEADER_BYTES);
            let pieces = request.and_then(Request::transfer).map_or(&[][..], |(_, it)| it);
            for piece in pieces.iter().take(MAX_PIECES) {
                let start = piece.region.words().as_ptr().cast_mut().cast::<u8>();
                let memory = slice::from_raw_parts_mut(start, piece.region.len());
                if let Some(Request::Write { .. }) = request {
                    read[reads] = memory;
                    reads += 1;
                } else {
                    written[writes] = memory;
                    writes += 1;
                }
            }
            if let Some(Request::Discard { .. }) = request {
                let place = self.slots.discarded(slot).cast();
                read[reads] = slice::from_raw_parts(place, DISCARDED_BYTES);
                reads += 1;
            }
            if request.is_none() {
                let serial = self.slots.serial(slot).cast();
                written[writes] = slice::from_raw_parts_mut(serial, SERIAL_BYTES);
                writes += 1;
            }
            written[writes] = slice::from_raw_parts_mut(self.slots.status(slot), 1);
            writes += 1;
        }
        act(self, &read[..reads], &mut written[..writes])
    }

    /// Gives a request to the device in a free slot; `None` asks for the serial number. `false` if
    /// the queue has no room for it.
    fn give(&mut self, slot: u16, request: Option<&Request>) -> bool {
        let (action, at) = match request {
            Some(Request::Read { at, .. }) => (READ, *at),
            Some(Request::Write { at, .. }) => (WRITE, *at),
            Some(Request::Flush) => (DO_FLUSH, 0),
            Some(Request::Discard { .. }) => (DISCARD, 0),
            None => (SAY_SERIAL, 0),
        };
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&action.to_le_bytes());
        header[8..].copy_from_slice(&(at / UNIT).to_le_bytes());
        // SAFETY: the slot is free, so it is nobody's but this core's; it is mapped for ever.
        unsafe {
            self.slots.header(slot).write(header);
            self.slots.status(slot).write(NOT_YET);
            if let Some(Request::Discard { at, bytes }) = request {
                // Who takes less at a time gets less.
                let units = (bytes / UNIT).min(self.discards.into()) as u32;
                let mut range = [0; DISCARDED_BYTES];
                range[..8].copy_from_slice(&(at / UNIT).to_le_bytes());
                range[8..12].copy_from_slice(&units.to_le_bytes());
                self.slots.discarded(slot).write(range);
            }
        }
        // SAFETY: as above; from here on nobody touches it until the device gives it back.
        let token = unsafe {
            self.with_chain(slot, request, |state, read, written| {
                state.ring.queue.add(read, written)
            })
        };
        let Ok(token) = token else { return false };
        self.given[usize::from(token)] = Some(slot);
        self.ring.untold = true;
        true
    }

    /// The next slot that the device has given back.
    fn take(&mut self) -> Result<Option<u16>, Broken> {
        let Some(token) = self.ring.queue.peek_used() else { return Ok(None) };
        let given = self.given.get_mut(usize::from(token));
        let slot = given.and_then(Option::take).ok_or(Broken)?;
        let pending = self.pending[usize::from(slot)].take();
        let request = pending.as_ref().map(|it| &it.request);
        // SAFETY: this chain was given with this token; the device is done with it.
        let popped = unsafe {
            self.with_chain(slot, request, |state, read, written| {
                state.ring.queue.pop_used(token, read, written)
            })
        };
        self.pending[usize::from(slot)] = pending;
        // It fails if the device has changed its mind since the token was read.
        popped.map(|_| Some(slot)).map_err(|_| Broken)
    }

    /// Ends the request of a slot, if it has one.
    fn end(&mut self, slot: u16, result: impl FnOnce(&Request) -> Result<(), DiskError>) {
        if let Some(Pending { tag, request }) = self.pending[usize::from(slot)].take() {
            self.ended.push_back(Completion { tag, result: result(&request), hash: None });
            self.free.push(slot);
        }
    }

    /// The serial number, as the device says; empty if it does not have one.
    fn ask_serial(&mut self) -> Option<String> {
        let slot = self.free.pop()?;
        self.give(slot, None);
        self.ring.tell();
        let answered = (0..MAX_LOOKS).any(|_| self.ring.is_ready());
        let answered = answered && self.take() == Ok(Some(slot));
        self.free.push(slot);
        if !answered {
            return None;
        }
        if self.slots.read_status(slot) != DONE {
            return Some(String::new());
        }
        // SAFETY: the slots are mapped for ever, and the device has given this one back.
        let serial = unsafe { self.slots.serial(slot).read() };
        let text = serial.split(|byte| *byte == 0).next().unwrap_or_default();
        Some(String::from_utf8_lossy(text).trim().into())
    }
}

/// What a status means.
fn ended(status: u8, request: &Request) -> Result<(), DiskError> {
    match (status, request.range()) {
        (DONE, _) => Ok(()),
        (_, Some((at, end))) => Err(DiskError::Media { at, end }),
        (_, None) => Err(DiskError::Failed),
    }
}

impl Disk for VirtioBlock {
    fn description(&self) -> &Description {
        &self.description
    }

    fn line(&self) -> Option<Line> {
        self.registers.line
    }

    fn submit(&self, tag: u32, request: &Request) -> bool {
        let state = &mut *self.state.borrow_mut();
        let result = match request {
            _ if state.stopped => Err(DiskError::Failed),
            Request::Write { .. } | Request::Discard { .. } if !state.writable => {
                Err(DiskError::ReadOnly)
            }
            // What a device that has no flush says is done, is on the disk.
            Request::Flush if !state.flushes => Ok(()),
            // What cannot be given back stays.
            Request::Discard { .. } if state.discards == 0 => Ok(()),
            _ => {
                let Some(slot) = state.free.pop() else { return false };
                let given = state.give(slot, Some(request));
                match given {
                    true => {
                        let pending = Pending { tag, request: request.clone() };
                        state.pending[usize::from(slot)] = Some(pending);
                    }
                    false => state.free.push(slot),
                }
                return given;
            }
        };
        state.ended.push_back(Completion { tag, result, hash: None });
        true
    }

    fn tell(&self) {
        let state = &mut *self.state.borrow_mut();
        if !state.stopped {
            state.ring.tell();
        }
    }

    fn is_ready(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        !state.ended.is_empty() || (!state.stopped && !state.ring.arm())
    }

    fn complete(&self) -> Option<Completion> {
        let state = &mut *self.state.borrow_mut();
        while !state.stopped {
            state.ring.silence();
            match state.take() {
                Ok(Some(slot)) => {
                    let status = state.slots.read_status(slot);
                    state.end(slot, |request| ended(status, request));
                }
                Ok(None) => break,
                Err(Broken) => self.stop(state),
            }
        }
        state.ended.pop_front()
    }
}
