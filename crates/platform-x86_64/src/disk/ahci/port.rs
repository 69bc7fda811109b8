//! A port of a controller: its registers (AHCI 1.3.1, 3.3), and the memory that it shares with its
//! core: the list of commands, what the disk answers, a table for each command, and room for what
//! the disk says of itself.

use core::sync::atomic::{Ordering, fence};

use nile_abi::{PageSize, VirtAddr};

use super::command::{HEADER_BYTES, TABLE_BYTES};
use super::controller::{self, MAX_LOOKS};
use crate::mmio::Mmio;
use crate::node::Frames;
use crate::virtio::memory::{physical, seen};

/// Commands of a port.
pub const SLOTS: usize = 32;

const LIST_BYTES: usize = SLOTS * HEADER_BYTES;
const ANSWERS: usize = LIST_BYTES;
const ANSWER_BYTES: usize = 256;
const IDENTITY: usize = 0x800;
const TABLES: usize = 0x1000;
const _: () = assert!(ANSWERS + ANSWER_BYTES <= IDENTITY);

/// Bytes that a port shares with its core.
pub const BYTES: u64 = (TABLES + SLOTS * TABLE_BYTES) as u64;
const _: () = assert!(BYTES.is_multiple_of(PageSize::Small.bytes()));

/// Registers of a port.
const LIST_AT: usize = 0x00;
const ANSWERS_AT: usize = 0x08;
const INTERRUPT_STATUS: usize = 0x10;
const INTERRUPT_ENABLE: usize = 0x14;
const COMMAND: usize = 0x18;
const TASK: usize = 0x20;
const SIGNATURE: usize = 0x24;
const LINK: usize = 0x28;
const ERRORS: usize = 0x30;
const ISSUED: usize = 0x38;

/// The controller's own register of ports that interrupt.
const ALL_INTERRUPTS: usize = 0x08;

const START: u32 = 1 << 0;
const SPIN_UP: u32 = 1 << 1;
const POWER_ON: u32 = 1 << 2;
const RECEIVE: u32 = 1 << 4;
const RECEIVES: u32 = 1 << 14;
const RUNS: u32 = 1 << 15;
const CURRENT_SHIFT: u32 = 8;
const CURRENT: u32 = 0x1f;

const CONNECTED: u32 = 3;
const BUSY: u32 = 1 << 7 | 1 << 3;
const FAILED: u32 = 1 << 0;
const IS_DISK: u32 = 0x0000_0101;

/// What interrupts: an answer of the disk, an error.
const ANSWERED: u32 = 1 << 0;
const TASK_ERROR: u32 = 1 << 30;
const WRONG: u32 = TASK_ERROR | 1 << 29 | 1 << 28 | 1 << 27;

/// A port. Its core reaches it alone.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    registers: Mmio,
    number: usize,
    memory: VirtAddr,
}

/// How a port came to a stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// Which command it was at.
    pub command: u32,
    /// Which it had not ended.
    pub left: u32,
}

impl Port {
    /// The port with this number.
    ///
    /// # Safety
    /// `registers` are those of its controller, and `memory` are [`BYTES`] bytes that this core
    /// has mapped at their place in the shared zone for ever, and nobody else uses but this port.
    pub unsafe fn new(registers: Mmio, number: usize, memory: Frames) -> Port {
        Port { registers, number, memory: seen(memory.start) }
    }

    fn read(&self, register: usize) -> u32 {
        self.registers.read32(controller::port(self.number) + register)
    }

    fn write(&self, register: usize, value: u32) {
        self.registers.write32(controller::port(self.number) + register, value);
    }

    fn write64(&self, register: usize, at: VirtAddr) {
        let at = physical(at).0;
        self.write(register, at as u32);
        self.write(register + 4, (at >> 32) as u32);
    }

    fn place(&self, offset: usize) -> VirtAddr {
        VirtAddr(self.memory.0 + offset as u64)
    }

    /// Starts a port of a controller that was reset; `false` if there is no disk.
    pub fn start(&self) -> bool {
        if !self.halt() {
            return false;
        }
        // SAFETY: the memory is this port's and mapped (`new`), and the port has been stopped.
        unsafe { (self.memory.0 as *mut u8).write_bytes(0, BYTES as usize) };
        self.write64(LIST_AT, self.place(0));
        self.write64(ANSWERS_AT, self.place(ANSWERS));
        self.write(COMMAND, self.read(COMMAND) | SPIN_UP | POWER_ON | RECEIVE);
        // A link that is not there at once is given some looks.
        let is_there = (0..MAX_LOOKS >> 6).any(|_| self.read(LINK) & 0xf == CONNECTED);
        if !is_there || !(0..MAX_LOOKS).any(|_| self.read(TASK) & BUSY == 0) {
            return false;
        }
        self.forget_errors();
        self.write(INTERRUPT_ENABLE, 0);
        self.write(COMMAND, self.read(COMMAND) | START);
        self.read(SIGNATURE) == IS_DISK
    }

    /// Stops the port: when this gives `true`, it touches no memory.
    pub fn halt(&self) -> bool {
        self.write(COMMAND, self.read(COMMAND) & !START);
        if !(0..MAX_LOOKS).any(|_| self.read(COMMAND) & RUNS == 0) {
            return false;
        }
        self.write(COMMAND, self.read(COMMAND) & !RECEIVE);
        (0..MAX_LOOKS).any(|_| self.read(COMMAND) & RECEIVES == 0)
    }

    /// Where a command's table is for the device.
    pub fn table_at(&self, slot: u32) -> u64 {
        physical(self.table(slot)).0
    }

    fn table(&self, slot: u32) -> VirtAddr {
        self.place(TABLES + slot as usize * TABLE_BYTES)
    }

    /// Puts a command in a slot that the device does not have.
    pub fn put(&self, slot: u32, header: [u8; HEADER_BYTES], table: [u8; TABLE_BYTES]) {
        let place = self.place(slot as usize * HEADER_BYTES);
        // SAFETY: the memory is this port's and mapped (`new`); the device does not look at a slot
        // that was not issued.
        unsafe {
            (place.0 as *mut [u8; HEADER_BYTES]).write_volatile(header);
            (self.table(slot).0 as *mut [u8; TABLE_BYTES]).write_volatile(table);
        }
    }

    /// Has the device look at these slots, which it does not have.
    pub fn issue(&self, slots: u32) {
        // What it is to find is stored before.
        fence(Ordering::SeqCst);
        self.write(ISSUED, slots);
    }

    /// The slots that the device has not ended.
    pub fn issued(&self) -> u32 {
        let issued = self.read(ISSUED);
        fence(Ordering::SeqCst);
        issued
    }

    /// Whether something went wrong; the port has stopped then.
    pub fn is_wrong(&self) -> bool {
        self.read(INTERRUPT_STATUS) & WRONG != 0
    }

    /// Forgets what it interrupted for: it can interrupt again.
    pub fn acknowledge(&self) {
        let status = self.read(INTERRUPT_STATUS) & !WRONG;
        if status != 0 {
            self.write(INTERRUPT_STATUS, status);
        }
        self.registers.write32(ALL_INTERRUPTS, 1 << self.number);
    }

    /// Lets it interrupt, or not.
    pub fn interrupt(&self, may: bool) {
        self.write(INTERRUPT_ENABLE, if may { ANSWERED | WRONG } else { 0 });
    }

    /// Begins again after something went wrong (AHCI 1.3.1, 6.2.2.1): what it was at, and what is
    /// to be issued anew. `None` if it does not come back.
    pub fn recover(&self) -> Option<Stopped> {
        let left = self.issued();
        let command = self.read(COMMAND) >> CURRENT_SHIFT & CURRENT;
        self.write(COMMAND, self.read(COMMAND) & !START);
        let stands = (0..MAX_LOOKS).any(|_| self.read(COMMAND) & RUNS == 0);
        if !stands || self.read(TASK) & BUSY != 0 {
            return None;
        }
        self.forget_errors();
        self.write(COMMAND, self.read(COMMAND) | START);
        Some(Stopped { command, left })
    }

    fn forget_errors(&self) {
        self.write(ERRORS, u32::MAX);
        self.write(INTERRUPT_STATUS, u32::MAX);
        self.registers.write32(ALL_INTERRUPTS, 1 << self.number);
    }

    /// Where the disk says what it is, for the device.
    pub fn identity_at(&self) -> u64 {
        physical(self.place(IDENTITY)).0
    }

    /// Waits for the only command, in slot 0, and gives what the disk said; `None` if it failed.
    pub fn identity(&self) -> Option<[u8; 512]> {
        let ended = (0..MAX_LOOKS).any(|_| self.issued() & 1 == 0 || self.is_wrong());
        if !ended || self.is_wrong() || self.read(TASK) & FAILED != 0 {
            return None;
        }
        self.acknowledge();
        // SAFETY: the memory is this port's and mapped (`new`), and the command has ended.
        Some(unsafe { (self.place(IDENTITY).0 as *const [u8; 512]).read_volatile() })
    }
}
