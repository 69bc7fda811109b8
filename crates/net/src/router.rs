//! What the routers of a link say of it (RFC 4861, 6.3; RFC 4862, 5.5): the first bits of the
//! addresses of its interfaces, and who passes on what is for other links. It lies in memory that
//! outlives whoever has heard it.

use core::net::Ipv6Addr;
use core::sync::atomic::AtomicU64;
use core::time::Duration;

use nile_abi::Instant;
use smoltcp::wire::{NdiscPrefixInfoFlags, NdiscPrefixInformation};

use crate::kept;
use crate::own::{LINK_BITS, is_of_link};

/// How often it is asked who is a router, and how long it is waited for an answer.
const ASKS: u32 = 3;
const PATIENCE: Duration = Duration::from_secs(4);

/// How long what nobody has proved that he may say holds at least (RFC 4862, 5.5.3).
const AT_LEAST: Duration = Duration::from_secs(2 * 3600);

/// What was heard; what is over is none.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Advertised {
    /// The first bits of addresses, and until when they hold.
    pub prefix: Option<(Ipv6Addr, Instant)>,
    /// A router's address for the link, and until when it is one.
    pub router: Option<(Ipv6Addr, Instant)>,
    /// When it was heard.
    pub heard: Option<Instant>,
}

impl Advertised {
    /// What is in memory and holds.
    pub fn load(words: &[AtomicU64], now: Instant) -> Advertised {
        let mut said = kept::load(words).map_or(Advertised::default(), Advertised::decode);
        said.end(now);
        said
    }

    /// Keeps it, and nothing else.
    pub fn store(&self, words: &[AtomicU64]) {
        kept::store(words, self.encode());
    }

    /// Forgets what is over. Whether anything is.
    fn end(&mut self, now: Instant) -> bool {
        let before = *self;
        self.prefix = self.prefix.filter(|it| it.1 > now);
        self.router = self.router.filter(|it| it.1 > now);
        *self != before
    }

    fn encode(&self) -> [u64; kept::WORDS] {
        let bits = |it: Option<(Ipv6Addr, Instant)>| it.map_or(0, |it| it.0.to_bits());
        let nanos = |it: Option<(Ipv6Addr, Instant)>| it.map_or(0, |it| it.1.as_nanos());
        let router = bits(self.router);
        [
            (bits(self.prefix) >> 64) as u64,
            nanos(self.prefix),
            (router >> 64) as u64,
            router as u64,
            nanos(self.router),
            self.heard.map_or(0, |it| it.as_nanos()),
        ]
    }

    fn decode(words: [u64; kept::WORDS]) -> Advertised {
        let [prefix, holds, high, low, routes, heard] = words;
        let address =
            |high: u64, low: u64| Ipv6Addr::from(u128::from(high) << 64 | u128::from(low));
        let any = |address: Ipv6Addr, until| {
            (!address.is_unspecified()).then(|| (address, Instant::from_nanos(until)))
        };
        Advertised {
            prefix: any(address(prefix, 0), holds),
            router: any(address(high, low), routes),
            heard: (heard != 0).then(|| Instant::from_nanos(heard)),
        }
    }
}

/// The routers of an interface's link.
#[derive(Debug)]
pub struct Routers {
    said: Advertised,
    /// Whether addresses follow from what they say, or routes alone.
    gives_addresses: bool,
    asked: u32,
    at: Instant,
}

impl Routers {
    /// Those of whom this was `kept`.
    pub fn new(kept: Advertised, gives_addresses: bool, now: Instant) -> Routers {
        Routers { said: kept, gives_addresses, asked: 0, at: now }
    }

    /// What they have said.
    pub fn said(&self) -> &Advertised {
        &self.said
    }

    /// Whether they are to be asked now. What is over is forgotten.
    pub fn asks(&mut self, now: Instant) -> bool {
        if self.said.end(now) {
            (self.asked, self.at) = (0, now);
        }
        let asks = self.asked < ASKS && self.at <= now;
        if asks {
            (self.asked, self.at) = (self.asked + 1, now + PATIENCE);
        }
        asks
    }

    /// When they are to be asked, or something is over.
    pub fn next_due(&self) -> Option<Instant> {
        let asks = (self.asked < ASKS).then_some(self.at);
        let ends = [self.said.prefix, self.said.router].into_iter().flatten().map(|it| it.1);
        asks.into_iter().chain(ends).min()
    }

    /// Takes what a router has said: for how long it is one, and the first bits of addresses.
    pub fn hear(
        &mut self,
        now: Instant,
        from: Ipv6Addr,
        lifetime: Duration,
        prefix: Option<&NdiscPrefixInformation>,
    ) {
        self.asked = ASKS;
        self.said.heard = Some(now);
        let known = self.said.router.is_some_and(|it| it.0 == from);
        if known || self.said.router.is_none() {
            self.said.router = (!lifetime.is_zero()).then(|| (from, now + lifetime));
        }
        if let Some(said) = prefix.filter(|it| self.gives_addresses && is_sound(it)) {
            self.hear_prefix(now, said);
        }
    }

    fn hear_prefix(&mut self, now: Instant, said: &NdiscPrefixInformation) {
        let valid = Duration::from_secs(said.valid_lifetime.secs());
        let bits = Ipv6Addr::from_bits(said.prefix.to_bits() >> LINK_BITS << LINK_BITS);
        let known = self.said.prefix.filter(|it| it.0 == bits);
        let left = known.map_or(Duration::ZERO, |it| it.1.since(now));
        let valid = match valid {
            it if it > AT_LEAST || it > left => it,
            _ if left <= AT_LEAST => left,
            _ => AT_LEAST,
        };
        // The first one counts as long as it holds.
        if !valid.is_zero() && (known.is_some() || self.said.prefix.is_none()) {
            self.said.prefix = Some((bits, now + valid));
        }
    }
}

/// Whether addresses can be made of it.
fn is_sound(said: &NdiscPrefixInformation) -> bool {
    let bits = said.prefix;
    said.flags.contains(NdiscPrefixInfoFlags::ADDRCONF)
        && said.prefix_len == LINK_BITS
        && said.preferred_lifetime <= said.valid_lifetime
        && !(is_of_link(&bits) || bits.is_multicast() || bits.to_bits() >> LINK_BITS == 0)
}
