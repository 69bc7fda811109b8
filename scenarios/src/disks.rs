//! Disks: requests of every size and alignment, many in flight, come to the right place and back
//! whole; flushes end; what no disk can do is refused; a sector that cannot be read says so. On a
//! node with a pool the same goes for the disk service.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use nile_abi::PageSize;
use nile_device::{DrivenDisk, Transfer};
use nile_kernel::{Core, Frame};
use nile_platform::Machine;
use nile_platform::disk::{DiskError, MAX_PIECES};

use crate::arguments::Arguments;
use crate::conduct::{conduct, conducts};
use crate::disk_calls;
use crate::talk::Talk;

const BEGIN: u32 = 9;

/// Requests that are in flight at once: more than devices have room for.
const MANY: u64 = 100;

/// What does not hold.
type Checked = Result<(), String>;

/// What is asked for.
#[derive(Clone, Copy)]
struct Wish {
    /// A byte whose sector cannot be read, if there is one.
    bad: Option<u64>,
    /// Whether to look for what an earlier node has left, and not to write anything.
    look: bool,
}

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let bad = Some(arguments.number("bad", u64::MAX)).filter(|bad| *bad != u64::MAX);
    let wish = Wish { bad, look: arguments.number("look", 0) != 0 };
    nile_node::deploy(core);
    let driver = core.clone();
    core.spawn(async move {
        let Ok(talk) = Talk::answer(&driver, BEGIN).await else { return };
        while talk.listen().await.is_ok() {
            let mut wrong = 0;
            for disk in driver.disks() {
                if let Err(error) = use_disk(&driver, disk, wish).await {
                    let name = &disk.description().name;
                    driver.machine().log(format_args!("{name}: {error}"));
                    wrong += 1;
                }
            }
            let disks = driver.disks().len() as u64;
            if talk.tell(wrong << 32 | disks).await.is_err() {
                break;
            }
        }
    });
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "disks", move |findings| async move {
            let mut disks = 0;
            for peer in core.peers() {
                let talk = Talk::start(&core, peer, BEGIN).await;
                let Some(talk) = findings.expect(talk, "no talk with a core") else { continue };
                findings.expect(talk.tell(0).await, "a core cannot be told to begin");
                let said = findings.expect(talk.listen().await, "a core did not end");
                let said = said.unwrap_or(u64::MAX);
                findings.check(said >> 32 == 0, format_args!("{peer}: its log says what is wrong"));
                disks += said & 0xffff_ffff;
            }
            findings.check(disks > 0, format_args!("the node has no disk"));
            findings.figure("disks", disks);
            if wish.bad.is_none() {
                disk_calls::check(&core, &findings).await;
            }
        });
    }
}

/// The word at this byte of a disk, as `salt` has it.
fn word(at: u64, salt: u64) -> u64 {
    (at / 8 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xd1b5_4a32_d192_ed03)
}

/// A disk and memory of its core's.
struct Bench<M: Machine> {
    core: Core<M>,
    disk: Rc<DrivenDisk>,
    sector: u64,
    bytes: u64,
}

async fn use_disk<M: Machine>(core: &Core<M>, disk: &Rc<DrivenDisk>, wish: Wish) -> Checked {
    let description = disk.description();
    let (sector, bytes) = (u64::from(description.sector_bytes), description.bytes);
    if !bytes.is_multiple_of(sector) || bytes < 8 << 20 {
        return Err(format!("{bytes} bytes in sectors of {sector}; this wants 8 MiB at least"));
    }
    let bench = Bench { core: core.clone(), disk: disk.clone(), sector, bytes };
    if let Some(bad) = wish.bad {
        return bench.bad_sector(bad).await;
    }
    if wish.look {
        return bench.expect(0, 1 << 20, 77).await;
    }
    bench.sizes().await?;
    bench.many().await?;
    bench.refusals().await?;
    bench.forgotten().await?;
    bench.write(0, 1 << 20, 77, 1).await?;
    let flush = bench.disk.flush().await.0;
    flush.map(drop).map_err(|error| format!("flush: {error}"))
}

impl<M: Machine> Bench<M> {
    async fn frame(&self) -> Result<Frame<M>, String> {
        let frame = self.core.allocate(PageSize::Large).await;
        frame.map_err(|status| format!("no memory: {status}"))
    }

    /// Begins to write `bytes` bytes from `at` on, in so many pieces.
    fn begin(&self, frame: Frame<M>, at: u64, bytes: u64, salt: u64, pieces: u64) -> Moved<M> {
        for (place, cell) in frame.words()[..(bytes / 8) as usize].iter().enumerate() {
            cell.store(word(at + place as u64 * 8, salt), Relaxed);
        }
        let pieces = cut(&frame, bytes, pieces);
        self.disk.write(at, pieces, frame)
    }

    async fn write(&self, at: u64, bytes: u64, salt: u64, pieces: u64) -> Checked {
        let (result, frame) = self.begin(self.frame().await?, at, bytes, salt, pieces).await;
        give_back(frame).await?;
        result.map(drop).map_err(|error| format!("write of {bytes} bytes at {at}: {error}"))
    }

    /// Reads and compares.
    async fn expect(&self, at: u64, bytes: u64, salt: u64) -> Checked {
        let frame = self.frame().await?;
        let pieces = cut(&frame, bytes, 3);
        let (result, frame) = self.disk.read(at, pieces, frame).await;
        result.map_err(|error| format!("read of {bytes} bytes at {at}: {error}"))?;
        let compared = compare(&frame, at, bytes, salt);
        give_back(frame).await?;
        compared
    }

    /// Every size at every alignment, and nothing beside it.
    async fn sizes(&self) -> Checked {
        let sector = self.sector;
        self.write(0, 2 << 20, 1, 1).await?;
        for (salt, sectors) in (2..).zip([1, 2, 3, 7, 8, 9, 63, 64, 65, 255, 500]) {
            let bytes = sectors * sector;
            for first in [1, 2, 7, 8, 100] {
                let at = first * sector;
                self.write(at, bytes, salt, salt).await?;
                self.expect(at, bytes, salt).await?;
                self.expect(0, at, 1).await?;
                self.expect(at + bytes, sector, 1).await?;
                self.write(at, bytes, 1, 2).await?;
            }
        }
        self.expect(0, 2 << 20, 1).await?;
        self.write(self.bytes - sector, sector, 3, 1).await?;
        self.expect(self.bytes - sector, sector, 3).await
    }

    /// Many requests at once, each to a place of its own.
    async fn many(&self) -> Checked {
        let bytes = 3 * self.sector;
        let place = |number: u64| (number * 37 % MANY) * bytes;
        let small = || self.core.allocate_run(bytes);
        let mut writes = Vec::new();
        for number in 0..MANY {
            let frame = small().await.map_err(|status| format!("no memory: {status}"))?;
            writes.push(self.begin(frame, place(number), bytes, 5, 2));
        }
        for write in writes {
            let (result, frame) = write.await;
            result.map_err(|error| format!("one of many writes: {error}"))?;
            give_back(frame).await?;
        }
        let mut reads = Vec::new();
        for number in 0..MANY {
            let frame = small().await.map_err(|status| format!("no memory: {status}"))?;
            let pieces = cut(&frame, bytes, 2);
            reads.push((place(number), self.disk.read(place(number), pieces, frame)));
        }
        for (at, read) in reads {
            let (result, frame) = read.await;
            result.map_err(|error| format!("one of many reads: {error}"))?;
            compare(&frame, at, bytes, 5)?;
            give_back(frame).await?;
        }
        Ok(())
    }

    async fn refusals(&self) -> Checked {
        let sector = self.sector;
        let end = self.bytes;
        for (at, bytes, expected) in [
            (end, sector, DiskError::OutOfRange { end: end + sector, disk: end }),
            (end - sector, 2 * sector, DiskError::OutOfRange { end: end + sector, disk: end }),
            (64, sector, DiskError::Misaligned(sector as u32)),
            (0, sector + 64, DiskError::Misaligned(sector as u32)),
            (0, 0, DiskError::Unfit),
        ] {
            let frame = self.frame().await?;
            let pieces = frame.piece(0, bytes).filter(|_| bytes > 0).into_iter().collect();
            let (result, frame) = self.disk.read(at, pieces, frame).await;
            give_back(frame).await?;
            if result != Err(expected) {
                return Err(format!("a read of {bytes} bytes at {at} ends as {result:?}"));
            }
        }
        Ok(())
    }

    /// Requests that nobody waits for do their work, and give their memory back.
    async fn forgotten(&self) -> Checked {
        let place = 4 << 20;
        for salt in 20..24 {
            let frame = self.frame().await?;
            let mut write = core::pin::pin!(self.begin(frame, place, 64 * self.sector, salt, 1));
            // Once is enough for it to be submitted.
            let _ = core::future::poll_fn(|context| {
                core::task::Poll::Ready(write.as_mut().poll(context).is_ready())
            })
            .await;
        }
        // They may still be under way, and end in any order.
        self.write(place + 64 * self.sector, self.sector, 5, 1).await?;
        self.expect(place + 64 * self.sector, self.sector, 5).await
    }

    async fn bad_sector(&self, bad: u64) -> Checked {
        let at = bad - bad % self.sector;
        let frame = self.frame().await?;
        let pieces = cut(&frame, self.sector, 1);
        let (result, frame) = self.disk.read(at, pieces, frame).await;
        give_back(frame).await?;
        let expected = DiskError::Media { at, end: at + self.sector };
        match result == Err(expected) {
            true => self.write(at + self.sector, self.sector, 1, 1).await,
            false => Err(format!("the bad sector at {at} is read: {result:?}")),
        }
    }
}

type Moved<M> = Transfer<Frame<M>>;

/// The first `bytes` bytes of a frame in so many pieces, the last one the longest.
fn cut<M: Machine>(frame: &Frame<M>, bytes: u64, pieces: u64) -> Vec<nile_platform::disk::Piece> {
    let pieces = pieces.min(MAX_PIECES as u64);
    let each = bytes / pieces / 64 * 64;
    let starts = (0..pieces).map(|piece| piece * each);
    let ends = (1..pieces).map(|piece| piece * each).chain([bytes]);
    let all = starts.zip(ends).filter(|(start, end)| start != end);
    all.filter_map(|(start, end)| frame.piece(start, end - start)).collect()
}

fn compare<M: Machine>(frame: &Frame<M>, at: u64, bytes: u64, salt: u64) -> Checked {
    let words = &frame.words()[..(bytes / 8) as usize];
    let is_wrong = |(place, cell): (usize, &core::sync::atomic::AtomicU64)| {
        cell.load(Relaxed) != word(at + place as u64 * 8, salt)
    };
    match words.iter().enumerate().position(is_wrong) {
        None => Ok(()),
        Some(first) => Err(format!("{bytes} bytes at {at} are wrong from {} on", first * 8)),
    }
}

async fn give_back<M: Machine>(frame: Frame<M>) -> Checked {
    frame.release().await.map_err(|status| format!("memory is not taken back: {status}"))
}
