//! What the loader has to say: memory map, command line, boot module, where ACPI begins.
//!
//! Two loaders, two formats, one [`BootInfo`]: [`pvh`] and [`multiboot2`]. Both are read as bytes
//! that anyone may have written: every address goes through a reader that may refuse it, every
//! length is bounded, and what makes no sense is an error or left out, never a panic. The formats
//! take about a page each, which is why no library stands here: the one for Multiboot2 panics on
//! tags that contradict themselves.

pub mod multiboot2;
pub mod pvh;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use nile_abi::PhysAddr;
use nile_memory::{MemoryKind, MemoryRegion};

/// Gives the bytes of physical memory from an address on, or `None` where they cannot be read.
pub type ReadPhysical<'a, 'm> = &'a dyn Fn(PhysAddr, usize) -> Option<&'m [u8]>;

/// The most memory map entries that are looked at.
pub const MAX_ENTRIES: usize = 512;

/// The longest command line in bytes.
const MAX_COMMAND_LINE: usize = 2048;

/// What the loader said.
#[derive(Clone, Debug, Default)]
pub struct BootInfo<'m> {
    /// The node's command line; empty if there is none.
    pub command_line: &'m str,
    /// The first boot module: the node's configuration, its packages. The image reads it.
    pub module: Option<&'m [u8]>,
    /// The ACPI root pointer, where the loader knows it.
    pub rsdp: Option<PhysAddr>,
    /// What memory there is, and what of it the loader's own tables and modules take.
    pub claims: Vec<MemoryRegion>,
}

/// Why what the loader said cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BootInfoError {
    /// The image was entered by something that is neither PVH nor Multiboot2.
    UnknownLoader,
    /// The loader's tables lie where they cannot be read, or end before they should.
    Unreadable,
    /// There is no memory map.
    NoMemoryMap,
    /// The command line is too long, or not UTF-8.
    CommandLine,
}

/// Reads what the loader, known by the value it left in EAX, has put at `info`.
pub fn read<'m>(
    eax: u32,
    info: PhysAddr,
    memory: ReadPhysical<'_, 'm>,
) -> Result<BootInfo<'m>, BootInfoError> {
    let found = match eax {
        multiboot2::LOADER_MAGIC => multiboot2::read(info, memory)?,
        _ => pvh::read(info, memory)?,
    };
    match found.claims.iter().any(|claim| claim.kind == MemoryKind::Usable) {
        true => Ok(found),
        false => Err(BootInfoError::NoMemoryMap),
    }
}

/// The value of the command line's `key=value`; the last one counts.
pub fn option<'a>(command_line: &'a str, key: &str) -> Option<&'a str> {
    let pairs = command_line.split_ascii_whitespace().filter_map(|word| word.split_once('='));
    pairs.filter(|(name, _)| *name == key).map(|(_, value)| value).next_back()
}

/// The program that the command line asks for, with its arguments: what follows `program=`.
pub fn program(command_line: &str) -> &str {
    const DEFAULT: &str = "boot";
    let named = command_line.split_once("program=").map(|(_, program)| program.trim());
    named.filter(|program| !program.is_empty()).unwrap_or(DEFAULT)
}

/// The module of so many bytes at `at`. One without bytes is nowhere: loaders say that it is at 0.
fn module<'m>(
    at: PhysAddr,
    bytes: u64,
    memory: ReadPhysical<'_, 'm>,
) -> Result<&'m [u8], BootInfoError> {
    match usize::try_from(bytes) {
        Ok(0) => Ok(&[]),
        Ok(bytes) => memory(at, bytes).ok_or(BootInfoError::Unreadable),
        Err(_) => Err(BootInfoError::Unreadable),
    }
}

/// What firmware's number for a kind of memory means (the same numbers in both formats).
fn kind(number: u32) -> MemoryKind {
    match number {
        1 => MemoryKind::Usable,
        3 => MemoryKind::Acpi,
        _ => MemoryKind::Reserved,
    }
}

/// The little-endian number of `N` bytes at `offset`.
fn number<const N: usize>(bytes: &[u8], offset: usize) -> Option<u64> {
    let bytes: &[u8; N] = bytes.get(offset..)?.first_chunk()?;
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    number::<4>(bytes, offset).map(|value| value as u32)
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    number::<8>(bytes, offset)
}

/// The command line, which goes up to the first zero byte. A node does what it says or does not
/// start: half of it would be something else.
fn text(bytes: &[u8]) -> Result<&str, BootInfoError> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text = core::str::from_utf8(&bytes[..end]).ok().filter(|_| end <= MAX_COMMAND_LINE);
    text.ok_or(BootInfoError::CommandLine)
}
