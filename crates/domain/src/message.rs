//! What the supervisor and the managing core of a domain tell each other (RainForest 5.2: *subOS
//! con*). The line between them keeps their order; a message of an earlier domain of the same place
//! is told by its generation.

use nile_abi::Generation;

use crate::cell::{CELL, Malformed, Reader, Writer};
use crate::domain::DomainId;
use crate::extent::Extent;

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Message {
    /// To the domain: the supervisor begins, perhaps anew. The domain says [`Message::Hello`] and
    /// repeats what was not accepted.
    Back,
    /// To the domain: this core is yours; take it, or keep it if it was to leave.
    OfferCore(u16),
    /// To the domain: this core is to leave.
    TakeCore(u16),
    /// To the domain: this memory is yours.
    OfferMemory(Extent),
    /// To the domain: give so many units back.
    WantMemory(u32),
    /// To the domain: what it gave has come back.
    MemoryAccepted(Extent),
    /// To the domain: this core, which was to leave, is parked. If the domain has not let it go, it
    /// was taken by force, and what it did is lost.
    CoreParked(u16),
    /// To the domain: end.
    Stop,
    /// To the supervisor: the domain runs.
    Hello,
    /// To the supervisor: the core runs for the domain.
    CoreTaken(u16),
    /// To the supervisor: the domain cannot start the core, or keeps it though it was to leave.
    CoreRefused(u16),
    /// To the supervisor: the domain uses the memory.
    MemoryTaken(Extent),
    /// To the supervisor: the domain has forgotten this memory, and so has each of its cores.
    MemoryGiven(Extent),
    /// To the supervisor: so many units are missing of those that were wanted; none was given.
    MemoryRefused(u32),
}

impl Message {
    /// The cell that says it to, or from, a domain.
    pub fn encode(&self, domain: DomainId) -> [u8; CELL] {
        let (kind, first, second) = match *self {
            Message::Back => (1, 0, 0),
            Message::OfferCore(core) => (2, core.into(), 0),
            Message::TakeCore(core) => (3, core.into(), 0),
            Message::OfferMemory(Extent { start, count }) => (4, start, count),
            Message::WantMemory(units) => (5, units, 0),
            Message::MemoryAccepted(Extent { start, count }) => (6, start, count),
            Message::Stop => (7, 0, 0),
            Message::Hello => (8, 0, 0),
            Message::CoreTaken(core) => (9, core.into(), 0),
            Message::CoreRefused(core) => (10, core.into(), 0),
            Message::MemoryTaken(Extent { start, count }) => (11, start, count),
            Message::MemoryGiven(Extent { start, count }) => (12, start, count),
            Message::MemoryRefused(units) => (13, units, 0),
            Message::CoreParked(core) => (14, core.into(), 0),
        };
        let DomainId { slot, generation } = domain;
        Writer::new(kind).u8(slot).u32(generation.0).u32(first).u32(second).cell()
    }

    /// What a cell says, and of which domain; every other one is [`Malformed`].
    pub fn decode(cell: &[u8]) -> Result<(DomainId, Message), Malformed> {
        let mut it = Reader::new(cell)?;
        let kind = it.u8()?;
        let domain = DomainId { slot: it.u8()?, generation: Generation(it.u32()?) };
        let (first, second) = (it.u32()?, it.u32()?);
        let nothing =
            |message| if (first, second) == (0, 0) { Ok(message) } else { Err(Malformed) };
        let number = || if second == 0 { Ok(first) } else { Err(Malformed) };
        let core = || u16::try_from(number()?).map_err(|_| Malformed);
        let extent = || match first.checked_add(second) {
            Some(_) if second > 0 => Ok(Extent { start: first, count: second }),
            _ => Err(Malformed),
        };
        let message = match kind {
            1 => nothing(Message::Back)?,
            2 => Message::OfferCore(core()?),
            3 => Message::TakeCore(core()?),
            4 => Message::OfferMemory(extent()?),
            5 => Message::WantMemory(number()?),
            6 => Message::MemoryAccepted(extent()?),
            7 => nothing(Message::Stop)?,
            8 => nothing(Message::Hello)?,
            9 => Message::CoreTaken(core()?),
            10 => Message::CoreRefused(core()?),
            11 => Message::MemoryTaken(extent()?),
            12 => Message::MemoryGiven(extent()?),
            13 => Message::MemoryRefused(number()?),
            14 => Message::CoreParked(core()?),
            _ => return Err(Malformed),
        };
        it.end((domain, message))
    }
}
