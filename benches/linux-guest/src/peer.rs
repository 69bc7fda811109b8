//! The other guest of a sort: one TCP connection, on which both send at once. Of two guests the
//! first listens.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Outcome, system};

/// Addresses of guests, the first of which has 1.
const NETWORK: [u8; 3] = [10, 0, 0];
const PORT: u16 = 7;

/// How long the other guest may take to be there, and then to say anything.
const PATIENCE: Duration = Duration::from_secs(120);

/// Stands for the number of a piece when no more come.
const NO_MORE: u64 = u64::MAX;

/// What the other guest has of a block: records and entries of each of its parts.
pub struct Piece<'m> {
    pub number: usize,
    pub bytes: &'m [u8],
    pub parts: Vec<Range<usize>>,
}

/// The other guest.
pub struct Peer {
    stream: TcpStream,
    /// Bytes that were sent and received as pieces.
    moved: AtomicU64,
}

impl Peer {
    /// Puts this guest on the network, and waits for the other.
    pub fn meet(node: usize) -> Outcome<Peer> {
        let address = |node: usize| {
            let [a, b, c] = NETWORK;
            SocketAddrV4::new(Ipv4Addr::new(a, b, c, node as u8 + 1), PORT)
        };
        system::join_network(*address(node).ip())?;
        match node {
            0 => Peer::listen(&TcpListener::bind(address(0))?),
            _ => Peer::connect(address(0)),
        }
    }

    fn listen(listener: &TcpListener) -> Outcome<Peer> {
        Peer::new(listener.accept()?.0)
    }

    /// Connects to a guest that may not be there yet.
    fn connect(to: SocketAddrV4) -> Outcome<Peer> {
        let patience = Instant::now() + PATIENCE;
        loop {
            match TcpStream::connect_timeout(&to.into(), Duration::from_secs(1)) {
                Ok(stream) => return Peer::new(stream),
                Err(error) if Instant::now() > patience => {
                    return Err(format!("no guest at {to}: {error}").into());
                }
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn new(stream: TcpStream) -> Outcome<Peer> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Peer { stream, moved: AtomicU64::new(0) })
    }

    /// Waits until the other guest is here, too.
    pub fn meet_again(&mut self) -> Outcome<()> {
        self.tell(&[])?;
        self.hear().map(|_| ())
    }

    /// Says something.
    pub fn tell(&mut self, bytes: &[u8]) -> Outcome<()> {
        self.stream.write_all(&(bytes.len() as u64).to_le_bytes())?;
        Ok(self.stream.write_all(bytes)?)
    }

    /// What the other guest says.
    pub fn hear(&mut self) -> Outcome<Vec<u8>> {
        let mut bytes = vec![0; number(&mut self.stream)? as usize];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// The way there and the way back, for pieces.
    pub fn ways(&mut self) -> Outcome<(Out<'_>, Back<'_>)> {
        let (there, back) = (self.stream.try_clone()?, self.stream.try_clone()?);
        Ok((Out { stream: there, moved: &self.moved }, Back { stream: back, moved: &self.moved }))
    }

    /// Bytes that were sent and received as pieces.
    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }
}

/// Sends pieces.
pub struct Out<'p> {
    stream: TcpStream,
    moved: &'p AtomicU64,
}

impl Out<'_> {
    /// Sends one: its number, the bytes of each part, and these.
    pub fn send(&mut self, piece: &Piece<'_>) -> Outcome<()> {
        let parts = piece.parts.iter().map(|part| part.len() as u64);
        let head: Vec<u8> =
            [piece.number as u64].into_iter().chain(parts).flat_map(u64::to_le_bytes).collect();
        self.stream.write_all(&head)?;
        self.stream.write_all(piece.bytes)?;
        self.moved.fetch_add(piece.bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Says that no more come.
    pub fn end(mut self) -> Outcome<()> {
        Ok(self.stream.write_all(&NO_MORE.to_le_bytes())?)
    }
}

/// Receives pieces.
pub struct Back<'p> {
    stream: TcpStream,
    moved: &'p AtomicU64,
}

impl Back<'_> {
    /// The next piece, with so many parts, in a block of memory that `room` gives; `None` after the
    /// last one.
    pub fn receive<'m>(
        &mut self,
        parts: usize,
        room: impl FnOnce() -> Outcome<&'m mut [u8]>,
    ) -> Outcome<Option<Piece<'m>>> {
        let piece = number(&mut self.stream)?;
        if piece == NO_MORE {
            return Ok(None);
        }
        let mut end = 0;
        let parts = (0..parts).map(|_| {
            let start = end;
            end += number(&mut self.stream)? as usize;
            Ok(start..end)
        });
        let parts = parts.collect::<io::Result<Vec<_>>>()?;
        let (room, too_long) = (room()?, "a piece is longer than a block");
        let bytes = room.get_mut(..end).ok_or(too_long)?;
        self.stream.read_exact(bytes)?;
        self.moved.fetch_add(end as u64, Ordering::Relaxed);
        Ok(Some(Piece { number: piece as usize, bytes, parts }))
    }
}

fn number(stream: &mut TcpStream) -> io::Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Two that have met.
#[cfg(test)]
pub fn pair() -> [Peer; 2] {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port());
    let other = thread::spawn(move || Peer::connect(at).unwrap());
    [Peer::listen(&listener).unwrap(), other.join().unwrap()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_arrive_as_they_were_sent() {
        let [mut one, mut other] = pair();
        let mut memory = [0; 16];
        let (mut out, _) = one.ways().unwrap();
        let piece = |bytes| Piece { number: 7, bytes, parts: vec![0..2, 2..2, 2..5] };
        out.send(&piece(b"abcde")).unwrap();
        out.send(&piece(b"fghij")).unwrap();
        out.end().unwrap();
        let (_, mut back) = other.ways().unwrap();
        let come = back.receive(3, || Ok(&mut memory)).unwrap().unwrap();
        assert_eq!(
            (come.number, come.bytes, come.parts),
            (7, &b"abcde"[..], vec![0..2, 2..2, 2..5])
        );
        let mut small = [0; 4];
        assert!(back.receive(3, || Ok(&mut small)).is_err());
        assert_eq!((one.moved(), other.moved()), (10, 5));
    }

    #[test]
    fn what_is_told_is_heard() {
        let [mut one, mut other] = pair();
        one.tell(b"cuts").unwrap();
        assert_eq!(other.hear().unwrap(), b"cuts");
        let waits = thread::spawn(move || other.meet_again().unwrap());
        one.meet_again().unwrap();
        waits.join().unwrap();
    }
}
