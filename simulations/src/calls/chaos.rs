//! What is done to the network and to the nodes: faults, partitions, restarts, and an attacker who
//! sees every frame and sends what he likes.

use std::time::Duration;

use nile_abi::Instant;
use nile_switch::{Link, Probability, Rate};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use crate::draw::below;

/// Frames that the attacker keeps.
const KEPT: usize = 512;

/// Cables as bad as chance wants them; one run in eight has perfect ones.
pub fn link(random: &mut ChaCha8Rng) -> Link {
    if below(random, 8) == 0 {
        return Link::PERFECT;
    }
    let mut parts = |most: u64| Probability::per_million(below(random, most) as u32);
    let (loss, duplicate) = (parts(50_000), parts(50_000));
    let (reorder, corrupt) = (parts(100_000), parts(20_000));
    let delay = Duration::from_nanos(1000 + below(random, 500_000));
    let rate = if below(random, 4) == 0 { Rate::bits_per_second(100_000_000) } else { None };
    Link { delay, rate, queue: 64 << 10, loss, duplicate, reorder, corrupt }
}

/// Something that happens to the cluster.
pub enum Blow {
    /// No frame passes between the nodes below this place and those from it on, for a while.
    Partition(usize, Duration),
    /// A node begins anew.
    Restart(usize),
    /// The attacker sends frames.
    Attack,
}

/// What happens next, and how long after that something else does.
pub fn blow(random: &mut ChaCha8Rng, nodes: usize, is_attacked: bool) -> (Blow, Duration) {
    let pause = Duration::from_micros(below(random, 40_000));
    let nodes = nodes as u64;
    let blow = match below(random, 10) {
        0 => {
            let span = Duration::from_millis(50 + below(random, 300));
            Blow::Partition(1 + below(random, nodes - 1) as usize, span)
        }
        1 => Blow::Restart(below(random, nodes) as usize),
        _ if is_attacked => Blow::Attack,
        _ => Blow::Restart(below(random, nodes) as usize),
    };
    // Attacks are frequent, everything else is not.
    let pause = if matches!(blow, Blow::Attack) { pause / 20 } else { pause };
    (blow, pause)
}

/// Sees every frame.
#[derive(Default)]
pub struct Attacker {
    kept: Vec<Vec<u8>>,
    next: usize,
}

impl Attacker {
    /// Overhears a frame.
    pub fn overhear(&mut self, frame: &[u8]) {
        if self.kept.len() < KEPT {
            self.kept.push(frame.to_vec());
        } else {
            self.kept[self.next].clear();
            self.kept[self.next].extend_from_slice(frame);
            // Odd steps keep some of the old ones for a long time.
            self.next = (self.next + 7) % KEPT;
        }
    }

    /// What he sends now.
    pub fn frame(&self, random: &mut ChaCha8Rng) -> Vec<u8> {
        if self.kept.is_empty() || below(random, 8) == 0 {
            return noise(random);
        }
        let mut frame = self.kept[below(random, self.kept.len() as u64) as usize].clone();
        match below(random, 4) {
            // As it was.
            0 => {}
            // As it was, for everybody.
            1 => frame[..6].fill(0xff),
            // With one bit changed, or cut short, and a CRC that fits.
            2 => {
                let at = 6 + below(random, frame.len() as u64 - 6) as usize;
                frame[at] ^= 1 << below(random, 8);
                mend(&mut frame);
            }
            _ => {
                frame.truncate(14 + below(random, frame.len() as u64 - 14) as usize);
                mend(&mut frame);
            }
        }
        frame
    }
}

fn noise(random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut frame = vec![0; below(random, 200) as usize];
    random.fill_bytes(&mut frame);
    let header = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 99, 0, 0x88, 0xb5, 1];
    [&header[..], &frame].concat()
}

/// Corrects the CRC of a sealed frame.
fn mend(frame: &mut [u8]) {
    let end = frame.len().saturating_sub(nile_ipioe::wire::TAG_BYTES);
    if end >= 38 {
        nile_ipioe::wire::set_crc(&mut frame[..end], crc32c::crc32c_append);
    }
}

/// When blows fall.
pub struct Schedule {
    pub next: Instant,
    /// When the partition ends, if there is one.
    pub heal: Option<Instant>,
    /// From when on the network is left alone.
    pub end: Instant,
}
