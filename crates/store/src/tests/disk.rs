//! A disk whose writes are in a cache until it is flushed. When power fails, each of those may
//! have happened, in any order, wholly, not at all, or in some of its sectors.

use alloc::vec;
use alloc::vec::Vec;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;

use crate::Step;

/// What bytes are that were discarded.
pub const DISCARDED: u8 = 0xdd;

/// What cannot be torn.
const SECTOR: usize = 512;

#[derive(Clone)]
pub struct Disk {
    durable: Vec<u8>,
    cache: Vec<(usize, Vec<u8>)>,
    /// Steps until it fails; never, if there is no such number.
    pub fails_in: Option<usize>,
}

pub fn below(random: &mut Xoshiro256PlusPlus, bound: usize) -> usize {
    (random.next_u64() % bound.max(1) as u64) as usize
}

impl Disk {
    pub fn new(bytes: u64) -> Disk {
        Disk { durable: vec![0; bytes as usize], cache: Vec::new(), fails_in: None }
    }

    /// The content as it is now, cache included.
    pub fn read(&self, at: u64, bytes: usize) -> Vec<u8> {
        let at = at as usize;
        let mut read = self.durable[at..at + bytes].to_vec();
        for (from, data) in &self.cache {
            let (start, end) = ((*from).max(at), (from + data.len()).min(at + bytes));
            if start < end {
                read[start - at..end - at].copy_from_slice(&data[start - from..end - from]);
            }
        }
        read
    }

    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        let at = at as usize;
        assert!(at + bytes.len() <= self.durable.len(), "{at} is beyond the disk's end");
        self.cache.push((at, bytes.to_vec()));
    }

    /// Where what is in the cache was written.
    pub fn cached(&self) -> impl Iterator<Item = u64> {
        self.cache.iter().map(|(at, _)| *at as u64)
    }

    pub fn flush(&mut self) {
        for (at, bytes) in self.cache.drain(..) {
            self.durable[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// Does it, unless the disk fails.
    pub fn step(&mut self, step: &Step) -> bool {
        if let Some(left) = &mut self.fails_in {
            *left = left.saturating_sub(1);
            if *left == 0 {
                return false;
            }
        }
        match step {
            Step::Write { at, bytes } => {
                assert!((*at | bytes.len() as u64).is_multiple_of(crate::UNIT));
                self.write(*at, bytes);
            }
            Step::Flush => self.flush(),
            Step::Discard(range) => {
                assert!((range.at | range.bytes).is_multiple_of(crate::UNIT) && range.bytes > 0);
                self.write(range.at, &vec![DISCARDED; range.bytes as usize]);
            }
        }
        true
    }

    /// Changes one bit of what is durable.
    pub fn flip(&mut self, at: u64, bit: u8) {
        self.flush();
        self.durable[at as usize] ^= 1 << bit;
    }

    pub fn lose_power(&mut self, random: &mut Xoshiro256PlusPlus) {
        let mut cache = core::mem::take(&mut self.cache);
        while !cache.is_empty() {
            let (at, bytes) = cache.swap_remove(below(random, cache.len()));
            let fate = below(random, 3);
            for (sector, bytes) in bytes.chunks(SECTOR).enumerate() {
                if fate == 0 || fate == 1 && below(random, 2) == 0 {
                    let at = at + sector * SECTOR;
                    self.durable[at..at + bytes.len()].copy_from_slice(bytes);
                }
            }
        }
    }
}
