//! Connections that this side opens (RFC 9293, 3.5): a SYN is out, and is sent again until it is
//! answered. They do not outlive whoever opens them; what is opened does.

use alloc::collections::BTreeMap;
use core::time::Duration;

use nile_abi::Instant;

use crate::peer::Peer;
use crate::stream::Stream;

/// How long the first SYN has to be answered; each that follows, twice as long.
const FIRST: Duration = Duration::from_secs(1);

/// How often a SYN is sent.
const TRIES: u32 = 4;

/// How an attempt stands.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'m> {
    /// Nothing has been said yet.
    Waits,
    /// It is open.
    Open(Stream<'m>),
    /// The other side takes no connections at that port.
    Refused,
    /// Nobody answers, or there are too many connections here.
    NoAnswer,
}

/// One attempt.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Our initial sequence number.
    pub ours: u32,
    again: Instant,
    tries: u32,
    refused: bool,
}

/// All attempts.
#[derive(Default)]
pub struct Openings(BTreeMap<Peer, Opening>);

impl Openings {
    /// Begins an attempt; its first SYN is due now.
    pub fn begin(&mut self, now: Instant, peer: Peer, ours: u32) {
        self.0.insert(peer, Opening { ours, again: now, tries: 0, refused: false });
    }

    pub fn has(&self, peer: Peer) -> bool {
        self.0.contains_key(&peer)
    }

    /// The attempt with this peer, unless it has failed.
    pub fn find(&self, peer: Peer) -> Option<Opening> {
        self.0.get(&peer).copied().filter(|it| !it.is_over())
    }

    pub fn refuse(&mut self, peer: Peer) {
        if let Some(opening) = self.0.get_mut(&peer) {
            opening.refused = true;
        }
    }

    pub fn end(&mut self, peer: Peer) {
        self.0.remove(&peer);
    }

    /// How the attempt with this peer stands; forgotten once it has failed.
    pub fn progress<'m>(&mut self, peer: Peer) -> Progress<'m> {
        match self.0.get(&peer) {
            Some(opening) if !opening.is_over() => return Progress::Waits,
            Some(Opening { refused: true, .. }) => {
                self.end(peer);
                return Progress::Refused;
            }
            _ => {}
        }
        self.end(peer);
        Progress::NoAnswer
    }

    /// An attempt whose SYN is to be sent now.
    pub fn next_due(&mut self, now: Instant) -> Option<(Peer, u32)> {
        let due = |it: &&mut Opening| !it.is_over() && it.again <= now;
        loop {
            let (peer, opening) =
                self.0.iter_mut().map(|(peer, it)| (*peer, it)).find(|(_, it)| due(it))?;
            opening.again = now + FIRST * (1 << opening.tries);
            opening.tries += 1;
            if !opening.is_over() {
                return Some((peer, opening.ours));
            }
        }
    }

    /// When the next SYN is due.
    pub fn due(&self) -> Option<Instant> {
        self.0.values().filter(|it| !it.is_over()).map(|it| it.again).min()
    }
}

impl Opening {
    fn is_over(&self) -> bool {
        self.refused || self.tries > TRIES
    }
}
