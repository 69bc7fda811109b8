//! smoltcp's device over two queues: whoever has it puts in what has come, and takes out what is to
//! go.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant as EngineTime;

/// Frames or packets on both sides of a smoltcp interface.
#[derive(Debug)]
pub struct Queues {
    /// What has come, the first first.
    pub came: VecDeque<Vec<u8>>,
    /// What is to go.
    pub goes: VecDeque<Vec<u8>>,
    /// How many may wait to go; with more, nothing is taken of what has come.
    most: usize,
    can: DeviceCapabilities,
}

impl Queues {
    /// For Ethernet frames of at most `longest` bytes, with the header; `most` of them may wait to
    /// go.
    pub fn of_frames(longest: usize, most: usize) -> Queues {
        Queues::new(Medium::Ethernet, longest, most)
    }

    /// For IP packets of at most `longest` bytes, whose checksums are somebody else's affair.
    pub(crate) fn of_packets(longest: usize) -> Queues {
        let mut queues = Queues::new(Medium::Ip, longest, usize::MAX);
        queues.can.checksum = ChecksumCapabilities::ignored();
        queues
    }

    fn new(medium: Medium, longest: usize, most: usize) -> Queues {
        let mut can = DeviceCapabilities::default();
        can.medium = medium;
        can.max_transmission_unit = longest;
        Queues { came: VecDeque::new(), goes: VecDeque::new(), most, can }
    }
}

/// One that has come.
#[derive(Debug)]
pub struct Came(Vec<u8>);

/// Room for one that is to go.
#[derive(Debug)]
pub struct Room<'a>(&'a mut VecDeque<Vec<u8>>);

impl RxToken for Came {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(&self.0)
    }
}

impl TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        let mut bytes = vec![0; length];
        let result = fill(&mut bytes);
        self.0.push_back(bytes);
        result
    }
}

impl Device for Queues {
    type RxToken<'a> = Came;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _: EngineTime) -> Option<(Came, Room<'_>)> {
        if self.goes.len() >= self.most {
            return None;
        }
        Some((Came(self.came.pop_front()?), Room(&mut self.goes)))
    }

    fn transmit(&mut self, _: EngineTime) -> Option<Room<'_>> {
        (self.goes.len() < self.most).then_some(Room(&mut self.goes))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.can.clone()
    }
}
