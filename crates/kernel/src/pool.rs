//! The node's pool: memory that all its cores share, in buffers that change owner with a message.
//! Its size is set in `nile.toml`, and it is there from the node's start to its end:
//!
//! ```toml
//! [pool]
//! bytes = "64M"        # in whole 2 MiB; without it the node has no pool
//! buffer = "256K"      # bytes of each buffer, whole 4 KiB
//! ```
//!
//! A quarter of the buffers, at most sixteen, is left to those who ask for it (`alloc_any`):
//! the network core, which receives into them. A size is a number and K, M or G. The pool's
//! control words are in its first pages, so 64 MiB hold 255 buffers of 256 KiB.

use alloc::format;
use alloc::string::String;
use core::ops::Deref;

use nile_abi::{PageSize, PhysAddr};
use nile_platform::{Grant, Machine};
use nile_ring::{Buffer, PoolError, PoolId, PoolMemory};
use serde::Deserialize;
use toml::Spanned;

use crate::config::{Config, ConfigError};
use crate::report::PoolReport;

/// The name of a node's only pool in handles.
const NODE_POOL: PoolId = PoolId(0);

/// Bytes of a buffer when the file does not say.
const DEFAULT_BUFFER: u64 = 256 << 10;

/// One of so many buffers is for who receives, and not more than the second.
const RESERVED: (usize, usize) = (4, 16);

/// The largest buffer: what a transfer between nodes can be counted in.
const MAX_BUFFER: u64 = 64 << 20;

/// The part of the file that says how large the pool is.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PoolTable {
    bytes: Option<Spanned<String>>,
    buffer: Option<Spanned<String>>,
}

/// The pool that a node is to have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolConfig {
    /// Bytes of its memory, in whole 2 MiB.
    pub bytes: u64,
    /// Bytes of each buffer, in whole 4 KiB.
    pub buffer: u64,
    /// The line that says so.
    line: usize,
}

/// The bytes that a text says, in whole `whole`, which is called `unit`.
pub(crate) fn size_of(
    name: &str,
    text: &str,
    whole: u64,
    unit: &str,
    line: usize,
) -> Result<u64, ConfigError> {
    let wrong = |what: &str| ConfigError {
        line: Some(line),
        message: format!("{name} is \"{text}\"; {what}"),
    };
    let bytes =
        parse_size(text).ok_or_else(|| wrong("a size is a number and K, M or G, as \"64M\""))?;
    if bytes == 0 || !bytes.is_multiple_of(whole) {
        return Err(wrong(&format!("it is whole {unit}, one at least")));
    }
    Ok(bytes)
}

impl PoolConfig {
    /// What the table says; `None` if the node has no pool. `line_of` gives the line of a byte.
    pub(crate) fn from_table(
        table: PoolTable,
        line_of: impl Fn(usize) -> usize,
    ) -> Result<Option<PoolConfig>, ConfigError> {
        let size = |name: &str, text: &Spanned<String>, whole: u64, unit: &str| {
            let line = line_of(text.span().start);
            Ok((size_of(name, text.get_ref(), whole, unit, line)?, line))
        };
        let buffer = match &table.buffer {
            Some(text) => Some(size("buffer", text, PageSize::Small.bytes(), "4K")?),
            None => None,
        };
        let Some(bytes) = &table.bytes else { return Ok(None) };
        let (bytes, line) = size("bytes", bytes, PageSize::Large.bytes(), "2M")?;
        let (buffer, buffer_line) = buffer.unwrap_or((DEFAULT_BUFFER, line));
        if buffer >= bytes || buffer > MAX_BUFFER {
            let message = format!(
                "buffer is {} KiB; it is less than the pool and at most {} MiB",
                buffer >> 10,
                MAX_BUFFER >> 20
            );
            return Err(ConfigError { line: Some(buffer_line), message });
        }
        Ok(Some(PoolConfig { bytes, buffer, line }))
    }
}

impl Config {
    /// Bytes of the pool of a node with so much usable memory, zero if it has none; or why they
    /// are too many: the pool is at most half of the memory.
    pub fn pool_bytes(&self, memory: u64) -> Result<u64, ConfigError> {
        match &self.pool {
            Some(pool) if pool.bytes > memory / 2 => Err(ConfigError {
                line: Some(pool.line),
                message: format!(
                    "the pool has {} MiB, but the node {} MiB of memory; it is at most half of it",
                    pool.bytes >> 20,
                    memory >> 20
                ),
            }),
            pool => Ok(pool.as_ref().map_or(0, |pool| pool.bytes)),
        }
    }
}

/// The bytes that a text such as `64M` names.
pub(crate) fn parse_size(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|it: char| !it.is_ascii_digit());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// The pool as one core has it.
pub struct Pool {
    pool: nile_ring::Pool,
    start: PhysAddr,
    bytes: u64,
}

impl Deref for Pool {
    type Target = nile_ring::Pool;

    fn deref(&self) -> &nile_ring::Pool {
        &self.pool
    }
}

impl Pool {
    /// Opens the pool of `machine`, if the node has one; the core that manages it formats it.
    pub(crate) fn open<M: Machine>(machine: &M, config: Option<&PoolConfig>) -> Option<Pool> {
        let (start, memory) = machine.pool()?;
        let bytes = memory.bytes() as u64;
        match open(machine, memory, config?) {
            Ok(pool) => {
                let reserve = (pool.capacity() / RESERVED.0).min(RESERVED.1);
                Some(Pool { pool: pool.leaving(reserve), start, bytes })
            }
            Err(error) => {
                machine.log(format_args!("the node's pool is not used: {error}"));
                None
            }
        }
    }

    /// What it has, and what of it is free.
    pub fn report(&self) -> PoolReport {
        PoolReport {
            bytes: self.bytes,
            buffer_bytes: self.buffer_size() as u64,
            buffers: self.capacity() as u64,
            free_buffers: self.free_buffers() as u64,
        }
    }

    /// Its memory.
    pub fn memory(&self) -> Grant {
        Grant { start: self.start, bytes: self.bytes }
    }

    /// Where the bytes of a buffer are for a device of this machine.
    pub fn address_of(&self, buffer: &Buffer) -> PhysAddr {
        PhysAddr(self.start.0 + buffer.offset() as u64)
    }
}

fn open<M: Machine>(
    machine: &M,
    memory: PoolMemory,
    config: &PoolConfig,
) -> Result<nile_ring::Pool, PoolError> {
    match machine.manager() {
        Some(_) => nile_ring::Pool::open(memory, NODE_POOL, config.buffer as usize),
        None => nile_ring::Pool::join(memory, NODE_POOL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<(u64, u64)>, String> {
        let config = Config::parse(text).map_err(|error| format!("{error}"))?;
        Ok(config.pool.map(|pool| (pool.bytes, pool.buffer)))
    }

    #[test]
    fn a_node_has_a_pool_if_the_file_says_how_large() {
        assert_eq!(parse(""), Ok(None));
        assert_eq!(parse("[pool]\n"), Ok(None));
        assert_eq!(parse("[pool]\nbytes = \"64M\"\n"), Ok(Some((64 << 20, 256 << 10))));
        let both = "[pool]\nbytes = \"1G\"\nbuffer = \"4096\"\n";
        assert_eq!(parse(both), Ok(Some((1 << 30, 4096))));
    }

    #[test]
    fn a_wrong_size_is_told_with_its_line() {
        let refused = |text: &str| parse(text).unwrap_err();
        let unit = "a size is a number and K, M or G, as \"64M\"";
        let whole = "it is whole 2M, one at least";
        for (size, why) in [
            ("64 MiB", unit),
            ("M", unit),
            ("-2M", unit),
            ("99999999999999999999G", unit),
            ("18446744073709551615K", unit),
            ("5é", unit),
            ("", unit),
            ("0", whole),
            ("3M", whole),
            ("1", whole),
        ] {
            let said = format!("line 2: bytes is \"{size}\"; {why}");
            assert_eq!(refused(&format!("[pool]\nbytes = \"{size}\"\n")), said);
        }
        assert!(refused("[pool]\nbuffer = \"1000\"\n").starts_with("line 2: buffer is \"1000\""));
        let large = refused("[pool]\nbytes = \"2M\"\nbuffer = \"2M\"\n");
        let said = "line 3: buffer is 2048 KiB; it is less than the pool and at most 64 MiB";
        assert_eq!(large, said);
        assert!(refused("[pool]\nbytes = 5\n").starts_with("line 2: "));
    }

    #[test]
    fn a_pool_is_at_most_half_of_the_memory() {
        let config = Config::parse("\n[pool]\nbytes = \"64M\"\n").unwrap();
        assert_eq!(config.pool_bytes(128 << 20), Ok(64 << 20));
        assert_eq!(
            format!("{}", config.pool_bytes((128 << 20) - 1).unwrap_err()),
            "line 3: the pool has 64 MiB, but the node 127 MiB of memory; it is at most half of it"
        );
        assert_eq!(Config::default().pool_bytes(0), Ok(0));
    }
}
