//! The disks of a simulated node: slow, out of order, and as unreliable as the options say. What
//! was written is durable once a flush that began afterwards has ended; what was not may be there,
//! in part or not at all, when the power is back.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use nile_abi::CoreId;
use nile_platform::disk::{Completion, Description, DiskError, Piece, Request};
use nile_platform::{Disk, Line};
use nile_ring::Region;

use crate::options::{DiskFaults, DiskOptions};
use crate::state::{Event, State};

/// Bytes of a sector.
const SECTOR: usize = 512;

/// What a sector holds.
type Sector = Rc<[u8; SECTOR]>;

/// What writes have left in a sector, each with its number.
type Versions = Vec<(u64, Sector)>;

/// Requests that a disk has room for.
const DEPTH: usize = 32;

/// What a request takes: at least this, and at most this more.
const LATENCY: (Duration, Duration) = (Duration::from_micros(20), Duration::from_micros(200));

/// What is on a disk, by sector. A sector that was never written is zero.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Contents(BTreeMap<u64, Sector>);

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Contents({} sectors)", self.0.len())
    }
}

impl Contents {
    /// The bytes from `at` on; both ends are whole sectors.
    pub fn read(&self, at: u64, bytes: usize) -> Vec<u8> {
        let first = at / SECTOR as u64;
        let sectors = (first..).take(bytes / SECTOR);
        sectors.flat_map(|sector| *self.sector(sector)).collect()
    }

    /// Damages each sector in which these bytes lie.
    pub fn spoil(&mut self, mark: &[u8]) {
        let has = |sector: &Sector| sector.windows(mark.len()).any(|it| it == mark);
        for sector in self.0.values_mut().filter(|sector| has(sector)) {
            let mut bytes = **sector;
            bytes.iter_mut().for_each(|byte| *byte = !*byte);
            *sector = Rc::new(bytes);
        }
    }

    fn sector(&self, sector: u64) -> &[u8; SECTOR] {
        self.0.get(&sector).map_or(&[0; SECTOR], |bytes| bytes)
    }
}

/// A request that the disk has.
struct InFlight {
    tag: u32,
    request: Request,
    /// Writes that had ended when it was submitted.
    after: u64,
}

/// A disk beneath the core that drives it.
pub struct Drive {
    description: Description,
    faults: DiskFaults,
    durable: Contents,
    /// What each sector may hold besides when the power fails: what was written there since it
    /// was made durable, each with the number of its write.
    volatile: BTreeMap<u64, Versions>,
    in_flight: BTreeMap<u64, InFlight>,
    ended: VecDeque<Completion>,
    next_request: u64,
    /// Writes that have ended.
    writes: u64,
}

/// Draws a number below a bound.
type Draw<'a> = dyn FnMut(u64) -> u64 + 'a;

impl Drive {
    /// The disk with this number, as the options have it.
    pub fn new(number: usize, options: &DiskOptions) -> Drive {
        let description = Description {
            name: format!("disk {number}"),
            serial: format!("SIM{number:04}"),
            bytes: options.bytes - options.bytes % SECTOR as u64,
            sector_bytes: SECTOR as u32,
        };
        Drive {
            description,
            faults: options.faults.clone(),
            durable: options.contents.clone(),
            volatile: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            ended: VecDeque::new(),
            next_request: 0,
            writes: 0,
        }
    }

    /// What is left when the power fails: of what is not durable, what chance leaves.
    pub fn lose_power(&mut self, draw: &mut Draw<'_>) -> Contents {
        self.reset(draw);
        for (sector, versions) in std::mem::take(&mut self.volatile) {
            let left = draw(versions.len() as u64 + 1) as usize;
            if let Some((_, bytes)) = left.checked_sub(1).and_then(|it| versions.get(it)) {
                self.durable.0.insert(sector, bytes.clone());
            }
        }
        self.durable.clone()
    }

    /// Forgets all requests. Of a write some sectors may have come to the disk.
    fn reset(&mut self, draw: &mut Draw<'_>) {
        self.ended.clear();
        for (_, InFlight { request, .. }) in std::mem::take(&mut self.in_flight) {
            let number = self.writes;
            for (sector, bytes) in left_by(&request, draw) {
                if draw(2) == 0 {
                    self.volatile.entry(sector).or_default().push((number, bytes));
                }
            }
        }
    }

    /// The core that drives the disk has ended: the requests go on, and reach its memory no more.
    /// What they were to write they have, and what they read nobody sees.
    fn lose_driver(&mut self) {
        for InFlight { request, .. } in self.in_flight.values_mut() {
            match request {
                Request::Read { into, .. } => into.iter_mut().for_each(|it| *it = copied(it)),
                Request::Write { from, .. } => from.iter_mut().for_each(|it| *it = copied(it)),
                Request::Discard { .. } | Request::Flush => {}
            }
        }
    }

    /// Ends a request, if the disk still has it. `true` if the power fails with it.
    fn end(&mut self, request: u64, draw: &mut Draw<'_>) -> bool {
        let Some(InFlight { tag, request, after }) = self.in_flight.remove(&request) else {
            return false;
        };
        if matches!(request, Request::Write { .. } | Request::Discard { .. }) {
            self.writes += 1;
            if self.faults.cut_at_write == Some(self.writes) {
                self.in_flight.insert(u64::MAX, InFlight { tag, request, after });
                return true;
            }
        }
        let result = self.perform(&request, after, draw);
        self.ended.push_back(Completion { tag, result, hash: None });
        false
    }

    fn perform(
        &mut self,
        request: &Request,
        after: u64,
        draw: &mut Draw<'_>,
    ) -> Result<(), DiskError> {
        if self.faults.fails_after.is_some_and(|after| self.next_request > after) {
            return Err(DiskError::Failed);
        }
        if let (Some((at, end)), Some(_)) = (request.range(), request.transfer()) {
            let bad = |byte: &u64| (at..end).contains(byte);
            if self.faults.bad_bytes.iter().any(bad) {
                return Err(DiskError::Media { at, end });
            }
        }
        match request {
            Request::Read { at, into } => {
                let mut from = *at;
                if happens(self.faults.misdirected_per_million, draw) {
                    let sectors = self.description.bytes / SECTOR as u64;
                    from = draw(sectors) * SECTOR as u64;
                }
                let mut bytes = self.read(from, request.bytes() as usize);
                if happens(self.faults.flips_per_million, draw) {
                    let bit = draw(bytes.len() as u64 * 8);
                    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
                }
                scatter(&bytes, into);
            }
            Request::Write { .. } | Request::Discard { .. } => {
                let number = self.writes;
                for (sector, bytes) in left_by(request, draw) {
                    self.volatile.entry(sector).or_default().push((number, bytes));
                }
            }
            Request::Flush if self.faults.ignores_flushes => {}
            Request::Flush => self.flush(after),
        }
        Ok(())
    }

    /// Makes durable what the first `after` writes have written.
    fn flush(&mut self, after: u64) {
        let Drive { volatile, durable, .. } = self;
        volatile.retain(|sector, versions| {
            let old = versions.iter().take_while(|(number, _)| *number <= after).count();
            if let Some((_, bytes)) = versions.drain(..old).next_back() {
                durable.0.insert(*sector, bytes);
            }
            !versions.is_empty()
        });
    }

    fn read(&self, at: u64, bytes: usize) -> Vec<u8> {
        let first = at / SECTOR as u64;
        let sector = |sector: u64| match self.volatile.get(&sector).and_then(|it| it.last()) {
            Some((_, bytes)) => **bytes,
            None => *self.durable.sector(sector),
        };
        (first..).take(bytes / SECTOR).flat_map(sector).collect()
    }
}

fn happens(per_million: u32, draw: &mut Draw<'_>) -> bool {
    per_million > 0 && draw(1_000_000) < u64::from(per_million)
}

/// What a request leaves in sectors. Those that are discarded hold what chance has.
fn left_by(request: &Request, draw: &mut Draw<'_>) -> Vec<(u64, Sector)> {
    match request {
        Request::Write { at, from } => sectors(*at, from),
        Request::Discard { at, bytes } => {
            let word = draw(u64::MAX).to_le_bytes();
            let any: Sector = Rc::new(std::array::from_fn(|at| word[at % word.len()]));
            let all = at / SECTOR as u64..(at + bytes) / SECTOR as u64;
            all.map(|sector| (sector, any.clone())).collect()
        }
        Request::Read { .. } | Request::Flush => Vec::new(),
    }
}

/// Memory of its own with the same in it.
fn copied(piece: &Piece) -> Piece {
    let region = Region::owned(piece.region.len());
    for (word, copy) in piece.region.words().iter().zip(region.words()) {
        copy.store(word.load(Relaxed), Relaxed);
    }
    Piece { region, ..piece.clone() }
}

/// The sectors that memory is for, from `at` on.
fn sectors(at: u64, pieces: &[Piece]) -> Vec<(u64, Sector)> {
    let words = pieces.iter().flat_map(|piece| piece.region.words());
    let bytes: Vec<u8> = words.flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
    let (sectors, _) = bytes.as_chunks::<SECTOR>();
    (at / SECTOR as u64..).zip(sectors.iter().map(|bytes| Rc::new(*bytes))).collect()
}

fn scatter(bytes: &[u8], pieces: &[Piece]) {
    let words = pieces.iter().flat_map(|piece| piece.region.words());
    let (chunks, _) = bytes.as_chunks::<8>();
    for (word, bytes) in words.zip(chunks) {
        word.store(u64::from_le_bytes(*bytes), Relaxed);
    }
}

impl State {
    /// Works with a disk, and with the generator of all choices.
    fn with_drive<T>(
        &mut self,
        disk: usize,
        work: impl FnOnce(&mut Drive, &mut Draw<'_>) -> T,
    ) -> T {
        let mut drives = std::mem::take(&mut self.drives);
        let result = work(&mut drives[disk], &mut |bound| self.draw(bound));
        self.drives = drives;
        result
    }

    /// Ends a request of a disk: whether the disk interrupts, as it was there and the power stays.
    pub fn end_disk_request(&mut self, disk: usize, request: u64) -> bool {
        let has_it = self.drives[disk].in_flight.contains_key(&request);
        if self.with_drive(disk, |drive, draw| drive.end(request, draw)) {
            self.power_failed = true;
            return false;
        }
        has_it
    }

    /// A core has ended that may have driven disks.
    pub fn lose_driver(&mut self, core: CoreId) {
        for disk in 0..self.drives.len() {
            if Line::disk(disk).and_then(|line| self.board.driver(line)) == Some(core) {
                self.drives[disk].lose_driver();
            }
        }
    }

    /// Ends all requests as a power failure does: what is on each disk then.
    pub fn lose_power(&mut self) -> Vec<Contents> {
        (0..self.drives.len())
            .map(|disk| self.with_drive(disk, |drive, draw| drive.lose_power(draw)))
            .collect()
    }
}

/// A disk as the kernel on a core sees it.
pub struct SimDisk {
    core: CoreId,
    state: Rc<RefCell<State>>,
    disk: usize,
    description: Description,
}

impl SimDisk {
    /// The disks that `core` drives, without the requests of an earlier incarnation.
    pub fn all_of(state: &Rc<RefCell<State>>, core: CoreId) -> Vec<SimDisk> {
        let mut held = state.borrow_mut();
        let driver = |disk: usize| Line::disk(disk).and_then(|line| held.board.driver(line));
        let own = |disk: &usize| driver(*disk) == Some(core);
        let own: Vec<usize> = (0..held.drives.len()).filter(own).collect();
        let opened = own.into_iter().map(|disk| {
            held.with_drive(disk, |drive, draw| drive.reset(draw));
            if let Some(line) = Line::disk(disk) {
                held.lines[line.index()] = (None, false);
            }
            let description = held.drives[disk].description.clone();
            SimDisk { core, state: state.clone(), disk, description }
        });
        opened.collect()
    }
}

impl Disk for SimDisk {
    fn description(&self) -> &Description {
        &self.description
    }

    fn line(&self) -> Option<Line> {
        Line::disk(self.disk)
    }

    fn submit(&self, tag: u32, request: &Request) -> bool {
        let mut state = self.state.borrow_mut();
        let drive = &mut state.drives[self.disk];
        if drive.in_flight.len() + drive.ended.len() >= DEPTH {
            return false;
        }
        let number = drive.next_request;
        drive.next_request += 1;
        let in_flight = InFlight { tag, request: request.clone(), after: drive.writes };
        drive.in_flight.insert(number, in_flight);
        let latency = state.draw_span(LATENCY.0, LATENCY.1);
        let at = state.time_of(self.core) + latency;
        state.schedule(at, Event::Disk { disk: self.disk, request: number });
        true
    }

    fn tell(&self) {}

    fn is_ready(&self) -> bool {
        !self.state.borrow().drives[self.disk].ended.is_empty()
    }

    fn complete(&self) -> Option<Completion> {
        self.state.borrow_mut().drives[self.disk].ended.pop_front()
    }
}

#[cfg(test)]
mod tests;
