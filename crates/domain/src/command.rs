//! What a user tells the supervisor (RainForest 5.2: *supcon*, the primitive commands).

use core::time::Duration;

use crate::cell::{CELL, Malformed, Reader, Writer};
use crate::domain::Limits;
use crate::name::Name;

/// A command. Each is a transaction: it happens whole, or nothing of it stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Makes a domain.
    Create(Create),
    /// Gives a domain more or fewer cores, more or less memory.
    Resize(Resize),
    /// Ends a domain and takes back all that it has.
    Destroy {
        /// Which.
        name: Name,
        /// Without asking it first.
        force: bool,
    },
    /// Gives cores of one domain to another for a time.
    Lend {
        /// Whose they are.
        from: Name,
        /// Who gets them.
        to: Name,
        /// How many.
        cores: u16,
        /// After so many milliseconds they are due.
        millis: u32,
    },
    /// Gives the cores back at once that a domain has from others.
    Recall {
        /// Who has them.
        from: Name,
    },
}

/// A new domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Create {
    /// What it is called.
    pub name: Name,
    /// How many cores it gets.
    pub cores: u16,
    /// How many units of memory it gets.
    pub units: u32,
    /// What it may and must have from then on.
    pub limits: Limits,
    /// A device that it gets.
    pub device: Option<u16>,
}

/// What a domain is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resize {
    /// Which.
    pub name: Name,
    /// So many cores of its own; as many as it has if nothing is said.
    pub cores: Option<u16>,
    /// So many units of memory.
    pub units: Option<u32>,
    /// Cores that do not leave in time are taken.
    pub force: bool,
}

impl Command {
    /// How long cores are lent.
    pub fn span(millis: u32) -> Duration {
        Duration::from_millis(millis.into())
    }

    /// The message that says it.
    pub fn encode(&self) -> [u8; CELL] {
        match *self {
            Command::Create(Create { name, cores, units, limits, device }) => Writer::new(1)
                .put(name.padded())
                .u16(cores)
                .u32(units)
                .u16(limits.cores.0)
                .u16(limits.cores.1)
                .u32(limits.units.0)
                .u32(limits.units.1)
                .u8(limits.priority)
                .u8(device.is_some().into())
                .u16(device.unwrap_or_default())
                .cell(),
            Command::Resize(Resize { name, cores, units, force }) => Writer::new(2)
                .put(name.padded())
                .u8(force.into())
                .u8(cores.is_some().into())
                .u16(cores.unwrap_or_default())
                .u8(units.is_some().into())
                .u32(units.unwrap_or_default())
                .cell(),
            Command::Destroy { name, force } => {
                Writer::new(3).put(name.padded()).u8(force.into()).cell()
            }
            Command::Lend { from, to, cores, millis } => {
                Writer::new(4).put(from.padded()).put(to.padded()).u16(cores).u32(millis).cell()
            }
            Command::Recall { from } => Writer::new(5).put(from.padded()).cell(),
        }
    }

    /// What a message says; every other one is [`Malformed`].
    pub fn decode(cell: &[u8]) -> Result<Command, Malformed> {
        let mut it = Reader::new(cell)?;
        let kind = it.u8()?;
        let name = |it: &mut Reader<'_>| Name::new(&it.bytes::<24>()?).ok_or(Malformed);
        let first = name(&mut it)?;
        let command = match kind {
            1 => {
                let (cores, units) = (it.u16()?, it.u32()?);
                let limits = Limits {
                    cores: (it.u16()?, it.u16()?),
                    units: (it.u32()?, it.u32()?),
                    priority: it.u8()?,
                };
                let device = (it.bool()?, it.u16()?);
                Command::Create(Create { name: first, cores, units, limits, device: said(device)? })
            }
            2 => {
                let force = it.bool()?;
                let cores = said((it.bool()?, it.u16()?))?;
                let units = said((it.bool()?, it.u32()?))?;
                Command::Resize(Resize { name: first, cores, units, force })
            }
            3 => Command::Destroy { name: first, force: it.bool()? },
            4 => {
                let to = name(&mut it)?;
                Command::Lend { from: first, to, cores: it.u16()?, millis: it.u32()? }
            }
            5 => Command::Recall { from: first },
            _ => return Err(Malformed),
        };
        it.end(command)
    }
}

/// A value that may be left out; then zero stands in its place.
fn said<T: Default + PartialEq>((is_said, value): (bool, T)) -> Result<Option<T>, Malformed> {
    match is_said {
        true => Ok(Some(value)),
        false if value == T::default() => Ok(None),
        false => Err(Malformed),
    }
}
