//! A SATA disk as the kernel has it. Its core polls it; only a core that is about to sleep lets
//! the port interrupt.

use alloc::collections::VecDeque;
use alloc::string::String;
use core::cell::RefCell;

use nile_abi::VirtAddr;
use nile_platform::disk::{Completion, Description, DiskError, Request};
use nile_platform::{Disk, Line};

use super::command::{self, Action};
use super::port::{Port, SLOTS, Stopped};
use crate::virtio::memory::physical;

/// A disk at a port.
pub struct AhciDisk {
    port: Port,
    description: Description,
    /// That of its controller.
    line: Option<Line>,
    state: RefCell<State>,
    on_stop: fn(),
}

#[derive(Default)]
struct State {
    pending: [Option<(u32, Request)>; SLOTS],
    /// Slots that the device has, and those that it was not told of.
    issued: u32,
    untold: u32,
    ended: VecDeque<Completion>,
    /// Whether the port may interrupt.
    armed: bool,
    /// Whether the disk does not work any more.
    failed: bool,
}

impl AhciDisk {
    /// The disk at a port of a controller that was reset, if there is one that can be used.
    /// Should it fail for good, `on_stop` is called.
    pub fn open(port: Port, name: String, on_stop: fn()) -> Option<AhciDisk> {
        if !port.start() {
            return None;
        }
        let memory = [(port.identity_at(), 512)].into_iter();
        let (header, table) = command::build(Action::Identify, 0, 0, port.table_at(0), memory);
        port.put(0, header, table);
        port.issue(1);
        let said = port.identity().as_ref().and_then(command::identity);
        let Some((serial, sectors, sector_bytes)) = said else {
            port.halt();
            return None;
        };
        let bytes = sectors.saturating_mul(sector_bytes.into());
        Some(AhciDisk::new(port, Description { name, serial, bytes, sector_bytes }, on_stop))
    }

    /// The disk at a port that runs.
    pub(super) fn new(port: Port, description: Description, on_stop: fn()) -> AhciDisk {
        AhciDisk { port, description, line: None, state: RefCell::default(), on_stop }
    }

    /// The disk of a controller that interrupts by this line.
    pub fn by(self, line: Option<Line>) -> AhciDisk {
        AhciDisk { line, ..self }
    }

    fn put(&self, slot: u32, request: &Request) {
        let action = match request {
            Request::Read { .. } => Action::Read,
            Request::Write { .. } => Action::Write,
            // None comes here that discards.
            Request::Flush | Request::Discard { .. } => Action::Flush,
        };
        let (at, pieces) = request.transfer().unwrap_or_default();
        let sector = u64::from(self.description.sector_bytes);
        let memory = pieces.iter().map(|piece| {
            let start = piece.region.words().as_ptr().addr() as u64;
            (physical(VirtAddr(start)).0, piece.region.len() as u64)
        });
        let sectors = (request.bytes() / sector) as u16;
        let table_at = self.port.table_at(slot);
        let (header, table) = command::build(action, at / sector, sectors, table_at, memory);
        self.port.put(slot, header, table);
    }

    /// Takes what the device has ended.
    fn collect(&self, state: &mut State) {
        if state.issued == 0 || state.failed {
            return;
        }
        if state.armed {
            self.port.interrupt(false);
            state.armed = false;
        }
        self.port.acknowledge();
        let left = self.port.issued();
        if !self.port.is_wrong() {
            state.end(state.issued & !left, |_| Ok(()));
            return;
        }
        match self.port.recover() {
            // Some controllers count the command that failed among those that ended: so all that
            // ended since the last look are taken for failed.
            Some(Stopped { command, left }) => {
                let ended = state.issued & !left;
                let at_it = state.issued & 1 << command;
                let failed =
                    if ended | at_it != 0 { ended | at_it } else { left & left.wrapping_neg() };
                state.end(failed, media_error);
                self.port.issue(state.issued);
            }
            None => {
                self.port.halt();
                state.failed = true;
                state.end(state.issued | state.untold, |_| Err(DiskError::Failed));
                (self.on_stop)();
            }
        }
    }
}

fn media_error(request: &Request) -> Result<(), DiskError> {
    Err(match request.transfer() {
        Some((at, _)) => DiskError::Media { at, end: at + request.bytes() },
        None => DiskError::Failed,
    })
}

impl State {
    /// Ends the requests in these slots.
    fn end(&mut self, slots: u32, result: impl Fn(&Request) -> Result<(), DiskError>) {
        for (slot, pending) in self.pending.iter_mut().enumerate() {
            if slots & 1 << slot != 0
                && let Some((tag, request)) = pending.take()
            {
                self.ended.push_back(Completion { tag, result: result(&request), hash: None });
            }
        }
        self.issued &= !slots;
        self.untold &= !slots;
    }
}

impl Disk for AhciDisk {
    fn description(&self) -> &Description {
        &self.description
    }

    fn line(&self) -> Option<Line> {
        self.line
    }

    fn submit(&self, tag: u32, request: &Request) -> bool {
        let state = &mut *self.state.borrow_mut();
        let at_once = match request {
            _ if state.failed => Some(Err(DiskError::Failed)),
            // What is discarded stays.
            Request::Discard { .. } => Some(Ok(())),
            _ => None,
        };
        if let Some(result) = at_once {
            state.ended.push_back(Completion { tag, result, hash: None });
            return true;
        }
        let slot = (state.issued | state.untold).trailing_ones();
        if slot as usize == SLOTS {
            return false;
        }
        self.put(slot, request);
        state.pending[slot as usize] = Some((tag, request.clone()));
        state.untold |= 1 << slot;
        true
    }

    fn tell(&self) {
        let state = &mut *self.state.borrow_mut();
        if state.untold != 0 {
            self.port.issue(state.untold);
            state.issued |= core::mem::take(&mut state.untold);
        }
    }

    fn is_ready(&self) -> bool {
        let state = &mut *self.state.borrow_mut();
        if !state.ended.is_empty() {
            return true;
        }
        if state.issued == 0 || state.failed {
            return false;
        }
        if !state.armed {
            self.port.acknowledge();
            self.port.interrupt(true);
            state.armed = true;
        }
        // Either the port interrupts, or what it ended before is seen now.
        self.port.issued() != state.issued || self.port.is_wrong()
    }

    fn complete(&self) -> Option<Completion> {
        let state = &mut *self.state.borrow_mut();
        if state.ended.is_empty() {
            self.collect(state);
        }
        state.ended.pop_front()
    }
}
