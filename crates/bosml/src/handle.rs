//! Values that Rust has no type for: bytes, cores, handles of buffers, with their text forms.

use alloc::borrow::Cow;
use core::fmt;
use core::str::FromStr;

use nile_abi::{CoreId, NodeId};

/// Any bytes, as one value and not as a list of numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Bytes<'a>(pub Cow<'a, [u8]>);

/// A core of a node: `n2.c3`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Core {
    /// The node.
    pub node: NodeId,
    /// The core of that node.
    pub core: CoreId,
}

/// A handle to a buffer in a pool that both sides share: `pool.index.generation.length`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Buffer {
    /// The pool's number.
    pub pool: u32,
    /// The buffer's place in the pool.
    pub index: u32,
    /// How often that buffer had been sent: tells this handle from earlier ones.
    pub generation: u32,
    /// How many of its bytes are meant.
    pub length: u32,
}

/// The text names no core, or no buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotOne;

impl fmt::Display for NotOne {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a core such as `n2.c3`, or a buffer such as `0.7.1.512`")
    }
}

impl core::error::Error for NotOne {}

/// A decimal number without a sign.
fn number<T: FromStr>(text: &str) -> Result<T, NotOne> {
    match text.as_bytes().first() {
        Some(b'0'..=b'9') => text.parse().map_err(|_| NotOne),
        _ => Err(NotOne),
    }
}

impl fmt::Display for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}.{}", self.node.0, self.core)
    }
}

impl FromStr for Core {
    type Err = NotOne;

    fn from_str(text: &str) -> Result<Core, NotOne> {
        let (node, core) =
            text.strip_prefix('n').and_then(|it| it.split_once(".c")).ok_or(NotOne)?;
        Ok(Core { node: NodeId(number(node)?), core: CoreId(number(core)?) })
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Buffer { pool, index, generation, length } = self;
        write!(f, "{pool}.{index}.{generation}.{length}")
    }
}

impl FromStr for Buffer {
    type Err = NotOne;

    fn from_str(text: &str) -> Result<Buffer, NotOne> {
        let mut parts = text.splitn(4, '.');
        let mut next = || number(parts.next().ok_or(NotOne)?);
        let (pool, index) = (next()?, next()?);
        Ok(Buffer { pool, index, generation: next()?, length: next()? })
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_core_and_a_buffer_survive_their_text() {
        for text in ["n0.c0", "n4294967295.c65535"] {
            assert_eq!(text.parse::<Core>().unwrap().to_string(), text);
        }
        let buffer = "1.2.3.4294967295".parse::<Buffer>().unwrap();
        assert_eq!(buffer, Buffer { pool: 1, index: 2, generation: 3, length: u32::MAX });
        assert_eq!(buffer.to_string(), "1.2.3.4294967295");
    }

    #[test]
    fn other_text_names_none() {
        for text in ["", "n", "n1", "n1.c", "1.c2", "n1.c65536", "n-1.c0", "n1.c+1", "n1.c2 "] {
            assert_eq!(text.parse::<Core>(), Err(NotOne), "{text}");
        }
        for text in ["", "1.2.3", "1.2.3.", "1.2.3.4.5", "+1.2.3.4", "1.2.3.4294967296"] {
            assert_eq!(text.parse::<Buffer>(), Err(NotOne), "{text}");
        }
    }
}
