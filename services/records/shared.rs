//! Records with versions, and snapshots of them.

use alloc::format;
use alloc::vec::{self, Vec};
use core::cell::{Cell, RefCell};
use core::iter;

use nile_abi::Status;
use nile_interfaces::records::{
    RecordOperation, RecordOutcome, RecordPage, RecordsKernel, RecordsState, StoredRecord,
};
use nile_order::SortedMap;
use nile_records::{Operation, Outcome, Shared, Sizes, View, Wrong};
use nile_ring::Region;
use nile_stl::{CallError, CallResult};
use nile_sync::Seats;

use super::{fits, named, operations_of, stored, told, wrong};
use crate::page::page;

/// What it is called.
pub const NAME: &str = "shared_records";

/// Some 5 MiB.
const SIZES: Sizes = Sizes { buckets: 512, parts: 12_288, writers: 1, log: 2_048 };

/// Snapshots that are kept at once: as many seats are behind the writer's.
const SNAPSHOTS: usize = 3;

/// Records of a core, with versions. Its memory is taken when something is stored first.
pub struct SharedRecords {
    table: RefCell<Option<Table>>,
    last: Cell<u64>,
}

struct Table {
    region: Region,
    seats: Seats,
    writer: Shared,
    /// By their numbers, each with its seat.
    kept: SortedMap<u64, (u16, View)>,
}

impl Table {
    fn new() -> Option<Table> {
        let count = 1 + SNAPSHOTS;
        let region = Region::owned(Shared::region_len(SIZES, count));
        let seats = Seats::attach(Region::owned(Seats::region_len(count)));
        let writer = Table::seat(&region, &seats, 0)?;
        Some(Table { region, seats, writer, kept: SortedMap::default() })
    }

    fn seat(region: &Region, seats: &Seats, number: u16) -> Option<Shared> {
        Shared::join(region.clone(), seats.clone(), SIZES, seats.enter(number)?)
    }

    /// Does operations in one moment. The oldest snapshots go if their room is needed.
    fn many(&mut self, all: &[(&[u8], &Operation)]) -> Result<Vec<Outcome>, Wrong> {
        loop {
            match self.writer.many(all) {
                Err(Wrong::Busy) if self.release_oldest() => {}
                done => return done,
            }
        }
    }

    fn release_oldest(&mut self) -> bool {
        let oldest = self.kept.keys().next().copied();
        oldest.is_some_and(|oldest| self.kept.remove(&oldest).is_some())
    }
}

impl SharedRecords {
    pub fn new() -> SharedRecords {
        SharedRecords { table: RefCell::default(), last: Cell::new(0) }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Table) -> CallResult<T>) -> CallResult<T> {
        let mut table = self.table.borrow_mut();
        if table.is_none() {
            *table = Table::new();
        }
        let none = || CallError::new(Status::NoMemory, "there is no memory for a table");
        act(table.as_mut().ok_or_else(none)?)
    }

    fn apply(&self, key: &[u8], operation: &Operation) -> CallResult<Outcome> {
        let all = self.with(|table| table.many(&[(key, operation)]).map_err(wrong))?;
        all.into_iter().next().ok_or_else(|| wrong(Wrong::Busy))
    }
}

impl RecordsKernel for SharedRecords {
    fn get(&self, key: Vec<u8>) -> CallResult<Option<StoredRecord>> {
        Ok(stored(&key, self.apply(&key, &Operation::Get)?))
    }

    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> CallResult<u64> {
        let operation = Operation::Put(value);
        Ok(told(&operation, self.apply(&key, &operation)?).version)
    }

    fn remove(&self, key: Vec<u8>) -> CallResult<bool> {
        Ok(self.apply(&key, &Operation::Remove)? == Outcome::Removed)
    }

    fn compare(&self, key: Vec<u8>, version: u64, value: Vec<u8>) -> CallResult<RecordOutcome> {
        let operation = Operation::Compare(version, value);
        Ok(told(&operation, self.apply(&key, &operation)?))
    }

    fn many(&self, operations: Vec<RecordOperation>) -> CallResult<Vec<RecordOutcome>> {
        let operations = operations_of(operations)?;
        let all: Vec<(&[u8], &Operation)> =
            operations.iter().map(|(key, operation)| (key.as_slice(), operation)).collect();
        let outcomes = self.with(|table| table.many(&all).map_err(wrong))?;
        fits(operations.iter().zip(outcomes).map(|((_, operation), it)| Ok((operation, it))))
    }

    fn snapshot(&self) -> CallResult<u64> {
        let number = self.last.get() + 1;
        self.with(|table| {
            let is_free = |seat: &u16| table.kept.iter().all(|(_, (used, _))| used != seat);
            let seat = (1..=SNAPSHOTS as u16).find(is_free);
            let joined = seat.and_then(|it| Table::seat(&table.region, &table.seats, it));
            let Some((seat, joined)) = seat.zip(joined) else {
                let message = format!("{SNAPSHOTS} snapshots are kept; release one");
                return Err(CallError::new(Status::NoMemory, message));
            };
            table.kept.insert(number, (seat, joined.view()));
            Ok(())
        })?;
        self.last.set(number);
        Ok(number)
    }

    fn scan(&self, snapshot: u64, from: Option<Vec<u8>>) -> CallResult<RecordPage> {
        let place = from.as_deref().unwrap_or(&[0; 8]);
        let place = <[u8; 8]>::try_from(place).map(u64::from_le_bytes);
        let place = place.map_err(|_| CallError::new(Status::Invalid, "no page begins there"))?;
        let (bucket, skip) = ((place >> 32) as u32, place as u32 as usize);
        self.with(|table| {
            let none = || {
                let message =
                    "the snapshot is no more: it was released, or writers needed its room";
                CallError::new(Status::NotFound, message)
            };
            let (_, view) = table.kept.get(&snapshot).ok_or_else(none)?;
            Ok(scan(view, bucket, skip))
        })
    }

    fn release(&self, snapshot: u64) -> CallResult<bool> {
        self.with(|table| Ok(table.kept.remove(&snapshot).is_some()))
    }

    fn state(&self) -> CallResult<RecordsState> {
        let mut table = self.table.borrow_mut();
        let (records, bytes) = table.as_mut().map_or((0, 0), |it| it.writer.holds());
        let snapshots = table.as_ref().map_or(0, |it| it.kept.keys().len() as u32);
        Ok(RecordsState { name: NAME.into(), records, bytes, snapshots })
    }
}

/// A page of a view, from a record of a bucket on.
fn scan(view: &View, mut bucket: u32, mut skip: usize) -> RecordPage {
    let mut rest: Option<vec::IntoIter<_>> = None;
    let mut next = None;
    let records = page(iter::from_fn(|| {
        loop {
            let Some(left) = &mut rest else {
                next = None;
                let mut all = view.next(bucket)?.0.into_iter();
                all.by_ref().take(skip).for_each(drop);
                rest = Some(all);
                continue;
            };
            next = Some(u64::from(bucket) << 32 | skip as u64);
            if let Some((key, record)) = left.next() {
                skip += 1;
                return Some(named(&key, record));
            }
            (bucket, skip, rest) = (bucket + 1, 0, None);
        }
    }));
    RecordPage { records, next: next.map(|at: u64| at.to_le_bytes().into()) }
}
