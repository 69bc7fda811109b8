//! What the two sides say to each other, in cells of a channel.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::own::Own;
use crate::peer::Peer;

/// Words that a cell has at most before bytes.
const WORDS: usize = 6;

/// Bytes of the longest cell.
pub const CELL_BYTES: usize = 56;

/// What one side says, as a channel's message carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    /// What it is.
    pub kind: u8,
    length: u8,
    bytes: [u8; CELL_BYTES],
}

impl Cell {
    /// A cell that has come; `None` if it is too long.
    pub fn new(kind: u8, bytes: &[u8]) -> Option<Cell> {
        let mut whole = [0; CELL_BYTES];
        whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Cell { kind, length: bytes.len() as u8, bytes: whole })
    }

    /// What is behind its kind.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// One thing that is said. Connections go by their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Say<'a> {
    /// The user begins a session, and this is its name.
    Name(&'a [u8]),
    /// The user knows this connection, has so many of its bytes, and has consumed so many.
    Know { serial: u64, peer: Peer, received: u64, consumed: u64 },
    /// The user takes connections to a port.
    Listen(u16),
    /// It takes no more.
    Unlisten(u16),
    /// The user opens a connection, and calls that so.
    Connect { request: u32, to: SocketAddr },
    /// The user has consumed so many bytes.
    Consumed { serial: u64, consumed: u64 },
    /// How the user ends a connection, once all before was sent.
    Close { serial: u64, how: u64 },
    /// The user takes datagrams to a port; the stack looks for one that is free for 0.
    Bind { request: u32, port: u16 },
    /// It takes no more.
    Unbind(u16),
    /// A datagram of so many bytes, which follow: from or to a port, and the other side of it.
    Datagram { port: u16, other: SocketAddr, bytes: u32 },
    /// The next bytes of a datagram.
    More(&'a [u8]),
    /// The next bytes of a connection: what has come, or what is to be sent.
    Bytes { serial: u64, bytes: &'a [u8] },
    /// The stack's first word, and what has changed of it: the node, its addresses, who is asked
    /// for names, and a number that nobody else knows; no address is zero.
    Welcome { node: u32, own: Own, resolver: Ipv4Addr, seed: u64 },
    /// A connection is the user's: one that it has asked for, or, for 0, that a peer has opened.
    Opened { serial: u64, peer: Peer, request: u32 },
    /// The stack knows a connection that the user knows, and has so many bytes to be sent.
    Has { serial: u64, produced: u64 },
    /// The peer has acknowledged so many bytes, and whether it sends no more than has come.
    Acknowledged { serial: u64, acknowledged: u64, finished: bool },
    /// There is no such connection any more.
    Gone(u64),
    /// What was asked for has come to this: see [`Asked`](super::user::Asked).
    Answer { request: u32, code: u32, port: u16 },
    /// Whether the user has a port that it listens to.
    Listens { port: u16, taken: bool },
}

/// The other side of a port in three words.
fn socket(other: SocketAddr, local: u16) -> [u64; 3] {
    Peer { address: other.ip(), port: other.port(), local }.encode()
}

impl Say<'_> {
    /// Bytes of a connection that a cell carries.
    pub const MOST: usize = CELL_BYTES - 8;

    /// The cell that says it.
    pub fn cell(&self) -> Cell {
        const NONE: [u64; WORDS] = [0; WORDS];
        let said = |words: &[u64]| {
            let mut all = NONE;
            all[..words.len()].copy_from_slice(words);
            all
        };
        let (kind, words, rest): (u8, [u64; WORDS], &[u8]) = match *self {
            Say::Name(name) => (1, NONE, name),
            Say::Know { serial, peer, received, consumed } => {
                let [ports, high, low] = peer.encode();
                (2, [serial, ports, high, low, received, consumed], &[])
            }
            Say::Listen(port) => (3, said(&[port.into()]), &[]),
            Say::Unlisten(port) => (4, said(&[port.into()]), &[]),
            Say::Connect { request, to } => {
                let [ports, high, low] = socket(to, 0);
                (5, said(&[request.into(), ports, high, low]), &[])
            }
            Say::Consumed { serial, consumed } => (6, said(&[serial, consumed]), &[]),
            Say::Close { serial, how } => (7, said(&[serial, how]), &[]),
            Say::Bind { request, port } => (8, said(&[request.into(), port.into()]), &[]),
            Say::Unbind(port) => (9, said(&[port.into()]), &[]),
            Say::Datagram { port, other, bytes } => {
                let [ports, high, low] = socket(other, port);
                (10, said(&[bytes.into(), ports, high, low]), &[])
            }
            Say::More(bytes) => (11, NONE, bytes),
            Say::Bytes { serial, bytes } => (12, said(&[serial]), bytes),
            Say::Welcome { node, own, resolver, seed } => {
                let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
                let two = |it: Ipv6Addr| [(it.to_bits() >> 64) as u64, it.to_bits() as u64];
                let addresses = pair(own.v4.to_bits(), resolver.to_bits());
                let most = (own.max_packet as u64) << 8 | u64::from(own.prefix);
                let ([a, b], [_, d]) = (two(own.wide), two(own.link));
                (13, [u64::from(node) << 32 | most, addresses, seed, a, b, d], &[])
            }
            Say::Opened { serial, peer, request } => {
                let [ports, high, low] = peer.encode();
                (14, said(&[serial, ports, high, low, request.into()]), &[])
            }
            Say::Has { serial, produced } => (15, said(&[serial, produced]), &[]),
            Say::Acknowledged { serial, acknowledged, finished } => {
                (16, said(&[serial, acknowledged, finished.into()]), &[])
            }
            Say::Gone(serial) => (17, said(&[serial]), &[]),
            Say::Answer { request, code, port } => {
                (18, said(&[request.into(), code.into(), port.into()]), &[])
            }
            Say::Listens { port, taken } => (19, said(&[port.into(), taken.into()]), &[]),
        };
        let before = 8 * words_before(kind);
        let length = (before + rest.len()).min(CELL_BYTES);
        let mut bytes = [0; CELL_BYTES];
        let said = words.map(u64::to_le_bytes);
        bytes[..before].copy_from_slice(&said.as_flattened()[..before]);
        bytes[before..length].copy_from_slice(&rest[..length - before]);
        Cell { kind, length: length as u8, bytes }
    }

    /// What a cell says; `None` if that is nothing.
    pub fn of(cell: &Cell) -> Option<Say<'_>> {
        let (said, rest) = cell.bytes().split_at_checked(8 * words_before(cell.kind))?;
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(said.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let [first, second, third, fourth, fifth, sixth] = words;
        let peer = || Peer::decode([second, third, fourth]);
        let (request, port) = (first as u32, first as u16);
        Some(match cell.kind {
            1 => Say::Name(rest),
            2 => Say::Know { serial: first, peer: peer(), received: fifth, consumed: sixth },
            3 => Say::Listen(port),
            4 => Say::Unlisten(port),
            5 => Say::Connect { request, to: peer().remote() },
            6 => Say::Consumed { serial: first, consumed: second },
            7 => Say::Close { serial: first, how: second },
            8 => Say::Bind { request, port: second as u16 },
            9 => Say::Unbind(port),
            10 => {
                let peer = peer();
                Say::Datagram { port: peer.local, other: peer.remote(), bytes: request }
            }
            11 => Say::More(rest),
            12 => Say::Bytes { serial: first, bytes: rest },
            13 => {
                let wide = u128::from(fourth) << 64 | u128::from(fifth);
                let own = Own {
                    v4: Ipv4Addr::from_bits((second >> 32) as u32),
                    link: Own::link_of(sixth),
                    wide: Ipv6Addr::from_bits(wide),
                    prefix: first as u8,
                    max_packet: usize::from((first >> 8) as u16),
                };
                let resolver = Ipv4Addr::from_bits(second as u32);
                Say::Welcome { node: (first >> 32) as u32, own, resolver, seed: third }
            }
            14 => Say::Opened { serial: first, peer: peer(), request: fifth as u32 },
            15 => Say::Has { serial: first, produced: second },
            16 => Say::Acknowledged { serial: first, acknowledged: second, finished: third != 0 },
            17 => Say::Gone(first),
            18 => Say::Answer { request, code: second as u32, port: third as u16 },
            19 => Say::Listens { port, taken: second != 0 },
            _ => return None,
        })
    }
}

/// Words that are said before bytes.
fn words_before(kind: u8) -> usize {
    match kind {
        1 | 11 => 0,
        3 | 4 | 9 | 12 | 17 => 1,
        6..=8 | 15 | 19 => 2,
        16 | 18 => 3,
        5 | 10 => 4,
        14 => 5,
        _ => WORDS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_cell_says_itself_or_nothing(
            kind in 0..=25u8,
            bytes in proptest::collection::vec(any::<u8>(), 0..=CELL_BYTES),
        ) {
            let cell = Cell::new(kind, &bytes).unwrap();
            if let Some(said) = Say::of(&cell) {
                let again = said.cell();
                prop_assert_eq!(Say::of(&again), Some(said));
            }
        }
    }

    #[test]
    fn bytes_fill_a_cell() {
        let bytes = [7; Say::MOST];
        let said = Say::Bytes { serial: u64::MAX, bytes: &bytes };
        assert_eq!(said.cell().bytes().len(), CELL_BYTES);
        assert_eq!(Say::of(&said.cell()), Some(said));
        assert_eq!(Cell::new(1, &[0; CELL_BYTES + 1]), None);
    }
}
