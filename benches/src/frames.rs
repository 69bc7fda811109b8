//! Handing frames out and taking them back, of each size, in a node whose memory is largely in
//! use: the collections beside a list of frames that is searched from its beginning.

use std::sync::atomic::AtomicU64;

use nile_abi::{CoreId, PageSize, PhysAddr};
use nile_memory::PhysicalMemory;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::rounds::contest;
use crate::scan::Scan;

/// The node's memory.
const BYTES: u64 = 4 << 30;

/// How many pieces of 4 KiB of it are in use: 70%.
const USED: u64 = BYTES / PageSize::Small.bytes() * 70 / 100;

/// Requests of a round.
const REQUESTS: u32 = 64;

/// See the module.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let sizes = [
        ("frames-4k", PageSize::Small),
        ("frames-2m", PageSize::Large),
        ("frames-1g", PageSize::Huge),
    ];
    Ok(sizes.map(|(name, size)| measure(mode, name, size)).into())
}

/// Hands out one piece and takes it back.
trait Frames {
    fn take(&mut self, size: PageSize) -> PhysAddr;
    fn give(&mut self, at: PhysAddr, size: PageSize);
}

fn measure(mode: Mode, name: &str, size: PageSize) -> Figure {
    let rounds = if mode == Mode::Control { 20 } else { 200 };
    // The control searches like its peer.
    let mut ours: Box<dyn Frames> = match mode {
        Mode::Real => Box::new(Collections::new()),
        Mode::Control => Box::new(Scan::with_taken(BYTES, USED)),
    };
    let mut peer: Box<dyn Frames> = Box::new(Scan::with_taken(BYTES, USED));
    let times = contest(
        rounds,
        REQUESTS,
        &mut [&mut || serve(&mut *ours, size), &mut || serve(&mut *peer, size)],
    );
    eprintln!("  {name}: collections {:.1} ns, search {:.1} ns", times.median(0), times.median(1));
    let peer = Peer { name: "linear search".into(), value: times.median(1) };
    let (ours, ratio) = (times.median(0), times.ratio(0, 1));
    Figure::with_ratio(name, "ns", ours, peer, ratio, Target::AtMost(0.5))
}

/// Takes pieces and gives them back, one at a time: there may be no second one of the largest.
fn serve(frames: &mut dyn Frames, size: PageSize) {
    for _ in 0..REQUESTS {
        let at = frames.take(size);
        frames.give(at, size);
    }
}

/// The physical memory service's, most of which is in use.
struct Collections(PhysicalMemory<Vec<AtomicU64>>);

impl Collections {
    fn new() -> Collections {
        let mut memory = PhysicalMemory::new();
        let words = PhysicalMemory::<Vec<AtomicU64>>::words_for(PhysAddr(0), BYTES);
        let words = (0..words).map(|_| AtomicU64::new(0)).collect();
        memory.add_region(PhysAddr(0), BYTES, words).expect("the node has no other memory");
        let mut collections = Collections(memory);
        for _ in 0..USED {
            collections.take(PageSize::Small);
        }
        collections
    }
}

impl Frames for Collections {
    fn take(&mut self, size: PageSize) -> PhysAddr {
        self.0.alloc(size, CoreId(1)).expect("enough is free")
    }

    fn give(&mut self, at: PhysAddr, size: PageSize) {
        self.0.free(at, size).expect("it was taken a moment ago");
    }
}

impl Frames for Scan {
    fn take(&mut self, size: PageSize) -> PhysAddr {
        self.alloc(size).expect("enough is free")
    }

    fn give(&mut self, at: PhysAddr, size: PageSize) {
        self.free(at, size);
    }
}
