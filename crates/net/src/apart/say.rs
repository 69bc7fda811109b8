//! What the two sides say to each other, in cells of a channel.

use core::net::{Ipv4Addr, SocketAddrV4};

use crate::tcp::Peer;

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
    Connect { request: u32, to: SocketAddrV4 },
    /// The user has consumed so many bytes.
    Consumed { serial: u64, consumed: u64 },
    /// How the user ends a connection, once all before was sent.
    Close { serial: u64, how: u64 },
    /// The user takes datagrams to a port; the stack looks for one that is free for 0.
    Bind { request: u32, port: u16 },
    /// It takes no more.
    Unbind(u16),
    /// A datagram of so many bytes, which follow: from or to a port, and the other side of it.
    Datagram { port: u16, other: SocketAddrV4, bytes: u32 },
    /// The next bytes of a datagram.
    More(&'a [u8]),
    /// The next bytes of a connection: what has come, or what is to be sent.
    Bytes { serial: u64, bytes: &'a [u8] },
    /// The stack's first word, and what has changed of it: the node, its address, bytes of the
    /// longest datagram, who is asked for names, and a number that nobody else knows; no address
    /// is zero.
    Welcome { node: u32, address: Ipv4Addr, datagram: u32, resolver: Ipv4Addr, seed: u64 },
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

fn socket(at: SocketAddrV4) -> u64 {
    u64::from(at.ip().to_bits()) << 16 | u64::from(at.port())
}

fn socket_of(word: u64) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::from_bits((word >> 16) as u32), word as u16)
}

impl Say<'_> {
    /// Bytes of a connection that a cell carries.
    pub const MOST: usize = CELL_BYTES - 8;

    /// The cell that says it.
    pub fn cell(&self) -> Cell {
        let (kind, words, rest): (u8, [u64; 4], &[u8]) = match *self {
            Say::Name(name) => (1, [0; 4], name),
            Say::Know { serial, peer, received, consumed } => {
                (2, [serial, peer.encode(), received, consumed], &[])
            }
            Say::Listen(port) => (3, [port.into(), 0, 0, 0], &[]),
            Say::Unlisten(port) => (4, [port.into(), 0, 0, 0], &[]),
            Say::Connect { request, to } => (5, [request.into(), socket(to), 0, 0], &[]),
            Say::Consumed { serial, consumed } => (6, [serial, consumed, 0, 0], &[]),
            Say::Close { serial, how } => (7, [serial, how, 0, 0], &[]),
            Say::Bind { request, port } => (8, [request.into(), port.into(), 0, 0], &[]),
            Say::Unbind(port) => (9, [port.into(), 0, 0, 0], &[]),
            Say::Datagram { port, other, bytes } => {
                (10, [port.into(), socket(other), bytes.into(), 0], &[])
            }
            Say::More(bytes) => (11, [0; 4], bytes),
            Say::Bytes { serial, bytes } => (12, [serial, 0, 0, 0], bytes),
            Say::Welcome { node, address, datagram, resolver, seed } => {
                let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
                let addresses = pair(address.to_bits(), resolver.to_bits());
                (13, [pair(node, datagram), addresses, seed, 0], &[])
            }
            Say::Opened { serial, peer, request } => {
                (14, [serial, peer.encode(), request.into(), 0], &[])
            }
            Say::Has { serial, produced } => (15, [serial, produced, 0, 0], &[]),
            Say::Acknowledged { serial, acknowledged, finished } => {
                (16, [serial, acknowledged, finished.into(), 0], &[])
            }
            Say::Gone(serial) => (17, [serial, 0, 0, 0], &[]),
            Say::Answer { request, code, port } => {
                (18, [request.into(), code.into(), port.into(), 0], &[])
            }
            Say::Listens { port, taken } => (19, [port.into(), taken.into(), 0, 0], &[]),
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
        let mut words = [0; 4];
        for (word, bytes) in words.iter_mut().zip(said.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let [first, second, third, fourth] = words;
        let (request, port) = (first as u32, first as u16);
        Some(match cell.kind {
            1 => Say::Name(rest),
            2 => Say::Know {
                serial: first,
                peer: Peer::decode(second),
                received: third,
                consumed: fourth,
            },
            3 => Say::Listen(port),
            4 => Say::Unlisten(port),
            5 => Say::Connect { request, to: socket_of(second) },
            6 => Say::Consumed { serial: first, consumed: second },
            7 => Say::Close { serial: first, how: second },
            8 => Say::Bind { request, port: second as u16 },
            9 => Say::Unbind(port),
            10 => Say::Datagram { port, other: socket_of(second), bytes: third as u32 },
            11 => Say::More(rest),
            12 => Say::Bytes { serial: first, bytes: rest },
            13 => Say::Welcome {
                node: (first >> 32) as u32,
                address: Ipv4Addr::from_bits((second >> 32) as u32),
                datagram: request,
                resolver: Ipv4Addr::from_bits(second as u32),
                seed: third,
            },
            14 => Say::Opened { serial: first, peer: Peer::decode(second), request: third as u32 },
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
        5..=8 | 15 | 19 => 2,
        10 | 13 | 14 | 16 | 18 => 3,
        _ => 4,
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
