//! Handshakes that are not over (RFC 4987): what the peer wanted, in little memory of a fixed size,
//! which outlives whoever works on it. When all places are taken the oldest is given up. The peer
//! asks again when our answer is lost, so nothing is repeated here.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};

use nile_abi::Instant;

use crate::memory::{HALF_OPEN, Memory};
use crate::peer::{Options, Peer};

/// A handshake of which the last segment has not come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HalfOpen {
    /// The peer's initial sequence number, and ours.
    pub sequences: (u32, u32),
    /// What the peer can.
    pub options: Options,
}

/// All of them.
pub struct Handshakes<'m> {
    memory: Memory<'m>,
}

impl<'m> Handshakes<'m> {
    pub fn of(memory: Memory<'m>) -> Handshakes<'m> {
        Handshakes { memory }
    }

    fn all(&self) -> impl Iterator<Item = &'m [AtomicU64]> + use<'m> {
        let memory = self.memory;
        (0..HALF_OPEN).map(move |index| memory.half_open(index))
    }

    fn place(&self, peer: Peer) -> Option<&'m [AtomicU64]> {
        let said = peer.encode();
        self.all().find(|words| words.iter().zip(said).all(|(word, it)| word.load(Relaxed) == it))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all().filter(|words| words[0].load(Relaxed) != 0).count()
    }

    /// The handshake with this peer.
    pub fn find(&self, peer: Peer) -> Option<HalfOpen> {
        let words = self.place(peer)?;
        let sequences = words[3].load(Relaxed);
        let options = Options::decode(words[4].load(Relaxed));
        Some(HalfOpen { sequences: ((sequences >> 32) as u32, sequences as u32), options })
    }

    /// Begins one, in place of one before with the same peer.
    pub fn begin(&self, now: Instant, peer: Peer, it: HalfOpen) {
        let age = |words: &&[AtomicU64]| match words[0].load(Relaxed) {
            0 => 0,
            _ => words[5].load(Relaxed).max(1),
        };
        let Some(words) = self.place(peer).or_else(|| self.all().min_by_key(age)) else { return };
        words[0].store(0, Release);
        let (theirs, ours) = it.sequences;
        let [ports, high, low] = peer.encode();
        words[1].store(high, Relaxed);
        words[2].store(low, Relaxed);
        words[3].store(u64::from(theirs) << 32 | u64::from(ours), Relaxed);
        words[4].store(it.options.encode(), Relaxed);
        words[5].store(now.as_nanos(), Relaxed);
        #[cfg(test)]
        crate::tests::steps::step();
        words[0].store(ports, Release);
    }

    /// Forgets those with peers that are not to stay.
    pub fn retain(&self, stays: impl Fn(Peer) -> bool) {
        for words in self.all() {
            let [ports, high, low] = [0, 1, 2].map(|at: usize| words[at].load(Relaxed));
            if ports != 0 && !stays(Peer::decode([ports, high, low])) {
                words[0].store(0, Release);
            }
        }
    }

    /// Forgets the one with this peer.
    pub fn end(&self, peer: Peer) {
        if let Some(words) = self.place(peer) {
            words[0].store(0, Release);
        }
    }
}
