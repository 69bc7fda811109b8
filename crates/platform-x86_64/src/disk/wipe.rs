//! How a supervisor makes a virtio-blk device as new that a domain has had: it resets it, so that
//! it touches no memory of that domain any more, and has it write zeros over all that it holds
//! (virtio 1.1, 5.2.6). The device does that by itself, some of it at a time.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use core::cell::RefCell;
use core::{fmt, slice};

use virtio_drivers::transport::{DeviceStatus, Transport};

use super::block::{CAPACITY_REGISTER, DONE, NOT_YET, OpenError, READ_ONLY, VERSION_1};
use super::memory::{DISCARDED_BYTES, HEADER_BYTES, Slots};
use crate::node::Frames;
use crate::virtio::DeviceRegisters;
use crate::virtio::registers::ACCESS_PLATFORM;
use crate::virtio::ring::{Broken, Ring};

/// It writes zeros by itself.
const WRITES_ZEROS: u64 = 1 << 14;

/// Where its own registers say how many sectors of 512 bytes at once, and whether it may give them
/// back.
const MOST_REGISTER: usize = 48;
const GIVES_BACK_REGISTER: usize = 56;
const CONFIGURATION_BYTES: usize = 60;

/// The request, and that what is zero may be given back.
const WRITE_ZEROS: u32 = 13;
const GIVE_BACK: u32 = 1;

/// The slot of the one request that is under way.
const SLOT: u16 = 0;

/// Whether a device can be made as new: it can write zeros, and may be written to.
pub fn is_able(registers: &DeviceRegisters) -> bool {
    let features = { *registers }.read_device_features();
    let wanted = VERSION_1 | WRITES_ZEROS;
    features & wanted == wanted
        && features & READ_ONLY == 0
        && registers.configuration_bytes >= CONFIGURATION_BYTES
        && registers.configuration.read32(MOST_REGISTER) != 0
}

/// The devices of a core that are being made as new, by their numbers. One that cannot be is left
/// as it is.
#[derive(Default)]
pub struct Renewals(RefCell<BTreeMap<u16, Option<Wipe>>>);

impl Renewals {
    /// Goes on with a device, which is reset first; whether it is done. Why it cannot be is said
    /// once, and it is not done then.
    ///
    /// # Safety
    /// `memory` is as [`super::block::VirtioBlock::open`] wants it, and the registers are mapped on
    /// this core for ever. Until this is done nobody else uses either.
    pub unsafe fn go_on(
        &self,
        number: u16,
        memory: Frames,
        registers: DeviceRegisters,
    ) -> Result<bool, NotRenewed> {
        let mut all = self.0.borrow_mut();
        let wipe = match all.entry(number) {
            Entry::Occupied(wipe) => wipe.into_mut(),
            Entry::Vacant(place) => {
                // SAFETY: the caller's promise.
                let begun = unsafe { Wipe::begin(registers, memory) };
                let why = begun.as_ref().err().copied();
                let wipe = place.insert(begun.ok());
                why.map_or(Ok(()), |why| Err(NotRenewed::Open(why)))?;
                wipe
            }
        };
        let Some(under_way) = wipe else { return Ok(false) };
        match under_way.step() {
            Ok(false) => Ok(false),
            Ok(true) => {
                all.remove(&number);
                Ok(true)
            }
            Err(Broken) => {
                *wipe = None;
                Err(NotRenewed::Failed)
            }
        }
    }
}

/// Why a device is not as new.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotRenewed {
    /// It cannot be begun with.
    Open(OpenError),
    /// It does not write zeros.
    Failed,
}

impl fmt::Display for NotRenewed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotRenewed::Open(why) => why.fmt(f),
            NotRenewed::Failed => f.write_str("the device does not write zeros"),
        }
    }
}

/// A device that writes zeros.
struct Wipe {
    registers: DeviceRegisters,
    ring: Ring,
    slots: Slots,
    /// How far it has come, and the end, in sectors of 512 bytes.
    at: u64,
    end: u64,
    /// The most at once.
    most: u32,
    flags: u32,
    /// By what the device gives the request back that is under way.
    token: Option<u16>,
}

impl Wipe {
    /// Resets a device, and brings it to life as far as this needs it.
    ///
    /// # Safety
    /// As for [`Renewals::go_on`].
    unsafe fn begin(mut registers: DeviceRegisters, memory: Frames) -> Result<Wipe, OpenError> {
        if !registers.reset() {
            return Err(OpenError::Stands);
        }
        if !is_able(&registers) {
            return Err(OpenError::Features);
        }
        let status = DeviceStatus::ACKNOWLEDGE | DeviceStatus::DRIVER;
        registers.set_status(status);
        // Without a flush of its own, what it says is done is on the disk.
        let offered = registers.read_device_features();
        registers.write_driver_features(offered & (VERSION_1 | WRITES_ZEROS | ACCESS_PLATFORM));
        let status = status | DeviceStatus::FEATURES_OK;
        registers.set_status(status);
        if !registers.get_status().contains(DeviceStatus::FEATURES_OK) {
            return Err(OpenError::Features);
        }
        let configuration = registers.configuration;
        let low = configuration.read32(CAPACITY_REGISTER);
        let high = configuration.read32(CAPACITY_REGISTER + size_of::<u32>());
        let most = configuration.read32(MOST_REGISTER);
        let gives_back = configuration.read8(GIVES_BACK_REGISTER) != 0;
        // SAFETY: the caller's promise; the device has just been reset.
        let slots = unsafe { Slots::divide(memory) };
        let ring = Ring::open(&mut registers, 0).ok_or(OpenError::Queue)?;
        registers.set_status(status | DeviceStatus::DRIVER_OK);
        Ok(Wipe {
            registers,
            ring,
            slots,
            at: 0,
            end: u64::from(high) << 32 | u64::from(low),
            most,
            flags: if gives_back { GIVE_BACK } else { 0 },
            token: None,
        })
    }

    /// Looks whether the request under way has ended, and gives the next one; whether there is
    /// none, and the device is stopped.
    fn step(&mut self) -> Result<bool, Broken> {
        let units = (self.end - self.at).min(self.most.into());
        if let Some(token) = self.token {
            if !self.ring.is_ready() {
                return Ok(false);
            }
            self.token = None;
            // SAFETY: this chain was given with this token.
            let popped = unsafe {
                self.with_chain(|ring, read, written| ring.queue.pop_used(token, read, written))
            };
            let is_done = popped.is_ok() && self.slots.read_status(SLOT) == DONE;
            if !is_done {
                self.registers.reset();
                return Err(Broken);
            }
            self.at += units;
            return self.step();
        }
        if self.at == self.end {
            self.registers.reset();
            return Ok(true);
        }
        let mut header = [0; HEADER_BYTES];
        header[..4].copy_from_slice(&WRITE_ZEROS.to_le_bytes());
        let mut range = [0; DISCARDED_BYTES];
        range[..8].copy_from_slice(&self.at.to_le_bytes());
        range[8..12].copy_from_slice(&(units as u32).to_le_bytes());
        range[12..].copy_from_slice(&self.flags.to_le_bytes());
        // SAFETY: the slots are mapped on this core for ever, and the device has none of them. From
        // `add` on nobody touches the chain until the device gives it back.
        let token = unsafe {
            self.slots.header(SLOT).write(header);
            self.slots.discarded(SLOT).write(range);
            self.slots.status(SLOT).write(NOT_YET);
            self.with_chain(|ring, read, written| ring.queue.add(read, written))
        };
        self.token = Some(token.map_err(|_| Broken)?);
        self.ring.untold = true;
        self.ring.tell();
        Ok(false)
    }

    /// Calls `act` with the chain of the request: what the device reads, what it writes.
    ///
    /// # Safety
    /// The device does not have the slot, or has given it back.
    unsafe fn with_chain<T>(
        &mut self,
        act: impl for<'a> FnOnce(&mut Ring, &'a [&'a [u8]], &'a mut [&'a mut [u8]]) -> T,
    ) -> T {
        // SAFETY: the slots are mapped on this core for ever; the caller's promise.
        unsafe {
            let header = slice::from_raw_parts(self.slots.header(SLOT).cast(), HEADER_BYTES);
            let range = slice::from_raw_parts(self.slots.discarded(SLOT).cast(), DISCARDED_BYTES);
            let status = slice::from_raw_parts_mut(self.slots.status(SLOT), 1);
            act(&mut self.ring, &[header, range], &mut [status])
        }
    }
}
