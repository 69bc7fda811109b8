//! A job over lines of text: each line is mapped to pairs of key and value, and all values of a key
//! are reduced to lines of the output.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::hash::{BuildHasherDefault, Hasher};
use core::mem;

use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use nile_abi::call::System;

use crate::lines::lines;
use crate::merge::Merge;
use crate::outcome::{Done, Halt, Outcome};
use crate::pairs::{Filling, Packing, Reader, write};
use crate::stages::{Stages, run};
use crate::stash::Stash;
use crate::task::Task;

/// What a key with a value takes besides its bytes, about.
const BESIDE: usize = 96;

/// What a pair takes besides its bytes when it is written, at most if both are short.
const LENGTHS: usize = 2;

/// Bytes that are written at once.
const GATHERED: usize = 32 << 10;

/// What a job does with lines and pairs. Its methods see one line or one key at a time and rely on
/// nothing else, since they run on many cores, and more than once.
pub trait MapReduce {
    /// Takes a line of the input, without its end, and emits any number of pairs.
    fn map(&self, line: &[u8], out: &mut Emitter<'_, '_>) -> Outcome;

    /// Adds a value to the last one of the same key, while both are still on the core that emitted
    /// them: what is reduced later is less then. `false` if the values are to stay apart.
    fn combine(&self, _key: &[u8], _total: &mut Vec<u8>, _value: &[u8]) -> bool {
        false
    }

    /// The partition, and so the part of the output, that a key belongs to, below `partitions`. All
    /// values of one key must come to one partition.
    fn partition(&self, key: &[u8], partitions: u32) -> u32 {
        let mut hasher = KeyHasher::default();
        hasher.write(key);
        ((u128::from(hasher.finish()) * u128::from(partitions)) >> 64) as u32
    }

    /// How many bytes of pairs a map task collects before it sorts and keeps them: with fewer it
    /// needs less memory, and reduce tasks have more to merge. `arguments` are those of the job.
    fn collects(&self, _arguments: &[String]) -> usize {
        16 << 20
    }

    /// Takes a key with all of its values, in no order, and writes any number of lines. A
    /// partition's keys come in the order of their bytes.
    fn reduce(&self, key: &[u8], values: &mut Values<'_, '_>, out: &mut Lines<'_, '_>) -> Outcome;
}

/// A package's main function: as [`run`](crate::run), for a job over lines.
pub fn map_reduce(system: &dyn System, job: &dyn MapReduce) -> u64 {
    run(system, &Pairs(job))
}

/// A job over lines, as one over blocks.
pub(crate) struct Pairs<'j>(pub &'j dyn MapReduce);

impl Stages for Pairs<'_> {
    fn map(&self, task: &Task<'_>) -> Outcome<Done> {
        let (table, stash) = (HashMap::default(), Stash::default());
        let most = self.0.collects(task.arguments());
        let mut out = Emitter {
            job: self.0,
            task,
            table,
            bytes: 0,
            most,
            stash,
            outputs: 0,
            kept: 0,
            buffer: 0,
        };
        let mut records = 0;
        lines(task, |line| {
            records += 1;
            self.0.map(line, &mut out).map_err(|halt| halt.in_line(line))?;
            task.step()
        })?;
        out.end()?;
        Ok(Done { records, checksum: 0 })
    }

    fn reduce(&self, task: &Task<'_>) -> Outcome<Done> {
        if task.inputs() == 0 {
            return Err(Halt::code("the job reads lines, and was given none: add --input"));
        }
        let mut sources = Vec::new();
        while let Some(source) = task.source()? {
            sources.push(Reader::new(source));
        }
        let mut merge = Merge::new(task, sources)?;
        let mut out = Lines { task, filling: Filling::default(), lines: 0 };
        while let Some(first) = merge.first() {
            let key = first.key.clone();
            let mut values = Values { task, merge: &mut merge, key: &key, value: Vec::new() };
            self.0.reduce(&key, &mut values, &mut out)?;
            while values.next()?.is_some() {}
        }
        out.end()
    }
}

/// A key with its partition and its values.
type Emitted = (u32, Vec<u8>, Vec<Vec<u8>>);

/// Where a map task's pairs go.
pub struct Emitter<'e, 's> {
    job: &'e dyn MapReduce,
    task: &'e Task<'s>,
    /// The values of each key.
    table: HashMap<Vec<u8>, Vec<Vec<u8>>, BuildHasherDefault<KeyHasher>>,
    /// How much all of that is, and how much is collected at a time.
    bytes: usize,
    most: usize,
    /// What was not kept.
    stash: Stash,
    /// Outputs and buffers that were kept, and bytes of one, once that is known.
    outputs: u32,
    kept: usize,
    buffer: usize,
}

impl Emitter<'_, '_> {
    /// Emits a pair. Fails if there is no memory for it.
    pub fn emit(&mut self, key: &[u8], value: &[u8]) -> Outcome {
        match self.table.entry_ref(key) {
            EntryRef::Occupied(mut entry) => {
                let values = entry.get_mut();
                if let Some(total) = values.last_mut() {
                    let before = total.len();
                    if self.job.combine(key, total, value) {
                        self.bytes += total.len().saturating_sub(before);
                        return self.check();
                    }
                }
                values.push(value.to_vec());
            }
            EntryRef::Vacant(entry) => {
                entry.insert(Vec::from([value.to_vec()]));
                self.bytes += key.len();
            }
        }
        self.bytes += value.len() + BESIDE;
        self.check()
    }

    /// What the job was given when it was submitted.
    pub fn arguments(&self) -> &[String] {
        self.task.arguments()
    }

    fn check(&mut self) -> Outcome {
        if self.bytes > self.most { self.flush() } else { Ok(()) }
    }

    /// Sorts what was collected. It is kept, if there is room for it.
    fn flush(&mut self) -> Outcome {
        let partitions = self.task.partitions();
        let mut pairs: Vec<Emitted> = Vec::with_capacity(self.table.len());
        let mut bytes = 0;
        for (key, values) in self.table.drain() {
            let partition = self.job.partition(&key, partitions);
            if partition >= partitions {
                let text = format!("a key's partition is {partition}, of {partitions}");
                return Err(Halt::code(text));
            }
            bytes += values.iter().map(|value| key.len() + value.len() + LENGTHS).sum::<usize>();
            pairs.push((partition, key, values));
        }
        self.bytes = 0;
        pairs.sort_unstable();
        if !self.task.spills() && self.has_room(bytes)? {
            return self.keep(&pairs);
        }
        for partition in pairs.chunk_by_mut(|one, other| one.0 == other.0) {
            let (number, mut stream) = (partition[0].0, Vec::new());
            for (_, key, values) in partition {
                // What is in both places takes memory twice.
                let (key, values) = (mem::take(key), mem::take(values));
                values.iter().for_each(|value| write(&mut stream, &key, value));
            }
            self.stash.add(number, stream)?;
        }
        Ok(())
    }

    /// Whether so many bytes more may be kept.
    fn has_room(&mut self, bytes: usize) -> Outcome<bool> {
        if self.buffer == 0 {
            self.buffer = self.task.buffer()?.len().max(1);
        }
        let has_buffers = self.kept + bytes.div_ceil(self.buffer) <= self.task.keeps() as usize;
        Ok(has_buffers && self.outputs < self.task.outputs())
    }

    fn keep(&mut self, pairs: &[Emitted]) -> Outcome {
        self.outputs += 1;
        let (task, mut packing) = (self.task, Packing::default());
        let mut gathered = Vec::with_capacity(GATHERED);
        for partition in pairs.chunk_by(|one, other| one.0 == other.0) {
            let number = partition[0].0;
            let mut put = |gathered: &mut Vec<u8>| {
                packing.put(task, number, gathered)?;
                if packing.is_full() {
                    self.kept += mem::take(&mut packing).keep(task)?;
                }
                gathered.clear();
                Ok(())
            };
            for (_, key, values) in partition {
                for value in values {
                    write(&mut gathered, key, value);
                }
                if gathered.len() >= GATHERED {
                    put(&mut gathered)?;
                }
            }
            put(&mut gathered)?;
        }
        self.kept += packing.keep(task)?;
        Ok(())
    }

    /// Leaves all that was emitted.
    fn end(mut self) -> Outcome {
        self.flush()?;
        self.stash.spill(self.task)
    }
}

/// The values of a key.
pub struct Values<'v, 's> {
    task: &'v Task<'s>,
    merge: &'v mut Merge<'s>,
    key: &'v [u8],
    value: Vec<u8>,
}

impl Values<'_, '_> {
    /// The next value; `None` after the last. Fails if it cannot be read.
    #[expect(clippy::should_implement_trait, reason = "an iterator's items cannot borrow from it")]
    pub fn next(&mut self) -> Outcome<Option<&[u8]>> {
        match self.merge.first() {
            Some(first) if first.key == self.key => {
                mem::swap(&mut self.value, &mut first.value);
            }
            _ => return Ok(None),
        }
        self.merge.next(self.task)?;
        self.task.step()?;
        Ok(Some(&self.value))
    }
}

/// Where a reduce task's lines go.
pub struct Lines<'l, 's> {
    task: &'l Task<'s>,
    filling: Filling<'s>,
    lines: u64,
}

impl Lines<'_, '_> {
    /// Writes a line: fields, with tabs between them, and the line's end.
    pub fn line(&mut self, fields: &[&[u8]]) -> Outcome {
        for (number, field) in fields.iter().enumerate() {
            if number > 0 {
                self.put(b"\t")?;
            }
            self.put(field)?;
        }
        self.lines += 1;
        self.put(b"\n")
    }

    /// What the job was given when it was submitted.
    pub fn arguments(&self) -> &[String] {
        self.task.arguments()
    }

    fn put(&mut self, mut bytes: &[u8]) -> Outcome {
        while !bytes.is_empty() {
            if let Some((buffer, filled)) = self.filling.put(self.task, &mut bytes)? {
                self.task.write(buffer, filled)?;
            }
        }
        Ok(())
    }

    fn end(mut self) -> Outcome<Done> {
        if let Some((buffer, filled)) = self.filling.end() {
            self.task.write(buffer, filled)?;
        }
        Ok(Done { records: self.lines, checksum: 0 })
    }
}

/// A hash of keys that is the same on every core: FNV-1a, with its bits mixed at the end.
#[derive(Clone, Copy)]
struct KeyHasher(u64);

impl Default for KeyHasher {
    fn default() -> KeyHasher {
        KeyHasher(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    // A slice is hashed with its length, which is no part of a key.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        let hash = (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ (hash >> 32)
    }
}
