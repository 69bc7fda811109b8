//! The frames of an attack: random, cut short, too long, replayed, forged with and without a right
//! check sum, and sealed with another cluster's key.

use nile_abi::{Generation, Instant, MacAddress, NodeId};
use nile_ipioe::checksum::portable;
use nile_ipioe::{BootNonce, ClusterKey, Endpoint, Settings};

/// Frames that are ready to be sent; some of them are made anew for every batch.
const READY: usize = 2048;

/// How many of a batch are new.
const NEW: usize = 8;

/// Where the header's check sum stands in a frame, and where the seal begins before its end.
const CHECK_SUM: usize = 14 + 12;
const TAG: usize = 16;

/// A source of bad frames.
pub struct Frames {
    choices: Choices,
    recorded: Vec<Vec<u8>>,
    ready: Vec<Vec<u8>>,
    next: usize,
    stranger: Stranger,
}

impl Frames {
    /// Bad frames made from what was recorded.
    pub fn new(recorded: &[Vec<u8>]) -> Frames {
        assert!(!recorded.is_empty(), "nothing was recorded");
        let mut frames = Frames {
            choices: Choices(0x5eed),
            recorded: recorded.to_vec(),
            ready: Vec::new(),
            next: 0,
            stranger: Stranger::new(),
        };
        for _ in 0..READY {
            let frame = frames.make();
            frames.ready.push(frame);
        }
        frames
    }

    /// The next frames, at most `count`.
    pub fn next(&mut self, count: usize) -> &[Vec<u8>] {
        if self.next >= READY {
            self.next = 0;
        }
        let end = READY.min(self.next + count);
        for at in self.next..end.min(self.next + NEW) {
            self.ready[at] = self.make();
        }
        let begin = std::mem::replace(&mut self.next, end);
        &self.ready[begin..end]
    }

    fn make(&mut self) -> Vec<u8> {
        let choice = self.choices.next();
        let known = &self.recorded[choice as usize % self.recorded.len()];
        let at = 14 + self.choices.next() as usize % (known.len() - 14);
        let mut frame = known.clone();
        match choice >> 32 & 7 {
            // Replayed.
            0 => {}
            // Damaged.
            1 => frame[at] ^= 1 << (choice >> 40 & 7),
            // Forged: other data, or another seal, and a check sum that is right.
            2 | 3 => {
                let place = if choice >> 48 & 1 == 0 { at } else { frame.len() - 1 };
                frame[place] ^= 1 << (choice >> 40 & 7);
                sign(&mut frame);
            }
            // Cut short.
            4 => frame.truncate(at),
            // Too long for what it says, or for any frame of this network.
            5 => frame.resize(1514 + (choice >> 40 & 1) as usize, 0xa5),
            6 => frame = self.stranger.frame(),
            _ => {
                let length = 14 + choice as usize % 1500;
                frame = (0..length).map(|_| self.choices.next() as u8).collect();
                frame[..6].copy_from_slice(&[2, 0, 0, 0, 1 + (choice & 1) as u8, 0]);
                frame[6] &= !1;
                frame[12..14].copy_from_slice(&(0x88b5 + (choice >> 1 & 1) as u16).to_be_bytes());
            }
        }
        frame
    }
}

/// Makes the check sum of a frame right again.
fn sign(frame: &mut [u8]) {
    frame[CHECK_SUM..CHECK_SUM + 4].fill(0);
    let sealed = frame.len() - TAG;
    let sum = portable(0, &frame[14..sealed]).to_be_bytes();
    frame[CHECK_SUM..CHECK_SUM + 4].copy_from_slice(&sum);
}

/// A node with another cluster's key.
struct Stranger(Endpoint);

impl Stranger {
    fn new() -> Stranger {
        let node = NodeId(77);
        let address = MacAddress::local(node, 0);
        let nonce = BootNonce([7; 16]);
        let mut settings = Settings::new(node, Generation(1), address, nonce);
        settings.key = Some(ClusterKey([7; 32]));
        Stranger(Endpoint::new(settings))
    }

    fn frame(&mut self) -> Vec<u8> {
        self.0.broadcast(true, vec![7; 100]).unwrap();
        let mut frame = vec![0; 1514];
        let length = self.0.transmit(Instant::START, &mut frame).expect("there is a broadcast");
        frame.truncate(length);
        frame
    }
}

/// A generator of choices; the attack need not be repeated.
struct Choices(u64);

impl Choices {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
