//! The supervisor's loop over a machine that is none: what is done to it, and what is told.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use nile_abi::{Generation, Instant, PhysAddr, Status, VirtAddr};
use nile_domain::{
    Act, Command, Create, DomainId, Extent, Limits, Managing, Message, Name, Phase, RequestId,
    Resize, UNIT,
};
use nile_ring::Region;
use nile_services::domains::supervise::Running;
use nile_stl::node::domains::{Entry, SEAT_BYTES, Seat, SeatLink, SeatPhase, Stray, Wanted};
use nile_stl::node::{Domains, Grant};

const CORES: u16 = 4;
const UNITS: u32 = 8;
const DISKS: u16 = 1;
const FIRST: PhysAddr = PhysAddr(64 * UNIT);
const STEP: Duration = Duration::from_millis(1);

/// A machine whose domains are put together at once, or not.
struct Machine {
    seat: Seat,
    ledger: Region,
    parked: RefCell<BTreeSet<u16>>,
    scrubbed: RefCell<Vec<Grant>>,
    /// Which disks were to be as new, and how much memory was zero by then.
    renewed: RefCell<Vec<(u16, usize)>>,
    built_with: RefCell<Vec<Option<u16>>>,
    /// Which memory which disk reaches besides, and what the domain has heard by then.
    extended: RefCell<Vec<(u16, Grant, usize)>>,
    heard: Cell<usize>,
    strays: RefCell<Vec<Stray>>,
    admitted: RefCell<Vec<Entry>>,
    /// Which core was interrupted, and the how manieth knock that was for.
    interrupted: RefCell<Vec<(u16, u64)>>,
    builds: Result<(), &'static str>,
}

impl Machine {
    fn new(builds: Result<(), &'static str>) -> Machine {
        Machine {
            seat: Seat::new(Region::owned(SEAT_BYTES)).unwrap(),
            ledger: Region::owned(1 << 16),
            parked: RefCell::new((0..CORES).collect()),
            scrubbed: RefCell::default(),
            renewed: RefCell::default(),
            built_with: RefCell::default(),
            extended: RefCell::default(),
            heard: Cell::default(),
            strays: RefCell::default(),
            admitted: RefCell::default(),
            interrupted: RefCell::default(),
            builds,
        }
    }
}

impl Domains for Machine {
    fn cores(&self) -> u16 {
        CORES
    }

    fn memory(&self) -> Grant {
        Grant { start: FIRST, bytes: u64::from(UNITS) * UNIT }
    }

    fn most(&self) -> u8 {
        1
    }

    fn seat(&self, slot: u8) -> Option<Seat> {
        (slot == 1).then(|| self.seat.clone())
    }

    fn build(&self, wanted: &Wanted<'_>) -> Result<(), Status> {
        self.seat.clear();
        self.built_with.borrow_mut().push(wanted.disk);
        assert!(wanted.confines_disk);
        match self.builds {
            Ok(()) => {
                for (core, hardware) in (0..).zip(wanted.cores) {
                    self.seat.set_hardware(core, Some(*hardware));
                    self.parked.borrow_mut().remove(hardware);
                }
                self.seat.set_phase(SeatPhase::Started);
            }
            Err(why) => {
                self.seat.say(format_args!("{why}"));
                self.seat.set_phase(SeatPhase::NotBuilt);
            }
        }
        Ok(())
    }

    fn admit(&self, entry: &Entry) -> Result<(), Status> {
        self.admitted.borrow_mut().push(*entry);
        Ok(())
    }

    fn interrupt(&self, core: u16) {
        self.interrupted.borrow_mut().push((core, self.seat.knocks()));
    }

    fn is_parked(&self, core: u16) -> bool {
        self.parked.borrow().contains(&core)
    }

    fn park(&self, cores: &[u16]) {
        self.parked.borrow_mut().extend(cores);
    }

    fn scrub(&self, memory: Grant) {
        self.scrubbed.borrow_mut().push(memory);
    }

    fn disks(&self) -> u16 {
        DISKS
    }

    fn confines(&self, _: u16) -> bool {
        true
    }

    fn extend(&self, disk: u16, memory: Grant) {
        self.extended.borrow_mut().push((disk, memory, self.heard.get()));
    }

    fn stray(&self) -> Option<Stray> {
        self.strays.borrow_mut().pop()
    }

    /// It takes a second look until it is done.
    fn renew(&self, disk: u16) -> bool {
        let mut renewed = self.renewed.borrow_mut();
        renewed.push((disk, self.scrubbed.borrow().len()));
        renewed.len().is_multiple_of(2)
    }

    fn ledger(&self) -> Region {
        self.ledger.clone()
    }
}

/// A supervisor, its machine and the time.
struct Bench {
    machine: Machine,
    running: Running,
    now: Instant,
}

impl Bench {
    fn new(builds: Result<(), &'static str>) -> Bench {
        let machine = Machine::new(builds);
        let running = Running::begin(&machine, Instant::START).unwrap();
        Bench { machine, running, now: Instant::START }
    }

    fn turn(&mut self) {
        self.running.turn(&self.machine, self.now);
        self.now = self.now + STEP;
    }

    /// How a command ends; between two looks the domain does what `domain` does.
    fn ends(
        &mut self,
        command: &Command,
        mut domain: impl FnMut(&mut Bench),
    ) -> Result<(), String> {
        let request: RequestId = self.running.command(self.now, command).unwrap();
        for _ in 0..10_000 {
            self.turn();
            domain(self);
            if let Some(outcome) = self.running.take_outcome(request) {
                return outcome;
            }
        }
        panic!("{command:?} does not end");
    }

    fn free(&self) -> (Vec<u16>, u32) {
        let ledger = self.running.supervisor.ledger();
        let is_free = |it: &nile_domain::Holding| it.phase == Phase::Free;
        (ledger.cores_with(is_free), ledger.units_with(is_free))
    }
}

fn web() -> Name {
    "web".parse().unwrap()
}

fn create() -> Command {
    let limits = Limits { cores: (1, 3), units: (1, UNITS), priority: 0 };
    Command::Create(Create { name: web(), cores: 3, units: 4, limits, device: None })
}

fn create_with_disk(name: &str) -> Command {
    let limits = Limits { cores: (1, 3), units: (1, UNITS), priority: 0 };
    let name = name.parse().unwrap();
    Command::Create(Create { name, cores: 1, units: 4, limits, device: Some(0) })
}

fn resize(cores: Option<u16>, units: Option<u32>, force: bool) -> Command {
    Command::Resize(Resize { name: web(), cores, units, force })
}

/// A domain that runs, and its end.
fn made() -> (Bench, SeatLink, DomainId) {
    made_by(&create())
}

fn made_by(create: &Command) -> (Bench, SeatLink, DomainId) {
    let mut bench = Bench::new(Ok(()));
    bench.running.set_text(web(), "serve", "");
    let mut link = None;
    let begun = bench.ends(create, |bench| {
        let ledger = bench.running.supervisor.ledger();
        let (None, Some(domain)) = (&link, ledger.named(web())) else { return };
        let mut end = bench.machine.seat.domain_end(domain.id.generation).unwrap();
        end.send(&Message::Hello.encode(domain.id));
        link = Some((end, domain.id));
    });
    assert_eq!(begun, Ok(()));
    let (link, id) = link.unwrap();
    (bench, link, id)
}

#[test]
fn what_is_not_put_together_says_why_until_the_next_is() {
    let mut bench = Bench::new(Err("too little memory for so many cores"));
    bench.running.set_text(web(), "serve", "");
    let ended = bench.ends(&create(), |_| {});
    assert!(ended.is_err_and(|why| why.contains("could not put the domain together")));
    assert_eq!(bench.running.last_words(1), "too little memory for so many cores");
    // What it was to have is zeroed.
    for _ in 0..10 {
        bench.turn();
    }
    assert_eq!(bench.free(), ((0..CORES).collect(), UNITS));
    bench.machine.builds = Ok(());
    bench.running.command(bench.now, &create()).unwrap();
    bench.turn();
    assert_eq!(bench.running.last_words(1), "");
}

#[test]
fn a_core_that_is_kept_is_taken_by_force_alone_and_the_domain_hears_of_it() {
    let (mut bench, mut link, id) = made();
    let mut end = Managing::new([0, 1, 2]);
    let mut lost = Vec::new();
    for force in [false, true] {
        let ended = bench.ends(&resize(Some(2), None, force), |_| {
            while let Ok(Some(message)) = link.receive() {
                end.heard(Message::decode(message.payload()).unwrap().1);
            }
            while let Some(act) = end.take_act() {
                match act {
                    Act::Leave(core) => end.kept(core),
                    Act::Lost(core) => lost.push(core),
                    Act::Send(message) => assert!(link.send(&message.encode(id))),
                    _ => {}
                }
            }
        });
        assert_eq!((ended.is_ok(), bench.machine.is_parked(2)), (force, force), "{ended:?}");
    }
    for _ in 0..10 {
        bench.turn();
    }
    while let Ok(Some(message)) = link.receive() {
        end.heard(Message::decode(message.payload()).unwrap().1);
    }
    lost.extend(core::iter::from_fn(|| end.take_act()).filter_map(|act| match act {
        Act::Lost(core) => Some(core),
        _ => None,
    }));
    assert_eq!((lost, bench.free().0), (vec![2], vec![2, 3]));
}

#[test]
fn a_domain_whose_managing_core_is_taken_is_none() {
    let (mut bench, _link, _) = made();
    // Its managing core is the highest, which is taken first.
    for (core, hardware) in [(0, 2), (2, 0)] {
        bench.machine.seat.set_hardware(core, Some(hardware));
    }
    let ended = bench.ends(&resize(Some(2), None, true), |_| {});
    assert!(ended.is_err_and(|why| why.contains("the domain ended")));
    for _ in 0..10 {
        bench.turn();
    }
    assert_eq!(bench.free(), ((0..CORES).collect(), UNITS));
}

#[test]
fn memory_that_comes_back_is_zeroed_before_it_is_free() {
    let (mut bench, mut link, id) = made();
    let extent = Extent { start: 1, count: 2 };
    let ended = bench.ends(&resize(None, Some(2), false), |_| {
        while let Ok(Some(message)) = link.receive() {
            if Message::decode(message.payload()) == Ok((id, Message::WantMemory(2))) {
                link.send(&Message::MemoryGiven(extent).encode(id));
            }
        }
    });
    assert_eq!(ended, Ok(()));
    for _ in 0..10 {
        bench.turn();
    }
    let zeroed = [1, 2].map(|unit| Grant { start: PhysAddr(FIRST.0 + unit * UNIT), bytes: UNIT });
    assert_eq!((&bench.machine.scrubbed.borrow()[..], bench.free().1), (&zeroed[..], 6));
}

/// A root in another domain's memory, in nobody's, or in none would have a core run there.
#[test]
fn a_core_enters_a_space_in_its_domains_memory_alone() {
    let (mut bench, _link, _) = made();
    let entry = |hardware, root| {
        let (stack_top, node) = (VirtAddr(0), VirtAddr(0));
        Entry { hardware, core: 1, root: PhysAddr(root), stack_top, node }
    };
    let (own, first) = (FIRST.0 + 3 * UNIT, FIRST.0);
    for (hardware, root) in
        [(1, first + 4 * UNIT), (1, first + 8 * UNIT), (1, first - 1), (1, u64::MAX), (3, own)]
    {
        bench.machine.seat.ask_in(&entry(hardware, root));
        bench.turn();
        assert_eq!(bench.machine.seat.asked_in(), None, "it is answered");
        assert!(bench.machine.admitted.borrow().is_empty(), "core {hardware} at {root:#x}");
    }
    bench.machine.seat.ask_in(&entry(1, own));
    bench.turn();
    assert_eq!(bench.machine.admitted.borrow()[..], [entry(1, own)]);
}

/// A message in another domain's name changes nothing of that one's, nor of who speaks.
#[test]
fn no_domain_speaks_for_another() {
    let (mut bench, mut link, id) = made();
    let given = Message::MemoryGiven(Extent { start: 0, count: 4 });
    let offered = |bench: &Bench| {
        bench.running.supervisor.ledger().units_with(|it| it.phase == Phase::Offered)
    };
    for other in [DomainId { slot: 2, ..id }, DomainId { generation: Generation(9), ..id }] {
        assert!(link.send(&given.encode(other)));
        bench.turn();
        assert_eq!(offered(&bench), 0, "{other:?}");
    }
    assert!(link.send(&given.encode(id)));
    bench.turn();
    assert_eq!(offered(&bench), 4, "what it was not asked for it gets again");
}

/// Who is told something is interrupted where its managing core is; and no core of another's, where
/// it says that this is.
#[test]
fn a_domain_that_is_told_something_is_interrupted() {
    let (mut bench, mut link, id) = made();
    let own = bench.machine.seat.hardware(0).unwrap();
    for (says, is_interrupted) in [(Some(own), true), (Some(CORES - 1), false), (None, false)] {
        bench.machine.seat.set_hardware(0, says);
        bench.machine.interrupted.borrow_mut().clear();
        let before = bench.machine.seat.knocks();
        assert!(link.send(&Message::MemoryGiven(Extent { start: 0, count: 1 }).encode(id)));
        bench.turn();
        let knocks = before + 1..=bench.machine.seat.knocks();
        assert!(!knocks.is_empty(), "it is offered it again");
        let all = knocks.filter(|_| is_interrupted).map(|knock| (own, knock));
        assert_eq!(bench.machine.interrupted.take(), all.collect::<Vec<_>>());
    }
}

/// A disk writes into the memory of the domain that has set it up, until it is reset.
#[test]
fn a_disk_is_as_new_before_the_memory_is_zeroed_that_it_could_reach() {
    let (mut bench, _link, _) = made_by(&create_with_disk("web"));
    assert_eq!(bench.machine.built_with.borrow()[..], [Some(0)]);
    let refused = bench.running.command(bench.now, &create_with_disk("log")).unwrap_err();
    assert!(refused.to_string().contains("device 0 is web's"), "{refused}");
    assert_eq!(bench.machine.renewed.borrow()[..], []);
    let ended = bench.ends(&Command::Destroy { name: web(), force: true }, |_| {});
    assert_eq!(ended, Ok(()));
    // It was looked at until it was done, and nothing was zero before.
    assert_eq!(bench.machine.renewed.borrow()[..], [(0, 0), (0, 0)]);
    assert_eq!(bench.machine.scrubbed.borrow().len(), 4);
    assert_eq!(bench.free(), ((0..CORES).collect(), UNITS));
    let free = bench.running.supervisor.ledger().devices().next();
    assert!(free.is_some_and(|(_, it)| it.phase == Phase::Free));
}

/// A domain that is told of memory may have its disk write there at once.
#[test]
fn a_disk_reaches_memory_before_its_domain_hears_of_it() {
    for (create, disk) in [(create_with_disk("web"), Some(0)), (create(), None)] {
        let (mut bench, mut link, id) = made_by(&create);
        assert!(bench.running.isolates(disk));
        let offer = Message::OfferMemory(Extent { start: 4, count: 2 });
        let ended = bench.ends(&resize(None, Some(6), false), |bench| {
            while let Ok(Some(message)) = link.receive() {
                if Message::decode(message.payload()) == Ok((id, offer)) {
                    bench.machine.heard.set(bench.machine.extended.borrow().len() + 1);
                    let Message::OfferMemory(extent) = offer else { unreachable!() };
                    link.send(&Message::MemoryTaken(extent).encode(id));
                }
            }
        });
        assert_eq!(ended, Ok(()));
        let memory = Grant { start: PhysAddr(FIRST.0 + 4 * UNIT), bytes: 2 * UNIT };
        let wanted: Vec<_> = disk.map(|disk| (disk, memory, 0)).into_iter().collect();
        assert_eq!(bench.machine.extended.borrow()[..], wanted);
        assert_eq!(bench.machine.heard.get(), wanted.len() + 1, "the domain hears of it then");
    }
}

#[test]
fn what_a_disk_was_kept_from_is_counted_and_told_ever_more_seldom() {
    let (mut bench, _link, _) = made_by(&create_with_disk("web"));
    let stray = |disk| Stray { device: 0x28, disk, at: FIRST, writes: disk.is_some() };
    bench.turn();
    assert_eq!((bench.running.kept_off(1), bench.running.take_news().len()), (0, 0));
    for _ in 0..5 {
        bench.machine.strays.borrow_mut().push(stray(Some(0)));
    }
    bench.turn();
    let told = |count| {
        format!("web: the device 00:05.0 was to write to {FIRST}, and is kept from it ({count})")
    };
    assert_eq!(bench.running.take_news(), [told(1), told(2), told(4)]);
    bench.machine.strays.borrow_mut().push(stray(None));
    bench.turn();
    let nobodys = format!("the device 00:05.0 was to read {FIRST}, and is kept from it");
    assert_eq!(bench.running.take_news(), [nobodys]);
    assert_eq!(bench.running.kept_off(1), 5);
    // The next domain of the place begins without.
    let ended = bench.ends(&Command::Destroy { name: web(), force: true }, |_| {});
    assert_eq!(ended, Ok(()));
    bench.running.command(bench.now, &create_with_disk("web")).unwrap();
    bench.turn();
    assert_eq!(bench.running.kept_off(1), 0);
}
