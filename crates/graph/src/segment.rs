//! Records of the log: what was given to a graph in some calls, in the order in which it was
//! applied. Applied again in that order, it leads to the same graph.

use alloc::string::String;
use alloc::vec::Vec;

use crate::bytes::{Damaged, Read, Reader, put, put_step, put_text};
use crate::event::Event;

/// The version of the bytes; of a part of a graph the next one.
const VERSION: u64 = 1;
const PART: u64 = 2;

/// A part of a source that is no event, and why. It has a number among its source's events; the
/// event that comes with this number later, since somebody has mended it, counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reject {
    /// Its number in its source.
    pub sequence: u64,
    /// What came, or how it began.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

/// What one call has given to a graph.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Call {
    /// Of which source it is.
    pub source: u64,
    /// The source's promise: whatever comes of it yet happened then or later.
    pub until: u64,
    /// Events.
    pub events: Vec<Event>,
    /// What is no event.
    pub rejects: Vec<Reject>,
    /// Of a part: runs of numbers, in their order, each its first and how many there are. Whatever
    /// of them is no event here is one of another part.
    pub covers: Vec<(u64, u64)>,
}

/// A record of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// The graph that it is of: a number that no other graph ever had.
    pub graph: u64,
    /// Which record it is, from 0, without gaps.
    pub number: u64,
    /// What it has.
    pub calls: Vec<Call>,
}

impl Segment {
    /// The record as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let is_part = self.calls.iter().any(|it| !it.covers.is_empty());
        put(&mut bytes, if is_part { PART } else { VERSION });
        bytes.extend_from_slice(&self.graph.to_le_bytes());
        put(&mut bytes, self.number);
        put(&mut bytes, self.calls.len() as u64);
        for call in &self.calls {
            call.encode(&mut bytes);
            if is_part {
                call.encode_covers(&mut bytes);
            }
        }
        bytes
    }

    /// Reads a record. Fails if the bytes are none, or of another version.
    pub fn decode(bytes: &[u8]) -> Read<Segment> {
        let mut reader = Reader(bytes);
        let version = reader.number()?;
        if ![VERSION, PART].contains(&version) {
            return Err(Damaged("the log is of another version"));
        }
        let graph = reader.bytes(8)?.try_into().map(u64::from_le_bytes);
        let graph = graph.map_err(|_| Damaged("it ends too early"))?;
        let (number, count) = (reader.number()?, reader.count()?);
        let is_part = version == PART;
        let call = |_| Call::decode(&mut reader, is_part);
        let calls = (0..count).map(call).collect::<Read<_>>()?;
        match reader.is_over() {
            true => Ok(Segment { graph, number, calls }),
            false => Err(Damaged("there is more than was announced")),
        }
    }
}

impl Call {
    /// About how many bytes it takes in the log, at most.
    pub fn weight(&self) -> usize {
        let texts = self.rejects.iter().map(|it| it.text.len() + it.why.len() + 12);
        32 + 44 * self.events.len() + 20 * self.covers.len() + texts.sum::<usize>()
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.source);
        put(bytes, self.until);
        put(bytes, self.events.len() as u64);
        let (mut sequence, mut time) = (0, 0);
        for event in &self.events {
            put_step(bytes, sequence, event.sequence);
            put_step(bytes, time, event.time);
            put(bytes, event.from);
            put(bytes, event.to);
            bytes.push(event.removes.into());
            (sequence, time) = (event.sequence.wrapping_add(1), event.time);
        }
        put(bytes, self.rejects.len() as u64);
        self.rejects.iter().for_each(|it| it.encode(bytes));
    }

    fn encode_covers(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.covers.len() as u64);
        for (first, count) in &self.covers {
            put(bytes, *first);
            put(bytes, *count);
        }
    }

    fn decode(reader: &mut Reader<'_>, is_part: bool) -> Read<Call> {
        let (source, until) = (reader.number()?, reader.number()?);
        let mut events = Vec::new();
        let (mut expected, mut before) = (0, 0);
        for _ in 0..reader.count()? {
            let (sequence, time) = (reader.step(expected)?, reader.step(before)?);
            let (from, to) = (reader.number()?, reader.number()?);
            let removes = reader.bytes(1)?[0] != 0;
            events.push(Event { sequence, time, from, to, removes });
            (expected, before) = (sequence.wrapping_add(1), time);
        }
        let rejects = (0..reader.count()?).map(|_| Reject::decode(reader)).collect::<Read<_>>()?;
        let runs = if is_part { reader.count()? } else { 0 };
        let run = |_| Ok((reader.number()?, reader.number()?));
        let covers = (0..runs).map(run).collect::<Read<_>>()?;
        Ok(Call { source, until, events, rejects, covers })
    }
}

impl Reject {
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.sequence);
        put_text(bytes, &self.text);
        put_text(bytes, &self.why);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Read<Reject> {
        Ok(Reject { sequence: reader.number()?, text: reader.text()?, why: reader.text()? })
    }
}
