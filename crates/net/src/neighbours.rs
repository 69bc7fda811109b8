//! Which interface has which address (RFC 826): what is known, and packets that wait for it.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::Ipv4Addr;
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
    known: BTreeMap<Ipv4Addr, Known>,
    waiting: VecDeque<(Ipv4Addr, Vec<u8>)>,
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
    pub fn learn(&mut self, now: Instant, ip: Ipv4Addr, address: MacAddress, wanted: bool) {
        if address.is_group() || !(wanted || self.known.contains_key(&ip)) {
            return;
        }
        if self.known.len() >= MOST_KNOWN && !self.known.contains_key(&ip) {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.at).map(|it| *it.0);
            oldest.map(|ip| self.known.remove(&ip));
        }
        self.known.insert(ip, Known { address: Some(address), at: now });
    }

    /// Which way a packet goes whose next hop is `ip`.
    pub fn way(&mut self, now: Instant, ip: Ipv4Addr, packet: Vec<u8>) -> Way {
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
                self.known.insert(ip, Known { address: None, at: now });
                Way::Ask
            }
        }
    }

    /// A packet that has waited for an address that is known now.
    pub fn next_ready(&mut self) -> Option<(MacAddress, Vec<u8>)> {
        let address = |ip: &Ipv4Addr| self.known.get(ip)?.address;
        let place = self.waiting.iter().position(|(ip, _)| address(ip).is_some())?;
        let address = address(&self.waiting[place].0)?;
        let (_, packet) = self.waiting.remove(place)?;
        Some((address, packet))
    }
}
