//! A lease: an address, and for how long. It lies in memory that outlives whoever has taken it, so
//! the next incarnation has its address at once.
//!
//! The memory has two places, in turns: whoever ends in the midst of a store leaves the lease that
//! was there before.

use core::net::Ipv4Addr;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};

use nile_abi::Instant;

/// Words of a place: what a lease says, and a checksum.
const PLACE: usize = 7;

/// Bytes of the memory of a lease.
pub const LEASE_BYTES: usize = 2 * PLACE * 8;

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
        Lease::last(words).map(|it| it.1).filter(|it| it.until > now)
    }

    /// Keeps it, and no other. Memory that is too small keeps none.
    pub fn store(&self, words: &[AtomicU64]) {
        let former = Lease::last(words).map(|it| it.0);
        let place = former.map_or(0, |place| 1 - place);
        let said = self.encode();
        let Some((sum, rest)) = places(words).nth(place).and_then(|it| it.split_first()) else {
            return;
        };
        sum.store(0, Relaxed);
        rest.iter().zip(said).for_each(|(word, said)| word.store(said, Relaxed));
        sum.store(checksum(said), Release);
        if let Some(former) = former.and_then(|place| places(words).nth(place)) {
            former[0].store(0, Release);
        }
    }

    /// Has no lease be in memory.
    pub fn clear(words: &[AtomicU64]) {
        places(words).for_each(|it| it[0].store(0, Release));
    }

    /// The place of the lease that is there, or of the one that ends last, and that lease: there
    /// are two if an incarnation has ended before it forgot the former one.
    fn last(words: &[AtomicU64]) -> Option<(usize, Lease)> {
        let all = places(words).enumerate();
        all.filter_map(|(place, it)| Some((place, Lease::decode(it)?))).max_by_key(|it| it.1.until)
    }

    fn encode(&self) -> [u64; PLACE - 1] {
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

    fn decode(place: &[AtomicU64]) -> Option<Lease> {
        let mut words = [0; PLACE - 1];
        let (sum, said) = place.split_first()?;
        words.iter_mut().zip(said).for_each(|(word, said)| *word = said.load(Relaxed));
        if sum.load(Relaxed) != checksum(words) {
            return None;
        }
        let [first, second, prefix, renew, rebind, until] = words;
        let address = |bits: u64| Ipv4Addr::from_bits(bits as u32);
        let any = |bits: u64| Some(address(bits)).filter(|it| !it.is_unspecified());
        Some(Lease {
            address: address(first >> 32),
            prefix: prefix as u8,
            gateway: any(second >> 32),
            resolver: any(second),
            server: address(first),
            renew: Instant::from_nanos(renew),
            rebind: Instant::from_nanos(rebind),
            until: Instant::from_nanos(until),
        })
    }
}

fn places(words: &[AtomicU64]) -> impl Iterator<Item = &[AtomicU64]> {
    words.chunks_exact(PLACE).take(2)
}

/// FNV-1a over words; never that of memory that is zero.
fn checksum(words: [u64; PLACE - 1]) -> u64 {
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(23);
    words.into_iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;
    use std::vec::Vec;

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
        let (place, _) = Lease::last(&words).unwrap();
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
