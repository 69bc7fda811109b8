//! Why a command was not carried out.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::domain::Lifecycle;
use crate::name::Name;

/// Something that has one owner.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Thing {
    /// A hardware core.
    Core(u16),
    /// A unit of memory.
    Unit(u32),
    /// A device.
    Device(u16),
}

/// Why a command was refused or did not come about. Nothing of it stays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// That is no name of a domain.
    Name,
    /// A domain is called so already.
    Taken(Name),
    /// No domain is called so.
    Unknown {
        /// What was asked for.
        name: Name,
        /// The domains that there are.
        there: Vec<Name>,
    },
    /// The machine has as many domains as it can.
    Full,
    /// A domain would have fewer cores or less memory than its minimum, or more than its maximum.
    Limits {
        /// "cores", or "units of memory".
        what: &'static str,
        /// How many it would have.
        would: u32,
        /// The fewest and most.
        limits: (u32, u32),
    },
    /// What a domain may send has no such burst or weight.
    Range {
        /// "burst", or "weight".
        what: &'static str,
        /// What was asked for.
        would: u64,
        /// The least and most.
        range: (u64, u64),
    },
    /// Too few cores can be had.
    Cores {
        /// How many are wanted.
        wanted: u32,
        /// The free ones.
        free: Vec<u16>,
        /// Whose others are, and how many.
        owners: Vec<(Name, u32)>,
    },
    /// Too little memory can be had.
    Memory {
        /// How many units are wanted.
        wanted: u32,
        /// How many are free.
        free: u32,
        /// Whose others are, and how many.
        owners: Vec<(Name, u32)>,
    },
    /// There is no such device, or it is somebody's.
    Device {
        /// Which.
        device: u16,
        /// Whose it is, if it is there and a domain's.
        owner: Option<Name>,
    },
    /// Something else is being done with the domain.
    Busy {
        /// Which.
        name: Name,
        /// What it does.
        state: Lifecycle,
    },
    /// A domain lends to itself.
    Itself,
    /// The domain has no cores from others.
    NothingLent(Name),
    /// Something of this name is shared already, with so many units.
    Shared {
        /// What it is called.
        name: Name,
        /// How many units it has.
        units: u32,
    },
    /// So many units are too few or too many to be shared.
    ShareSize(u32),
    /// Memory is to be shared by nobody.
    SharedByNobody,
    /// Nothing is shared under this name.
    NoShare(Name),
    /// There are as many shares as there can be.
    Shares,
    /// No so many units of memory that follow each other are free.
    Row {
        /// How many are wanted.
        wanted: u32,
        /// How many are.
        free: u32,
    },
    /// The domain did not do its part in time.
    TimedOut,
    /// The domain keeps a core, or so many units of memory are in use.
    Kept(Thing),
    /// The domain ended meanwhile.
    Died,
    /// The machine could not put the domain together.
    NotBuilt,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Name => f.write_str(
                "a domain's name has 1 to 24 lower-case letters, digits and dashes, begins with a \
                 letter, and is not n and a number, switch, or free",
            ),
            Refused::Taken(name) => {
                write!(f, "there is a domain {name} already; choose another name, or destroy it")
            }
            Refused::Unknown { name, there } if there.is_empty() => {
                write!(f, "no domain {name}; there is none at all")
            }
            Refused::Unknown { name, there } => {
                write!(f, "no domain {name}; there is {}", listed(there))
            }
            Refused::Full => write!(
                f,
                "there are {} domains, and no more can be; destroy one",
                crate::words::DOMAINS
            ),
            Refused::Limits { what, limits: (least, most), .. } if least > most => {
                write!(f, "it is to have at least {least} {what}, and at most {most}: none fits")
            }
            Refused::Limits { what, would, limits: (least, most) } => {
                write!(f, "it would have {would} {what}, and must have {least} to {most}")
            }
            Refused::Range { what, would, range: (least, most) } => {
                write!(f, "a {what} is {least} to {most}, and not {would}")
            }
            Refused::Cores { wanted, free, owners } => {
                match free.len() {
                    0 => write!(f, "{wanted} cores are wanted, and none is free")?,
                    _ => write!(f, "{wanted} cores are wanted; free: {}", listed(free))?,
                }
                told(f, owners, |f, count| write!(f, "{count}"))?;
                f.write_str("; ask for fewer, or destroy a domain")
            }
            Refused::Memory { wanted, free, owners } => {
                write!(f, "{} MiB are wanted; free: {} MiB", wanted * 2, free * 2)?;
                told(f, owners, |f, units| write!(f, "{} MiB", units * 2))?;
                f.write_str("; ask for less, or destroy a domain")
            }
            Refused::Device { device, owner: Some(owner) } => {
                write!(f, "device {device} is {owner}'s; destroy that domain, or take another one")
            }
            Refused::Device { device, owner: None } => {
                write!(f, "there is no device {device} that a domain can have")
            }
            Refused::Busy { name, state } => {
                write!(f, "{name} is {}; try again when it runs", state.name())
            }
            Refused::Itself => f.write_str("a domain lends to another one, not to itself"),
            Refused::NothingLent(name) => write!(f, "{name} has no cores from others"),
            Refused::Shared { name, units } => write!(
                f,
                "{name} is there already and has {} MiB; say that, or take another name",
                units * 2
            ),
            Refused::ShareSize(units) => write!(
                f,
                "{} MiB are no size of shared memory: it has 2 to {} MiB",
                u64::from(*units) * 2,
                crate::share::MOST_SHARED * 2
            ),
            Refused::SharedByNobody => f.write_str("say which domains are to share it"),
            Refused::NoShare(name) => write!(f, "nothing is shared as {name}"),
            Refused::Shares => write!(
                f,
                "there are {} pieces of shared memory, and no more can be; drop one",
                crate::share::SHARES
            ),
            Refused::Row { wanted, free } => write!(
                f,
                "{} MiB in a row are wanted, and {} MiB are free so; ask for less",
                wanted * 2,
                free * 2
            ),
            Refused::TimedOut => f.write_str("the domain did not do its part in time; try --force"),
            Refused::Kept(Thing::Core(core)) => {
                write!(f, "the domain keeps core {core}; try --force")
            }
            Refused::Kept(Thing::Unit(units)) => {
                write!(f, "{} MiB of it are in use; ask for less, or end what uses them", units * 2)
            }
            Refused::Kept(Thing::Device(device)) => write!(f, "the domain keeps device {device}"),
            Refused::Died => f.write_str("the domain ended meanwhile"),
            Refused::NotBuilt => {
                f.write_str("the machine could not put the domain together; its log says why")
            }
        }
    }
}

/// Whose the rest is.
fn told(
    f: &mut fmt::Formatter<'_>,
    owners: &[(Name, u32)],
    count: impl Fn(&mut fmt::Formatter<'_>, u32) -> fmt::Result,
) -> fmt::Result {
    for (index, (name, has)) in owners.iter().enumerate() {
        write!(f, "{}{name} has ", if index == 0 { "; " } else { ", " })?;
        count(f, *has)?;
    }
    Ok(())
}

fn listed(all: &[impl fmt::Display]) -> String {
    let mut text = String::new();
    for (index, one) in all.iter().enumerate() {
        let _ = fmt::write(&mut text, format_args!("{}{one}", if index == 0 { "" } else { ", " }));
    }
    text
}

impl core::error::Error for Refused {}
