//! A lease: an address, and for how long. It lies in memory that outlives whoever has taken it, so
//! the next incarnation has its address at once.

use core::net::Ipv4Addr;
use core::sync::atomic::AtomicU64;

use nile_abi::Instant;

use crate::kept;

/// Bytes of the memory of a lease.
pub const LEASE_BYTES: usize = kept::BYTES;

/// What a server has lent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The address.
    pub address: Ipv4Addr,
    /// Bits that the addresses of the link have in common.
    pub prefix: u8,
    /// Who passes on what is for other links.
    pub gateway: Option<Ipv4Addr>,
    /// Who is asked for the addresses of names.
    pub resolver: Option<Ipv4Addr>,
    /// Who has lent it.
    pub server: Ipv4Addr,
    /// When the server is asked to prolong it, and when any server is.
    pub renew: Instant,
    /// See above.
    pub rebind: Instant,
    /// When it is over.
    pub until: Instant,
}

impl Lease {
    /// The lease that is in memory, unless it is over.
    pub fn load(words: &[AtomicU64], now: Instant) -> Option<Lease> {
        kept::load(words).map(Lease::decode).filter(|it| it.until > now)
    }

    /// Keeps it, and no other. Memory that is too small keeps none.
    pub fn store(&self, words: &[AtomicU64]) {
        kept::store(words, self.encode());
    }

    /// Has no lease be in memory.
    pub fn clear(words: &[AtomicU64]) {
        kept::clear(words);
    }

    fn encode(&self) -> [u64; kept::WORDS] {
        let pair = |a: Option<Ipv4Addr>, b: Option<Ipv4Addr>| {
            let bits = |it: Option<Ipv4Addr>| u64::from(it.map_or(0, |it| it.to_bits()));
            bits(a) << 32 | bits(b)
        };
        [
            pair(Some(self.address), Some(self.server)),
            pair(self.gateway, self.resolver),
            self.prefix.into(),
            self.renew.as_nanos(),
            self.rebind.as_nanos(),
            self.until.as_nanos(),
        ]
    }

    fn decode(words: [u64; kept::WORDS]) -> Lease {
        let [first, second, prefix, renew, rebind, until] = words;
        let address = |bits: u64| Ipv4Addr::from_bits(bits as u32);
        let any = |bits: u64| Some(address(bits)).filter(|it| !it.is_unspecified());
        Lease {
            address: address(first >> 32),
            prefix: prefix as u8,
            gateway: any(second >> 32),
            resolver: any(second),
            server: address(first),
            renew: Instant::from_nanos(renew),
            rebind: Instant::from_nanos(rebind),
            until: Instant::from_nanos(until),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering::Relaxed;
    use core::time::Duration;
    use std::vec::Vec;

    /// Words of one of the two places.
    const PLACE: usize = LEASE_BYTES / 16;

    fn lease(last: u8, seconds: u64) -> Lease {
        let at = |seconds| Instant::START + Duration::from_secs(seconds);
        Lease {
            address: Ipv4Addr::new(10, 0, 0, last),
            prefix: 24,
            gateway: None,
            resolver: Some(Ipv4Addr::new(10, 0, 0, 3)),
            server: Ipv4Addr::new(10, 0, 0, 2),
            renew: at(seconds / 2),
            rebind: at(seconds / 8 * 7),
            until: at(seconds),
        }
    }

    #[test]
    fn the_last_lease_is_kept_or_the_one_before() {
        let words: Vec<AtomicU64> = (0..LEASE_BYTES / 8).map(|_| AtomicU64::new(0)).collect();
        let now = Instant::START + Duration::from_secs(50);
        assert_eq!(Lease::load(&words, now), None);
        for seconds in [100, 200, 300] {
            lease(5, seconds).store(&words);
            assert_eq!(Lease::load(&words, now), Some(lease(5, seconds)));
        }
        lease(6, 90).store(&words);
        assert_eq!(Lease::load(&words, now), Some(lease(6, 90)), "though it ends sooner");
        let late = Instant::START + Duration::from_secs(90);
        assert_eq!(Lease::load(&words, late), None, "it is over");
        let has = |it: &&[AtomicU64]| it[0].load(Relaxed) != 0;
        let place = words.chunks(PLACE).position(|it| has(&it)).unwrap();
        for at in 0..PLACE {
            // The next one is half written when the package ends.
            words[(1 - place) * PLACE + at].store(u64::MAX, Relaxed);
            assert_eq!(Lease::load(&words, now), Some(lease(6, 90)), "{at}");
        }
        for at in 0..PLACE {
            let word = &words[place * PLACE + at];
            let was = word.fetch_xor(1 << (at * 3), Relaxed);
            assert_eq!(Lease::load(&words, now), None, "{at}");
            word.store(was, Relaxed);
        }
        Lease::clear(&words);
        assert_eq!(Lease::load(&words, now), None);
        lease(5, 100).store(&words[..PLACE - 1]);
        assert_eq!(Lease::load(&words[..PLACE - 1], now), None);
    }
}
