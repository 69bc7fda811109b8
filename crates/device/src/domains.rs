//! Domains at the machine's edge: what a supervisor may do to its machine, and what it shares with
//! each domain (RainForest 4.2, 5.2 and 5.3). Who has what, `nile_domain` decides.
//!
//! Terms: a *hardware core* is what the machine can give, numbered from 0; it is *parked* while no
//! domain runs on it. A domain's *seat* is memory that it shares with its supervisor:
//!
//! | part   | bytes        | written by         | says                                      |
//! | ------ | ------------ | ------------------ | ----------------------------------------- |
//! | status | a page       | the domain         | [`SeatPhase`], last words                 |
//! | down   | half a page  | the supervisor     | messages to the domain: a ring, knocks    |
//! | up     | half a page  | the domain         | messages to the supervisor: a ring        |
//! | loop   | 49 pages     | both network cores | frames both ways: a [`FrameLoop`]         |

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use nile_abi::{EndpointId, Generation, MAX_CORES, PhysAddr, Status, VirtAddr};
use nile_ring::channel::region_len;
use nile_ring::{BadSize, Endpoint, Message, ReceiveError, Receiver, Region, Sender};

use crate::Grant;

pub use crate::bridge::Bridge;
pub use crate::rffuse::{
    DISK_LINK_BYTES, DiskLink, LinkedDisk, PART_STATE_BYTES, PartState, Renewal,
};
pub use crate::rfloop::{self, FrameLoop, LOOP_BYTES, LoopInterface};
pub use crate::shared_disk::{Parts, SharedDisk};
pub use crate::toll::{LedgerWords, TOLL_BYTES, Toll};

/// Bytes of a seat, whole pages.
pub const SEAT_BYTES: usize = LOOP_OFFSET + LOOP_BYTES;
/// Where the loop begins in a seat, which the network cores alone have besides.
pub const LOOP_OFFSET: usize = STATUS_BYTES + 2 * RING_BYTES;
const STATUS_BYTES: usize = 4096;
const RING_BYTES: usize = 2048;
/// Messages that a ring of a seat holds.
pub const SEAT_CELLS: usize = 16;
const _: () = assert!(region_len(SEAT_CELLS) <= RING_BYTES - size_of::<u64>());
/// How often the supervisor has knocked, behind its ring.
const KNOCKS: usize = (STATUS_BYTES + RING_BYTES) / 8 - 1;

const PHASE: usize = 0;
const WORDS_BYTES: usize = 1;
/// How a core is to be let in: its number on the machine plus one, and the other words before.
const ENTRY: usize = 2;
/// Where the last words are, and how long they may be.
const WORDS: usize = 8;
const MOST_WORDS: usize = (HARDWARE - WORDS) * 8;
/// Where it stands on which of the machine's cores each core of the domain runs, plus one.
const HARDWARE: usize = STATUS_BYTES / 8 - MAX_CORES / CORES_OF_WORD;
const CORES_OF_WORD: usize = 4;

/// How far a domain has come, as the machine and the domain itself say it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SeatPhase {
    /// Nothing is known of one.
    Empty = 0,
    /// The first of its cores puts it together.
    Building = 1,
    /// It could not be put together; its last words say why. That core is parked.
    NotBuilt = 2,
    /// Its cores have begun.
    Started = 3,
    /// It has ended well; its managing core is parked.
    Finished = 4,
    /// It has ended otherwise; its last words may say why.
    Failed = 5,
}

impl SeatPhase {
    const ALL: [SeatPhase; 6] = [
        SeatPhase::Empty,
        SeatPhase::Building,
        SeatPhase::NotBuilt,
        SeatPhase::Started,
        SeatPhase::Finished,
        SeatPhase::Failed,
    ];

    /// Whether no core of the domain will do anything for it any more.
    pub fn is_over(self) -> bool {
        matches!(self, SeatPhase::NotBuilt | SeatPhase::Finished | SeatPhase::Failed)
    }
}

/// How a core is to enter a domain that runs: the machine's core `hardware` as the domain's `core`,
/// in the space under `root`, on the stack that ends at `stack_top`, with the node at `node`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// By its number among the machine's cores.
    pub hardware: u16,
    /// By its number in the domain.
    pub core: u16,
    /// The space.
    pub root: PhysAddr,
    /// The stack.
    pub stack_top: VirtAddr,
    /// The node.
    pub node: VirtAddr,
}

/// What a domain and its supervisor share. Nothing that the other side writes is trusted.
#[derive(Clone, Debug)]
pub struct Seat(Region);

impl Seat {
    /// The seat in a region of [`SEAT_BYTES`]; `None` if it is smaller.
    pub fn new(region: Region) -> Option<Seat> {
        (region.len() >= SEAT_BYTES).then_some(Seat(region))
    }

    /// Makes it as new: no domain has it. The loop keeps what it has of the supervisor.
    pub fn clear(&self) {
        let own = &self.0.words()[..LOOP_OFFSET / size_of::<u64>()];
        own.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        self.frames().erase();
    }

    /// The loop of frames.
    pub fn frames(&self) -> FrameLoop {
        let region = self.0.slice(LOOP_OFFSET, LOOP_BYTES);
        region.and_then(FrameLoop::new).expect("a seat has room for a loop")
    }

    /// How far the domain has come. What no domain says is [`SeatPhase::Failed`].
    pub fn phase(&self) -> SeatPhase {
        let word = self.0.words()[PHASE].load(Ordering::Acquire) as usize;
        SeatPhase::ALL.get(word).copied().unwrap_or(SeatPhase::Failed)
    }

    /// Says it.
    pub fn set_phase(&self, phase: SeatPhase) {
        self.0.words()[PHASE].store(phase as u64, Ordering::Release);
    }

    /// On which of the machine's cores a core of the domain runs.
    pub fn hardware(&self, core: u16) -> Option<u16> {
        let (word, shift) = self.hardware_word(core)?;
        ((word.load(Ordering::Relaxed) >> shift) as u16).checked_sub(1)
    }

    /// Says it; by whoever manages the domain.
    pub fn set_hardware(&self, core: u16, hardware: Option<u16>) {
        let Some((word, shift)) = self.hardware_word(core) else { return };
        let others = word.load(Ordering::Relaxed) & !(0xffff << shift);
        let value = hardware.map_or(0, |it| u64::from(it) + 1);
        word.store(others | value << shift, Ordering::Relaxed);
    }

    fn hardware_word(&self, core: u16) -> Option<(&AtomicU64, usize)> {
        let core = usize::from(core);
        let shift = core % CORES_OF_WORD * 16;
        (core < MAX_CORES).then(|| (&self.0.words()[HARDWARE + core / CORES_OF_WORD], shift))
    }

    /// Asks the supervisor to let a parked core in, that it has offered.
    pub fn ask_in(&self, entry: &Entry) {
        let [asked, core, root, stack_top, node] = self.entry_words();
        core.store(entry.core.into(), Ordering::Relaxed);
        root.store(entry.root.0, Ordering::Relaxed);
        stack_top.store(entry.stack_top.0, Ordering::Relaxed);
        node.store(entry.node.0, Ordering::Relaxed);
        asked.store(u64::from(entry.hardware) + 1, Ordering::Release);
    }

    /// What the domain asks for, if it asks.
    pub fn asked_in(&self) -> Option<Entry> {
        let [asked, core, root, stack_top, node] = self.entry_words();
        let hardware = asked.load(Ordering::Acquire).checked_sub(1)? as u16;
        Some(Entry {
            hardware,
            core: core.load(Ordering::Relaxed) as u16,
            root: PhysAddr(root.load(Ordering::Relaxed)),
            stack_top: VirtAddr(stack_top.load(Ordering::Relaxed)),
            node: VirtAddr(node.load(Ordering::Relaxed)),
        })
    }

    /// What it asked for was looked at. It may ask for another core by now.
    pub fn answer(&self, entry: &Entry) {
        let (asked, order) = (u64::from(entry.hardware) + 1, Ordering::AcqRel);
        let _ = self.0.words()[ENTRY].compare_exchange(asked, 0, order, Ordering::Relaxed);
    }

    fn entry_words(&self) -> [&AtomicU64; 5] {
        core::array::from_fn(|index| &self.0.words()[ENTRY + index])
    }

    /// Replaces the last words, as far as there is room.
    pub fn say(&self, words: fmt::Arguments<'_>) {
        let mut writer = Writer { seat: self, used: 0, word: 0 };
        // What there is no room for is left out.
        let _ = fmt::write(&mut writer, words);
        writer.store();
        self.0.words()[WORDS_BYTES].store(writer.used as u64, Ordering::Release);
    }

    /// The last words; empty if there are none.
    pub fn last_words(&self) -> String {
        let words = self.0.words();
        let used = (words[WORDS_BYTES].load(Ordering::Acquire) as usize).min(MOST_WORDS);
        let bytes = words[WORDS..].iter().flat_map(|it| it.load(Ordering::Relaxed).to_le_bytes());
        let bytes: Vec<u8> = bytes.take(used).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Counts a knock: there are messages for the domain. By the supervisor, which interrupts the
    /// domain's managing core then.
    pub fn knock(&self) {
        let knocks = &self.0.words()[KNOCKS];
        knocks.store(self.knocks().wrapping_add(1), Ordering::Release);
    }

    /// How often the supervisor has knocked.
    pub fn knocks(&self) -> u64 {
        self.0.words()[KNOCKS].load(Ordering::Acquire)
    }

    /// The supervisor's end of the link to this generation of the domain.
    pub fn supervisor_end(&self, generation: Generation) -> Result<SeatLink, BadSize> {
        SeatLink::new(self.ring(0), self.ring(1), generation)
    }

    /// The domain's end.
    pub fn domain_end(&self, generation: Generation) -> Result<SeatLink, BadSize> {
        SeatLink::new(self.ring(1), self.ring(0), generation)
    }

    fn ring(&self, index: usize) -> Region {
        let ring = self.0.slice(STATUS_BYTES + index * RING_BYTES, region_len(SEAT_CELLS));
        ring.expect("a seat has room for both rings")
    }
}

/// One end of the link between a supervisor and a domain: cells in order, none lost while both
/// live, and none of an earlier generation heard. The supervisor polls; the domain may wait for a
/// [knock](Seat::knock).
#[derive(Debug)]
pub struct SeatLink {
    outbound: Sender,
    inbound: Receiver,
}

impl SeatLink {
    fn new(outbound: Region, inbound: Region, generation: Generation) -> Result<SeatLink, BadSize> {
        let end = Endpoint { id: EndpointId(0), generation };
        let (outbound, inbound) = (Sender::attach(outbound, end)?, Receiver::attach(inbound, end)?);
        Ok(SeatLink { outbound, inbound })
    }

    /// Sends a cell; whether there was room.
    pub fn send(&mut self, cell: &[u8]) -> bool {
        Message::new(0, cell).is_ok_and(|message| self.outbound.try_send(&message).is_ok())
    }

    /// The next cell from the other end, if one has come.
    pub fn receive(&mut self) -> Result<Option<Message>, ReceiveError> {
        self.inbound.try_recv()
    }
}

struct Writer<'a> {
    seat: &'a Seat,
    used: usize,
    word: u64,
}

impl Writer<'_> {
    fn store(&self) {
        if !self.used.is_multiple_of(8) {
            self.seat.0.words()[WORDS + self.used / 8].store(self.word, Ordering::Relaxed);
        }
    }
}

impl fmt::Write for Writer<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if self.used == MOST_WORDS {
                return Err(fmt::Error);
            }
            self.word |= u64::from(byte) << (self.used % 8 * 8);
            self.used += 1;
            if self.used.is_multiple_of(8) {
                self.seat.0.words()[WORDS + self.used / 8 - 1].store(self.word, Ordering::Relaxed);
                self.word = 0;
            }
        }
        Ok(())
    }
}

/// A domain that is to be put together. Everything that it names is its own.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Its place among domains, from 1.
    pub slot: u8,
    /// Which of those that have had the place.
    pub generation: Generation,
    /// The hardware cores, each parked; its managing core runs on the first.
    pub cores: &'a [u16],
    /// How many cores its node can have: those that have no hardware are away.
    pub most: u16,
    /// Its memory, in whole 2 MiB and zero.
    pub memory: &'a [Grant],
    /// Bytes that it may have at most: so much its page tables can map page by page.
    pub most_memory: u64,
    /// A disk, by its number among those that there are to give.
    pub disk: Option<u16>,
    /// Whether that reaches this memory alone, if the machine can see to it: always, but where that
    /// is what is tested.
    pub confines_disk: bool,
    /// What it runs, as a node that is started for a program.
    pub program: &'a str,
    /// Its configuration file.
    pub config: &'a str,
}

/// An access to memory of a device that was kept from it, as that is not its domain's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stray {
    /// The device: its bus, and which function of which device it is there.
    pub device: u16,
    /// The disk that it is, by its number among those for domains.
    pub disk: Option<u16>,
    /// The page of memory.
    pub at: PhysAddr,
    /// Whether it was to be written.
    pub writes: bool,
}

impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stray { device, at, writes, .. } = *self;
        let (bus, number, function) = (device >> 8, device >> 3 & 31, device & 7);
        let what = if writes { "write to" } else { "read" };
        write!(f, "the device {bus:02x}:{number:02x}.{function} was to {what} {at}")
    }
}

/// What the supervisor's managing core may do to its machine. None of it waits for a domain.
pub trait Domains {
    /// How many hardware cores there are to give.
    fn cores(&self) -> u16;

    /// The memory that there is to give, in whole 2 MiB.
    fn memory(&self) -> Grant;

    /// How many domains there can be at a time.
    fn most(&self) -> u8;

    /// The seat of the domain in a place, from 1 to [`most`](Domains::most).
    fn seat(&self, slot: u8) -> Option<Seat>;

    /// Has the first of the cores put the domain together, and all of them enter it then; its seat
    /// tells how that goes. `Busy`: a core is not parked, or another domain is being put together.
    /// `Invalid`: a place, core or memory that is none, or text that is too long.
    fn build(&self, wanted: &Wanted<'_>) -> Result<(), Status>;

    /// Lets a core in as a domain in this place has asked. `Busy`: it is not parked. `Invalid`: no
    /// domain can mean that.
    fn admit(&self, entry: &Entry) -> Result<(), Status>;

    /// Interrupts a hardware core of a domain, which may sleep: there was a [knock](Seat::knock).
    fn interrupt(&self, core: u16);

    /// Whether a hardware core is parked.
    fn is_parked(&self, core: u16) -> bool;

    /// Takes these hardware cores from whatever they do; they are parked a moment later. Waits for
    /// less than a millisecond.
    fn park(&self, cores: &[u16]);

    /// Fills memory with zeros that nobody uses, and that no disk of a domain reaches then.
    fn scrub(&self, memory: Grant);

    /// How many disks there are to give.
    fn disks(&self) -> u16;

    /// Whether a disk is a part of the supervisor's own, which bounds what a domain does there.
    fn is_part(&self, disk: u16) -> bool {
        let _ = disk;
        false
    }

    /// Whether a disk of a domain reaches no memory but its domain's.
    fn confines(&self, disk: u16) -> bool {
        let _ = disk;
        false
    }

    /// Lets the disk of a domain reach memory, too, that this is about to be offered.
    fn extend(&self, disk: u16, memory: Grant) {
        let _ = (disk, memory);
    }

    /// The next access to memory that a device was kept from.
    fn stray(&self) -> Option<Stray> {
        None
    }

    /// Makes a disk as new that no domain has any more: it is stopped, so that it reaches no
    /// memory, and all of it is zero then. Whether that is done; if not, this is to be called
    /// again.
    fn renew(&self, disk: u16) -> bool;

    /// Memory for the ledger, which was zero when the machine was started and outlives every
    /// incarnation of this core.
    fn ledger(&self) -> Region;
}

/// What a domain's managing core knows of its supervisor.
#[derive(Clone, Debug)]
pub struct Seated {
    /// Its place.
    pub slot: u8,
    /// What both share.
    pub seat: Seat,
    /// Its own generation among the domains of its place.
    pub generation: Generation,
    /// The memory that its supervisor has to give, of which units are numbered.
    pub memory: Grant,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_kept_as_far_as_there_is_room() {
        let seat = Seat::new(Region::owned(SEAT_BYTES)).expect("large enough");
        assert_eq!((seat.phase(), seat.last_words()), (SeatPhase::Empty, String::new()));
        for words in ["", "a", "exactly8", "panic at x.rs:3: é"] {
            seat.say(format_args!("{words}"));
            assert_eq!(seat.last_words(), words);
        }
        let long: String = core::iter::repeat_n('x', MOST_WORDS + 1).collect();
        seat.say(format_args!("{long}"));
        assert_eq!(seat.last_words(), long[..MOST_WORDS]);
        assert!(Seat::new(Region::owned(SEAT_BYTES - 64)).is_none());
    }

    #[test]
    fn a_seat_says_where_cores_run_and_who_is_to_be_let_in() {
        let seat = Seat::new(Region::owned(SEAT_BYTES)).expect("large enough");
        let cores = [0, 3, 4, 255];
        for (core, hardware) in cores.into_iter().zip([7, 0, 65000, 9]) {
            seat.set_hardware(core, Some(hardware));
        }
        seat.say(format_args!("{}", "x".repeat(MOST_WORDS)));
        assert_eq!(cores.map(|it| seat.hardware(it)), [Some(7), Some(0), Some(65000), Some(9)]);
        seat.set_hardware(3, None);
        assert_eq!([seat.hardware(3), seat.hardware(1), seat.hardware(256)], [None; 3]);
        assert_eq!(seat.asked_in(), None);
        let (root, stack_top, node) = (PhysAddr(4096), VirtAddr(1 << 40), VirtAddr(5));
        let entry = Entry { hardware: 0, core: 3, root, stack_top, node };
        seat.ask_in(&entry);
        assert_eq!(seat.asked_in(), Some(entry));
        seat.answer(&Entry { hardware: 1, ..entry });
        assert_eq!(seat.asked_in(), Some(entry), "that was another one");
        seat.answer(&entry);
        assert_eq!(seat.asked_in(), None);
    }

    #[test]
    fn cells_go_both_ways_and_to_no_other_generation() {
        let seat = Seat::new(Region::owned(SEAT_BYTES)).expect("large enough");
        let (first, next) = (Generation(1), Generation(2));
        let mut up = seat.domain_end(first).expect("a ring");
        let mut down = seat.supervisor_end(first).expect("a ring");
        assert!(up.send(b"hello") && down.send(b"stop"));
        let said = |end: &mut SeatLink| end.receive().map(|it| it.map(|it| it.payload().to_vec()));
        assert_eq!(said(&mut down), Ok(Some(b"hello".to_vec())));
        assert_eq!(said(&mut down), Ok(None));
        assert_eq!(said(&mut up), Ok(Some(b"stop".to_vec())));
        assert!(up.send(b"late"));
        seat.knock();
        assert_eq!(seat.knocks(), 1, "which is no part of a ring");
        assert_eq!(said(&mut up), Ok(None));
        let mut later = seat.supervisor_end(next).expect("a ring");
        assert_ne!(said(&mut later), Ok(Some(b"late".to_vec())));
        assert!(!up.send(&[0; 100]), "a cell has 56 bytes");
        seat.set_phase(SeatPhase::Failed);
        assert!(seat.phase().is_over());
        seat.clear();
        assert_eq!(seat.phase(), SeatPhase::Empty);
    }
}
