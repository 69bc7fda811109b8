//! A supervisor's disk, of whose end domains have parts (RainForest 5.4's RFfuse): the supervisor's
//! own node has the rest, and uses it as any disk.
//!
//! What domains ask for is done whenever the core that drives the disk looks for its own. A request
//! is copied before it is judged, reaches the part of whoever asks and a block of its link, and is
//! charged to the domain that the ledger gives the part to ([`Toll`]). A flood takes nothing that
//! others are to have:
//!
//! * Parts are looked at in turn, for as many bytes as their domains' weights say ([`Rounds`]).
//! * What goes beyond a domain's rate and burst waits until it does not ([`Bucket`]); the core
//!   polls meanwhile.
//! * Of the disk's room for requests all domains together have half.
//!
//! A part that no domain has any more is made as new here, too: what it was asked for ends, and all
//! of it is zero then.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use nile_abi::{Instant, PhysAddr};
use nile_domain::{Carried, Limit};

use crate::disk::{Completion, Description, DiskError, Inline, Piece, Request};
use crate::fair::{Bucket, Rounds, Served};
use crate::rffuse::{Answer, Asked, BLOCK_BYTES, DiskLink, PartState, SLOTS, What};
use crate::toll::{LedgerWords, Toll};
use crate::{Disk, Line};

/// Requests of domains that the disk has at a time.
const MOST: u32 = 16;

/// What a request costs in turns besides its bytes, and of how many of all these a turn counts one:
/// so a large request is about a turn.
const REQUEST_COST: u64 = 4096;
const COUNTED: u64 = 16;

/// Tags of requests that are not the supervisor's own.
const FOREIGN: u32 = 1 << 31;

/// The slot by which a part is made as new.
const RENEWAL: usize = SLOTS;

/// Bytes that one request of that writes.
const RENEWED: u64 = (SLOTS * BLOCK_BYTES) as u64;

/// The least that is left to the supervisor itself.
const LEAST_OWN: u64 = 1 << 20;

/// The parts that a disk is to have for domains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts {
    /// Bytes of each, whole sectors.
    pub bytes: u64,
    /// The first one's number among the devices of the ledger; the others follow.
    pub first: u16,
}

/// A disk with parts.
pub struct SharedDisk<W, N> {
    disk: Box<dyn Disk>,
    own: Description,
    ports: Vec<Port>,
    ledger: LedgerWords,
    name: u32,
    wake: W,
    now: N,
    rounds: RefCell<Rounds>,
    under_way: Cell<u32>,
    /// Requests that were refused at this look.
    refused: Cell<u32>,
    /// Whether a part is being made as new: one at a time.
    renews: Cell<bool>,
    /// Requests of others that have ended.
    ended: Cell<u64>,
    /// Whether a domain's request waits for its rate.
    held: Cell<bool>,
}

/// A part, and the link to who has it.
struct Port {
    link: DiskLink,
    state: PartState,
    /// Where the device sees the link.
    place: PhysAddr,
    device: u16,
    first: u64,
    bytes: u64,
    sector: u64,
    /// Slots whose requests are under way, a bit each.
    busy: Cell<u32>,
    /// The slot that is looked at first: none waits for ever.
    next: Cell<usize>,
    bucket: Cell<Bucket>,
    /// Bytes that are as new, of a part that is made so.
    renewed: Cell<u64>,
}

impl Port {
    fn is_busy(&self, slot: usize) -> bool {
        self.busy.get() & 1 << slot != 0
    }

    fn set_busy(&self, slot: usize, is_busy: bool) {
        let others = self.busy.get() & !(1 << slot);
        self.busy.set(others | u32::from(is_busy) << slot);
    }

    /// The next slot with something to do.
    fn asking(&self) -> Option<usize> {
        if self.state.is_to_renew() {
            return (self.busy.get() == 0).then_some(RENEWAL);
        }
        let mut slots = (0..SLOTS).map(|slot| (self.next.get() + slot) % SLOTS);
        slots.find(|slot| !self.is_busy(*slot) && self.link.is_asked(*slot))
    }

    fn pieces(&self, slots: impl Iterator<Item = usize>, mut bytes: u64) -> Vec<Piece> {
        let piece = |slot| {
            let length = bytes.min(BLOCK_BYTES as u64);
            bytes -= length;
            let (at, region) = self.link.block(slot, length as usize)?;
            Some(Piece { at: PhysAddr(self.place.0 + at as u64), region })
        };
        slots.map_while(piece).filter(|it| !it.region.is_empty()).collect()
    }

    /// What is asked for in a slot, as the disk is to do it.
    fn request(&self, slot: usize) -> Result<Request, DiskError> {
        let Asked { what, at, bytes } = self.link.asked(slot).ok_or(DiskError::Unfit)?;
        if what == What::Flush {
            return Ok(Request::Flush);
        }
        let moves = what != What::Discard;
        if bytes == 0 || moves && bytes > BLOCK_BYTES as u64 {
            return Err(DiskError::Unfit);
        }
        if (at | bytes) & (self.sector - 1) != 0 {
            return Err(DiskError::Misaligned(self.sector as u32));
        }
        let end = at.saturating_add(bytes);
        if end > self.bytes {
            return Err(DiskError::OutOfRange { end, disk: self.bytes });
        }
        let (at, pieces) = (self.first + at, || self.pieces([slot].into_iter(), bytes));
        Ok(match what {
            What::Read => Request::Read { at, into: pieces() },
            What::Write => Request::Write { at, from: pieces() },
            What::Discard | What::Flush => Request::Discard { at, bytes },
        })
    }

    /// What makes the part as new, or the next of it.
    fn renewal(&self) -> Request {
        let done = self.renewed.get();
        if done == 0 {
            self.link.erase();
        }
        match (self.bytes - done).min(RENEWED) {
            0 => Request::Flush,
            bytes => Request::Write { at: self.first + done, from: self.pieces(0..SLOTS, bytes) },
        }
    }

    /// A request of that has ended.
    fn renewal_ended(&self, result: Result<(), DiskError>) {
        let done = self.renewed.get();
        if result.is_ok() && done < self.bytes {
            return self.renewed.set(done + (self.bytes - done).min(RENEWED));
        }
        self.renewed.set(0);
        self.bucket.set(Bucket::default());
        self.link.set_part(self.bytes, self.sector as u32);
        self.state.renewed(result.is_ok());
    }
}

impl<W: Fn(u32), N: Fn() -> Instant> SharedDisk<W, N> {
    /// A disk whose end is cut into parts, each with a link, where the device sees that, and a
    /// state. The core of this name drives it; `wake` interrupts the core of a name. A disk that is
    /// too small has no parts: [`Disk::serves_others`] says so.
    pub fn new(
        disk: Box<dyn Disk>,
        parts: Parts,
        links: impl ExactSizeIterator<Item = (DiskLink, PhysAddr, PartState)>,
        ledger: LedgerWords,
        (name, wake): (u32, W),
        now: N,
    ) -> SharedDisk<W, N> {
        let mut own = disk.description().clone();
        let sector = u64::from(own.sector_bytes);
        let wanted = parts.bytes.saturating_mul(links.len() as u64);
        let fits = parts.bytes > 0
            && sector > 1
            && parts.bytes.is_multiple_of(sector)
            && own.bytes >= wanted.saturating_add(LEAST_OWN);
        own.bytes -= if fits { wanted } else { 0 };
        let ports = (0u16..).zip(links).map(|(number, (link, place, state))| {
            if fits {
                link.set_part(parts.bytes, own.sector_bytes);
            } else {
                link.close();
            }
            state.set_there(fits);
            state.try_again();
            // An earlier incarnation may have answered, and told nobody.
            link.domain_waits().name().into_iter().for_each(&wake);
            Port {
                link,
                state,
                place,
                device: parts.first + number,
                first: own.bytes + u64::from(number) * parts.bytes,
                bytes: parts.bytes,
                sector,
                busy: Cell::default(),
                next: Cell::default(),
                bucket: Cell::default(),
                renewed: Cell::default(),
            }
        });
        let ports: Vec<Port> = ports.filter(|_| fits).collect();
        let rounds = RefCell::new(Rounds::new(ports.len()));
        let (under_way, refused, renews, ended, held) = Default::default();
        SharedDisk {
            disk,
            own,
            ports,
            ledger,
            name,
            wake,
            now,
            rounds,
            under_way,
            refused,
            renews,
            ended,
            held,
        }
    }

    fn toll(&self, port: &Port) -> Option<Toll> {
        self.ledger.toll_of_disk(port.device)
    }

    /// Gives the disk what domains ask for, as much as they may.
    fn serve(&self) {
        let Ok(mut rounds) = self.rounds.try_borrow_mut() else { return };
        self.held.set(false);
        self.refused.set(0);
        let weight = |index: usize| {
            let limit = self.toll(&self.ports[index]).map(|it| it.limit());
            limit.unwrap_or_default().weight
        };
        rounds.run(weight, |index| self.serve_one(index));
    }

    fn serve_one(&self, index: usize) -> Served {
        let port = &self.ports[index];
        port.link.supervisor_waits().end();
        port.state.waits().end();
        let Some(slot) = port.asking() else { return Served::Nothing };
        // Who asks for nonsense again and again has no end of it at one look.
        if self.under_way.get() == MOST || self.refused.get() == MOST {
            return Served::Enough;
        }
        let begun = (self.now)();
        if slot == RENEWAL {
            if self.renews.get() {
                return Served::Nothing;
            }
            let is_given = self.give(port, index, slot, &port.renewal());
            self.renews.set(is_given);
            return match is_given {
                true => Served::Used((REQUEST_COST + RENEWED) / COUNTED),
                false => Served::Enough,
            };
        }
        // Who has not got the part has nothing to ask for.
        let toll = self.toll(port);
        let request = match &toll {
            Some(_) => port.request(slot),
            None => Err(DiskError::Failed),
        };
        let bytes = request.as_ref().map_or(0, Request::bytes);
        // What moves nothing keeps the disk busy, too.
        let counts = if request.is_ok() && bytes == 0 { BLOCK_BYTES as u64 } else { bytes };
        let mut bucket = port.bucket.get();
        let limit = toll.as_ref().map_or_else(Limit::default, Toll::limit);
        if !bucket.take(limit, begun, counts) {
            self.held.set(true);
            return Served::Nothing;
        }
        let is_done = match &request {
            Ok(request) if !self.give(port, index, slot, request) => return Served::Enough,
            Ok(_) => true,
            Err(why) => {
                self.refused.set(self.refused.get() + 1);
                self.answer(port, slot, Answer::of(Err(*why)));
                false
            }
        };
        port.bucket.set(bucket);
        let time = (self.now)().since(begun);
        let (passed, dropped) = (is_done.into(), (!is_done).into());
        toll.into_iter().for_each(|it| it.charge(Carried { passed, bytes, dropped, time }));
        Served::Used((REQUEST_COST + counts) / COUNTED)
    }

    /// Gives the disk a request of a slot, if it has room.
    fn give(&self, port: &Port, index: usize, slot: usize, request: &Request) -> bool {
        let tag = FOREIGN | (index as u32) << 8 | slot as u32;
        let is_given = self.disk.submit(tag, request);
        if is_given {
            port.set_busy(slot, true);
            port.next.set((slot + 1) % SLOTS);
            self.under_way.set(self.under_way.get() + 1);
        }
        is_given
    }

    fn answer(&self, port: &Port, slot: usize, answer: Answer) {
        port.link.answer(slot, answer).into_iter().for_each(&self.wake);
    }

    /// A request of a domain has ended.
    fn end(&self, completion: Completion) {
        let (index, slot) = (completion.tag >> 8 & 0xff, (completion.tag & 0xff) as usize);
        let Some(port) = self.ports.get(index as usize).filter(|it| it.is_busy(slot)) else {
            return;
        };
        port.set_busy(slot, false);
        self.under_way.set(self.under_way.get() - 1);
        self.ended.set(self.ended.get() + 1);
        match slot {
            RENEWAL => {
                self.renews.set(false);
                port.renewal_ended(completion.result);
            }
            _ => self.answer(port, slot, Answer::of(completion.result)),
        }
    }
}

impl<W: Fn(u32), N: Fn() -> Instant> Disk for SharedDisk<W, N> {
    /// The supervisor's own part.
    fn description(&self) -> &Description {
        &self.own
    }

    fn line(&self) -> Option<Line> {
        self.disk.line()
    }

    fn serves_others(&self) -> bool {
        !self.ports.is_empty()
    }

    fn ended_for_others(&self) -> u64 {
        self.ended.get()
    }

    fn submit(&self, tag: u32, request: &Request) -> bool {
        self.disk.submit(tag, request)
    }

    fn submit_inline(&self, tag: u32, request: &Request, inline: &Inline) -> bool {
        self.disk.submit_inline(tag, request, inline)
    }

    fn ciphers(&self, bytes: u64) -> bool {
        self.disk.ciphers(bytes)
    }

    fn tell(&self) {
        self.serve();
        self.disk.tell();
    }

    fn is_ready(&self) -> bool {
        let is_full = self.under_way.get() == MOST;
        // All of them are to know that this core waits.
        let is_asked = self.ports.iter().fold(false, |is_asked, port| {
            let asks = || {
                let slot = port.asking().filter(|_| !is_full);
                slot.is_some_and(|slot| slot != RENEWAL || !self.renews.get())
            };
            port.state.waits().begin(self.name, || false);
            port.link.supervisor_waits().begin(self.name, asks) | is_asked
        });
        self.disk.is_ready() || is_asked || self.held.get()
    }

    fn complete(&self) -> Option<Completion> {
        loop {
            let completion = self.disk.complete()?;
            if completion.tag & FOREIGN == 0 {
                return Some(completion);
            }
            self.end(completion);
        }
    }
}

#[cfg(test)]
mod tests;
