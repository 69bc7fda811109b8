//! Which interface has which address (RFC 826, RFC 4861): what is known, and packets that wait for
//! it.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use nile_abi::{Instant, MacAddress};

/// Addresses that are known at once.
const MOST_KNOWN: usize = 64;

/// Packets that wait for addresses at once.
const MOST_WAITING: usize = 32;

/// For how long an address is believed, and how soon it is asked for again.
const FRESH: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_secs(1);

/// What is known of the link.
#[derive(Default)]
pub struct Neighbours {
    known: BTreeMap<IpAddr, Known>,
    waiting: VecDeque<(IpAddr, Vec<u8>)>,
}

struct Known {
    address: Option<MacAddress>,
    /// When it was learned, or asked for last.
    at: Instant,
}

/// What is to be done with a packet.
#[derive(PartialEq, Eq, Debug)]
pub enum Way {
    /// It goes to this interface.
    To(MacAddress, Vec<u8>),
    /// It waits, and it is to be asked who has the address.
    Ask,
    /// It waits for the answer.
    Wait,
}

impl Neighbours {
    /// Notes who has an address. One that nobody here has asked for is noted only if `wanted`.
    pub fn learn(&mut self, now: Instant, ip: IpAddr, address: MacAddress, wanted: bool) {
        if address.is_group() || !(wanted || self.known.contains_key(&ip)) {
            return;
        }
        self.note(ip, Known { address: Some(address), at: now });
    }

    /// Notes one, in place of the oldest one if there are too many.
    fn note(&mut self, ip: IpAddr, known: Known) {
        if self.known.len() >= MOST_KNOWN && !self.known.contains_key(&ip) {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.at).map(|it| *it.0);
            oldest.map(|ip| self.known.remove(&ip));
        }
        self.known.insert(ip, known);
    }

    /// How many are known, or asked for.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// Whose packets wait for their addresses, and what is known of these, are of no use any more.
    pub fn forget(&mut self, is_it: impl Fn(IpAddr) -> bool) {
        self.known.retain(|ip, _| !is_it(*ip));
        self.waiting.retain(|(ip, _)| !is_it(*ip));
    }

    /// Which way a packet goes whose next hop is `ip`.
    pub fn way(&mut self, now: Instant, ip: IpAddr, packet: Vec<u8>) -> Way {
        if let Some(Known { address: Some(address), at }) = self.known.get(&ip)
            && now.since(*at) < FRESH
        {
            return Way::To(*address, packet);
        }
        if self.waiting.len() >= MOST_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back((ip, packet));
        match self.known.get_mut(&ip) {
            Some(Known { address: None, at }) if now.since(*at) < RETRY => Way::Wait,
            _ => {
                self.note(ip, Known { address: None, at: now });
                Way::Ask
            }
        }
    }

    /// A packet that has waited for an address that is known now, and that address.
    pub fn next_ready(&mut self) -> Option<(IpAddr, MacAddress, Vec<u8>)> {
        let address = |ip: &IpAddr| self.known.get(ip)?.address;
        let place = self.waiting.iter().position(|(ip, _)| address(ip).is_some())?;
        let address = address(&self.waiting[place].0)?;
        let (ip, packet) = self.waiting.remove(place)?;
        Some((ip, address, packet))
    }
}
