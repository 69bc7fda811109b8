//! Domains use parts of a disk, each its own and no more, and no flood keeps others' requests away.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec;
use core::num::NonZeroU64;
use core::sync::atomic::Ordering;
use core::time::Duration;

use nile_domain::{Ledger, Sizes, Thing, Way};
use nile_ring::Region;
use proptest::prelude::*;

use super::*;
use crate::rffuse::{DISK_LINK_BYTES, LinkedDisk, PART_STATE_BYTES, Renewal};

mod hostile;

const SECTOR: u64 = 512;
const PART: u64 = 3 << 20;
const OWN: u64 = 2 << 20;
const SIZES: Sizes = Sizes { cores: 1, units: 1, devices: 3 };

/// Words of a link before its blocks.
const HEAD_WORDS: usize = 4096 / 8;

/// The first device is a disk of its own.
const FIRST: u16 = 1;

/// A disk that does what it is asked for in any order, when the test says so.
#[derive(Clone)]
struct Drum(Rc<Inside>);

struct Inside {
    bytes: RefCell<Vec<u8>>,
    given: RefCell<VecDeque<(u32, Request)>>,
    order: Cell<usize>,
    fails: Cell<bool>,
    room: usize,
    /// Whether it ends nothing now.
    holds: Cell<bool>,
    /// Where requests of parts began, in the order in which they were done.
    done: RefCell<Vec<(u32, u64)>>,
    description: Description,
}

impl Inside {
    fn new(bytes: u64) -> Inside {
        let (name, serial) = ("drum".into(), "1".into());
        let description = Description { name, serial, bytes, sector_bytes: SECTOR as u32 };
        Inside {
            bytes: RefCell::new(vec![0; bytes as usize]),
            given: RefCell::default(),
            order: Cell::new(0),
            fails: Cell::new(false),
            room: 32,
            holds: Cell::new(false),
            done: RefCell::default(),
            description,
        }
    }
}

impl Drum {
    fn new(bytes: u64) -> Drum {
        Drum(Rc::new(Inside::new(bytes)))
    }

    /// Nobody drives it: what it was given is lost.
    fn reset(&self) {
        self.0.given.borrow_mut().clear();
    }
}

impl Disk for Drum {
    fn description(&self) -> &Description {
        &self.0.description
    }

    fn submit(&self, tag: u32, request: &Request) -> bool {
        assert_eq!(self.description().check(request), Ok(()), "{request:?}");
        let mut given = self.0.given.borrow_mut();
        assert!(given.iter().all(|(it, _)| *it != tag), "tag {tag:x} twice");
        let has_room = given.len() < self.0.room;
        if has_room {
            given.push_back((tag, request.clone()));
        }
        has_room
    }

    fn tell(&self) {}

    fn is_ready(&self) -> bool {
        !self.0.given.borrow().is_empty()
    }

    fn complete(&self) -> Option<Completion> {
        if self.0.holds.get() {
            return None;
        }
        let mut given = self.0.given.borrow_mut();
        let next = self.0.order.get().wrapping_mul(31).wrapping_add(7);
        self.0.order.set(next);
        let place = next % given.len().max(1);
        let (tag, request) = given.remove(place)?;
        if self.0.fails.get() {
            let result = Err(DiskError::Failed);
            return Some(Completion { tag, result, hash: None });
        }
        let mut bytes = self.0.bytes.borrow_mut();
        if let Some((at, pieces)) = request.transfer() {
            self.0.done.borrow_mut().push((tag, at));
            let words = pieces.iter().flat_map(|it| it.region.words());
            let (chunks, _) = bytes[at as usize..].as_chunks_mut::<8>();
            for (chunk, word) in chunks.iter_mut().zip(words) {
                match request {
                    Request::Read { .. } => {
                        word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed)
                    }
                    _ => *chunk = word.load(Ordering::Relaxed).to_le_bytes(),
                }
            }
        }
        if let Request::Discard { at, bytes: count } = request {
            bytes[at as usize..(at + count) as usize].fill(0xdd);
        }
        Some(Completion { tag, result: Ok(()), hash: None })
    }
}

/// A supervisor's disk of two parts, of which the domains in places 1 and 2 have one each.
struct Machine {
    drum: Drum,
    links: Vec<DiskLink>,
    /// The same, as bytes that a domain writes to.
    regions: Vec<Region>,
    states: Vec<PartState>,
    ledger: LedgerWords,
    clock: Rc<Cell<Instant>>,
    woken: Rc<RefCell<Vec<u32>>>,
}

type Domain = LinkedDisk<fn(u32)>;

impl Machine {
    fn new() -> Machine {
        let words = Ledger::found(vec![0; SIZES.words()], SIZES, &[], 0).into_words();
        let ledger = Region::owned(words.len() * 8);
        for (to, word) in ledger.words().iter().zip(words) {
            to.store(word, Ordering::Relaxed);
        }
        let regions: Vec<Region> = (0..2).map(|_| Region::owned(DISK_LINK_BYTES)).collect();
        let links = regions.iter().map(|it| DiskLink::new(it.clone()).unwrap()).collect();
        let state = |_| PartState::new(Region::owned(PART_STATE_BYTES)).unwrap();
        let states = (0..2).map(state).collect();
        let (clock, woken) = Default::default();
        let drum = Drum::new(OWN + 2 * PART);
        let ledger = LedgerWords(ledger);
        let machine = Machine { drum, links, regions, states, ledger, clock, woken };
        (0..2).for_each(|part| machine.give(part, Some(part as u8 + 1)));
        machine
    }

    /// The ledger gives a part to the domain in a place, or to nobody.
    fn give(&self, part: u16, slot: Option<u8>) {
        const HELD: u64 = 2;
        let word = slot.map_or(0, |slot| 1 << 32 | u64::from(slot) << 8 | HELD);
        let at = SIZES.place(Thing::Device(FIRST + part));
        self.ledger.0.words()[at].store(word, Ordering::Relaxed);
    }

    fn supervisor(&self) -> impl Disk + use<> {
        let parts = Parts { bytes: PART, first: FIRST };
        let links = self.parts();
        let (clock, woken) = (self.clock.clone(), self.woken.clone());
        let wake = move |name| woken.borrow_mut().push(name);
        let (drum, ledger) = (Box::new(self.drum.clone()), self.ledger.clone());
        SharedDisk::new(drum, parts, links.into_iter(), ledger, (7, wake), move || clock.get())
    }

    fn parts(&self) -> Vec<(DiskLink, PhysAddr, PartState)> {
        let parts = self.links.iter().cloned().zip(self.states.iter().cloned());
        parts.map(|(link, state)| (link, PhysAddr(1 << 30), state)).collect()
    }

    fn domain(&self, part: usize) -> Domain {
        LinkedDisk::open(self.links[part].clone(), 5, (|_| ()) as fn(u32)).unwrap()
    }

    fn limit(&self, slot: u8, limit: Limit) {
        let toll = Sizes::toll(Way::Disk, slot);
        let rate = limit.rate.map_or(0, NonZeroU64::get);
        for (at, word) in [rate, limit.burst, limit.weight].into_iter().enumerate() {
            self.ledger.0.words()[toll + at].store(word, Ordering::Relaxed);
        }
    }

    /// Requests that passed, their bytes, and requests that were refused.
    fn carried(&self, slot: u8) -> [u64; 3] {
        let at = Sizes::toll(Way::Disk, slot) + Limit::WORDS;
        core::array::from_fn(|word| self.ledger.0.words()[at + word].load(Ordering::Relaxed))
    }

    fn contents(&self, at: u64, bytes: u64) -> Vec<u8> {
        self.drum.0.bytes.borrow()[at as usize..(at + bytes) as usize].to_vec()
    }
}

fn memory(bytes: &[u8]) -> Region {
    let region = Region::owned(bytes.len());
    let (chunks, _) = bytes.as_chunks();
    for (word, chunk) in region.words().iter().zip(chunks) {
        word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
    }
    region
}

fn bytes_of(regions: &[Region]) -> Vec<u8> {
    let words = regions.iter().flat_map(Region::words);
    words.flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect()
}

fn piece(region: &Region) -> Piece {
    Piece { at: PhysAddr(0), region: region.clone() }
}

fn write(at: u64, bytes: &[u8]) -> Request {
    Request::Write { at, from: vec![piece(&memory(bytes))] }
}

/// Both ends look until a domain's end has nothing more to give; what ended.
fn run(supervisor: &dyn Disk, ends: &[&Domain], passes: usize) -> Vec<Vec<Completion>> {
    let mut all: Vec<Vec<Completion>> = ends.iter().map(|_| Vec::new()).collect();
    for _ in 0..passes {
        for (end, all) in ends.iter().zip(&mut all) {
            end.tell();
            all.extend(core::iter::from_fn(|| end.complete()));
        }
        supervisor.tell();
        assert_eq!(supervisor.complete(), None, "nothing was its own");
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// What domains write to disjoint places is what they read, whatever pieces of memory it is in,
    /// and is at its place on the disk; the supervisor's own part, the other one's and what nobody
    /// wrote stay as they are.
    #[test]
    fn what_is_written_is_what_is_read(
        writes in prop::collection::vec((0..2_usize, 1..400_u64, 1..4_usize, any::<u8>()), 1..12),
    ) {
        let machine = Machine::new();
        let supervisor = machine.supervisor();
        let domains = [machine.domain(0), machine.domain(1)];
        prop_assert_eq!(domains[0].description().bytes, PART);
        prop_assert_eq!(supervisor.description().bytes, OWN);
        let mut model = vec![0_u8; (OWN + 2 * PART) as usize];
        let (mut ends, mut reads) = ([0_u64; 2], Vec::new());
        let mut expected = [0; 2];
        for (tag, (who, sectors, pieces, seed)) in (0..).zip(writes) {
            let sectors = sectors.min((PART / SECTOR - ends[who]) / 2).max(1);
            let (at, bytes) = (ends[who] * SECTOR, sectors * SECTOR);
            ends[who] += sectors;
            let text: Vec<u8> = (0..bytes).map(|it| (it / 7) as u8 ^ seed).collect();
            let first = OWN + who as u64 * PART + at;
            model[first as usize..(first + bytes) as usize].copy_from_slice(&text);
            // Pieces are whole cache lines.
            let cut = (bytes / 64 / pieces as u64).max(1) * 64;
            let parts: Vec<Region> = text.chunks(cut as usize).map(memory).collect();
            let from = parts.iter().map(piece).collect();
            let request = Request::Write { at, from };
            prop_assert!(domains[who].submit(tag, &request));
            expected[who] += 1;
            reads.push((who, at, text, cut));
        }
        let ended = run(&supervisor, &[&domains[0], &domains[1]], 600);
        for (who, ended) in ended.iter().enumerate() {
            prop_assert_eq!(ended.len(), expected[who]);
            prop_assert!(ended.iter().all(|it| it.result == Ok(())));
        }
        prop_assert_eq!(&*machine.drum.0.bytes.borrow(), &model);
        let mut into = Vec::new();
        for (tag, (who, at, text, cut)) in (0..).zip(&reads) {
            let regions: Vec<Region> =
                text.chunks(*cut as usize).map(|it| Region::owned(it.len())).collect();
            let request = Request::Read { at: *at, into: regions.iter().map(piece).collect() };
            prop_assert!(domains[*who].submit(tag, &request));
            into.push(regions);
        }
        let ended = run(&supervisor, &[&domains[0], &domains[1]], 600);
        prop_assert_eq!(ended.iter().map(Vec::len).sum::<usize>(), reads.len());
        for (regions, (_, _, text, _)) in into.iter().zip(&reads) {
            prop_assert_eq!(&bytes_of(regions), text);
        }
        for slot in [1, 2] {
            let own = reads.iter().filter(|it| it.0 == slot - 1);
            let all: u64 = own.map(|it| it.2.len() as u64).sum();
            let [_, bytes, refused] = machine.carried(slot as u8);
            prop_assert_eq!([bytes, refused], [2 * all, 0]);
        }
    }
}

#[test]
fn what_is_not_of_a_part_is_refused_and_charged() {
    let machine = Machine::new();
    let supervisor = machine.supervisor();
    let before = machine.drum.0.bytes.borrow().clone();
    let link = &machine.links[0];
    let asked = |what, at, bytes| Asked { what, at, bytes };
    let wrong = [
        asked(What::Write, PART, SECTOR),
        asked(What::Write, PART - SECTOR, 2 * SECTOR),
        asked(What::Write, u64::MAX - SECTOR + 1, SECTOR),
        asked(What::Write, u64::MAX, SECTOR),
        asked(What::Write, 1, SECTOR),
        asked(What::Write, 0, SECTOR + 1),
        asked(What::Write, 0, 0),
        asked(What::Read, 0, BLOCK_BYTES as u64 + SECTOR),
        asked(What::Discard, 0, PART + SECTOR),
        asked(What::Discard, 0, u64::MAX - SECTOR + 1),
    ];
    for (slot, asked) in wrong.into_iter().enumerate() {
        let (_, block) = link.block(slot, BLOCK_BYTES).unwrap();
        block.words().iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
        link.ask(slot, asked);
    }
    supervisor.tell();
    assert_eq!(supervisor.complete(), None);
    for (slot, asked) in wrong.iter().enumerate() {
        assert!(!link.is_asked(slot), "{asked:?}");
    }
    assert_eq!(*machine.drum.0.bytes.borrow(), before);
    assert_eq!(machine.carried(1), [0, 0, wrong.len() as u64]);
    // A word that says none of what can be asked.
    link.ask(0, asked(What::Flush, 0, 0));
    link.erase();
    link.ask(3, asked(What::Read, 0, SECTOR));
    link.request(3)[0].store(77, Ordering::Relaxed);
    supervisor.tell();
    assert!(!link.is_asked(3));
    assert_eq!(machine.carried(1), [0, 0, wrong.len() as u64 + 1]);
    assert_eq!(machine.carried(2), [0; 3]);
}

#[test]
fn only_who_has_a_part_is_served() {
    let machine = Machine::new();
    let (supervisor, domain) = (machine.supervisor(), machine.domain(0));
    machine.give(0, None);
    assert!(domain.submit(1, &write(0, &[9; 512])));
    let ended = run(&supervisor, &[&domain], 3).remove(0);
    assert_eq!(ended, [Completion { tag: 1, result: Err(DiskError::Failed), hash: None }]);
    assert_eq!(machine.contents(OWN, 512), [0; 512]);
    machine.give(0, Some(2));
    assert!(domain.submit(2, &write(0, &[9; 512])));
    let ended = run(&supervisor, &[&domain], 3).remove(0);
    assert_eq!(ended, [Completion { tag: 2, result: Ok(()), hash: None }]);
    assert_eq!((machine.carried(1), machine.carried(2)), ([0; 3], [1, 512, 0]), "who has it pays");
}

#[test]
fn a_disk_that_fails_says_so() {
    let machine = Machine::new();
    let (supervisor, domain) = (machine.supervisor(), machine.domain(1));
    machine.drum.0.fails.set(true);
    assert!(domain.submit(1, &write(4096, &vec![1; 3 * BLOCK_BYTES])));
    assert!(domain.submit(2, &Request::Flush));
    let ended = run(&supervisor, &[&domain], 5).remove(0);
    assert_eq!(ended.len(), 2);
    assert!(ended.iter().all(|it| it.result == Err(DiskError::Failed)), "{ended:?}");
}

#[test]
fn a_rate_holds_requests_back_and_loses_none() {
    let machine = Machine::new();
    let (supervisor, domain) = (machine.supervisor(), machine.domain(0));
    let rate = NonZeroU64::new(BLOCK_BYTES as u64);
    machine.limit(1, Limit { rate, burst: 2 * BLOCK_BYTES as u64, weight: 1 });
    assert!(domain.submit(1, &write(0, &vec![7; 8 * BLOCK_BYTES])));
    let moved = || machine.carried(1)[1] / BLOCK_BYTES as u64;
    assert_eq!(run(&supervisor, &[&domain], 20), [[]]);
    assert_eq!(moved(), 2, "a burst");
    assert!(supervisor.is_ready(), "the core is to look again");
    for seconds in 1..6 {
        machine.clock.set(Instant::START + Duration::from_secs(seconds));
        assert_eq!(run(&supervisor, &[&domain], 20), [[]]);
        assert_eq!(moved(), 2 + seconds);
    }
    // The control: without a limit all goes at once.
    machine.limit(1, Limit::default());
    assert_eq!(run(&supervisor, &[&domain], 20)[0].len(), 1);
    assert_eq!((moved(), machine.carried(1)[2]), (8, 0));
    assert_eq!(machine.contents(OWN, 8 * BLOCK_BYTES as u64), vec![7; 8 * BLOCK_BYTES]);
    assert!(!supervisor.is_ready());
}

#[test]
fn a_flood_has_its_share_and_leaves_the_supervisor_room() {
    let machine = Machine::new();
    let supervisor = machine.supervisor();
    let domains = [machine.domain(0), machine.domain(1)];
    machine.limit(2, Limit { weight: 3, ..Limit::default() });
    for tag in 0..60 {
        for domain in &domains {
            assert!(domain.submit(tag, &write(0, &vec![1; BLOCK_BYTES])));
        }
    }
    domains.iter().for_each(Disk::tell);
    supervisor.tell();
    assert_eq!(machine.drum.0.given.borrow().len(), MOST as usize);
    assert!(supervisor.submit(5, &write(0, &[3; 512])), "the supervisor has room");
    assert!(core::iter::from_fn(|| supervisor.complete()).any(|it| it.tag == 5));
    for _ in 0..3 {
        domains.iter().for_each(|it| while it.complete().is_some() {});
        domains.iter().for_each(Disk::tell);
        supervisor.tell();
        assert!(supervisor.complete().is_none());
    }
    // While both have more to do than they get.
    let [one, other] = [1, 2].map(|slot| machine.carried(slot)[1] / BLOCK_BYTES as u64);
    assert!(other < 60 && one + other >= 48, "{one} and {other}");
    assert!((2 * one..=4 * one).contains(&other), "{one} and {other}");
    let ended = run(&supervisor, &[&domains[0], &domains[1]], 100);
    assert!(ended.iter().all(|it| it.iter().all(|it| it.result == Ok(()))));
    assert_eq!([1, 2].map(|slot| machine.carried(slot)[0]), [60; 2], "nobody starves");
}

#[test]
fn a_domain_s_next_incarnation_waits_for_what_the_last_one_asked_for() {
    let machine = Machine::new();
    let (supervisor, domain) = (machine.supervisor(), machine.domain(0));
    assert!(domain.submit(1, &write(0, &[1; 512])));
    domain.tell();
    supervisor.tell();
    drop(domain);
    let domain = machine.domain(0);
    assert!(domain.submit(1, &write(0, &[2; 512])));
    domain.tell();
    supervisor.tell();
    assert_eq!(machine.drum.0.given.borrow().len(), 1, "the new one is not given yet");
    assert!(!domain.is_ready());
    assert_eq!(supervisor.complete(), None);
    assert!(domain.is_ready(), "it can go on");
    assert_eq!(run(&supervisor, &[&domain], 3)[0].len(), 1, "only its own has ended");
    assert_eq!(machine.contents(OWN, 512), [2; 512]);
}

#[test]
fn the_supervisor_s_next_incarnation_does_what_the_last_one_had_not() {
    let machine = Machine::new();
    let (supervisor, domain) = (machine.supervisor(), machine.domain(1));
    assert!(domain.submit(1, &write(512, &vec![6; 2 * BLOCK_BYTES])));
    domain.tell();
    supervisor.tell();
    drop(supervisor);
    machine.drum.reset();
    let supervisor = machine.supervisor();
    assert!(supervisor.is_ready(), "what was asked for is there");
    let ended = run(&supervisor, &[&domain], 4).remove(0);
    assert_eq!(ended, [Completion { tag: 1, result: Ok(()), hash: None }]);
    assert_eq!(machine.contents(OWN + PART + 512, 512), [6; 512]);
}

#[test]
fn a_part_is_made_as_new_and_no_other() {
    let machine = Machine::new();
    let supervisor = machine.supervisor();
    machine.drum.0.bytes.borrow_mut().fill(0xee);
    let domain = machine.domain(0);
    assert!(domain.submit(1, &write(0, &[1; 512])));
    domain.tell();
    supervisor.tell();
    drop(domain);
    machine.give(0, None);
    let link = machine.links[0].clone();
    let renew = || machine.states[0].renew(|name| machine.woken.borrow_mut().push(name));
    // It is asked while a request is under way, and another one has come.
    assert!(supervisor.is_ready());
    link.ask(9, Asked { what: What::Write, at: 1024, bytes: 512 });
    assert_eq!(renew(), Renewal::UnderWay);
    assert_eq!(*machine.woken.borrow(), [7], "it may sleep");
    let mut passes = 0;
    while renew() != Renewal::Done {
        supervisor.tell();
        assert_eq!(supervisor.complete(), None);
        passes += 1;
        assert!(passes < 20);
    }
    assert!(machine.contents(OWN, PART).iter().all(|byte| *byte == 0));
    assert!(machine.contents(OWN + PART, PART).iter().all(|byte| *byte == 0xee));
    assert!(machine.contents(0, OWN).iter().all(|byte| *byte == 0xee));
    assert!((0..SLOTS).all(|slot| !link.is_asked(slot)), "nothing is left of who had it");
    // A disk that does not write says so once.
    machine.drum.0.fails.set(true);
    assert_eq!(renew(), Renewal::UnderWay);
    supervisor.tell();
    assert_eq!(supervisor.complete(), None);
    assert_eq!([renew(), renew()], [Renewal::Failed, Renewal::UnderWay]);
}

#[test]
fn only_who_waits_is_interrupted() {
    let machine = Machine::new();
    let supervisor = machine.supervisor();
    let woken = machine.woken.clone();
    let wake = move |name| woken.borrow_mut().push(name);
    let domain = LinkedDisk::open(machine.links[0].clone(), 5, wake).unwrap();
    assert!(!supervisor.is_ready() && !domain.is_ready());
    assert!(domain.submit(1, &write(0, &[1; 512])));
    assert!(domain.submit(2, &write(512, &[1; 512])));
    domain.tell();
    // Until it looks, each request interrupts it.
    assert_eq!(*machine.woken.borrow(), [7, 7]);
    supervisor.tell();
    domain.tell();
    assert_eq!(*machine.woken.borrow(), [7, 7], "it has looked");
    assert_eq!(supervisor.complete(), None);
    assert!(machine.woken.borrow()[2..].iter().all(|name| *name == 5));
    assert!(machine.woken.borrow().len() > 2);
    assert!(domain.is_ready());
    assert!(domain.complete().is_some());
}

/// Of more slots than it gets at a time none waits for ever, although others are asked again.
#[test]
fn a_slot_waits_for_others_once() {
    let machine = Machine::new();
    let supervisor = machine.supervisor();
    let read = Asked { what: What::Read, at: 0, bytes: BLOCK_BYTES as u64 };
    for link in &machine.links {
        (0..SLOTS).for_each(|slot| link.ask(slot, read));
    }
    let mut passes = 0;
    while machine.links[0].is_asked(SLOTS - 1) {
        supervisor.tell();
        assert_eq!(supervisor.complete(), None);
        for link in &machine.links {
            let others = (0..SLOTS - 1).filter(|slot| !link.is_asked(*slot));
            others.for_each(|slot| link.ask(slot, read));
        }
        passes += 1;
        assert!(passes < 5, "the last slot is never looked at");
    }
}

#[test]
fn a_disk_that_is_too_small_has_no_parts() {
    let machine = Machine::new();
    let machine = Machine { drum: Drum::new(2 * PART + LEAST_OWN - SECTOR), ..machine };
    let supervisor = machine.supervisor();
    assert_eq!(supervisor.description().bytes, 2 * PART + LEAST_OWN - SECTOR);
    assert!(!supervisor.serves_others() && !machine.states[0].is_there());
    assert!(LinkedDisk::open(machine.links[0].clone(), 5, |_| ()).is_none());
}
