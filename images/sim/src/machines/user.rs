//! Who commands the supervisor, whichever incarnation of it there is, and sees what comes of it.

use std::time::Duration;

use nile_abi::Instant;
use nile_domain::{
    Command, Create, DomainId, Ledger, Limits, Name, Party, Phase, RequestId, Resize, Thing, Words,
};
use nile_services::domains::supervise::Running;

use super::{Misdeed, SPAN};

/// The domain that nothing reaches, and those that come and go.
pub const RED: &str = "red";
const OTHERS: [&str; 3] = ["blue", "green", "gray"];

/// What each is to have at least and at most: cores, units.
const OF_RED: Limits = Limits { cores: (2, 2), units: (4, 4), priority: 9 };
const OF_OTHERS: Limits = Limits { cores: (1, 3), units: (3, 8), priority: 1 };

/// When a command is late that has not ended: all that the supervisor waits for, one after the
/// other.
const LATE: Duration = Duration::from_secs(26);

/// How long red may be silent: it beats each millisecond.
const SILENCE: Duration = Duration::from_millis(10);

/// So many things at most are done to the machine before a supervisor dies.
const FUSE: u64 = 300;

/// What was seen in a run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Commands that were done.
    pub done: u64,
    /// Commands that were refused.
    pub refused: u64,
    /// Domains whose managing core began.
    pub began: u64,
    /// Incarnations of the supervisor.
    pub supervisors: u64,
    /// Cores that were taken by force.
    pub forced: u64,
    /// Red's beats.
    pub beats: u64,
    /// What domains wrote into their parts of a disk.
    pub stamped: u64,
}

/// What red has from its beginning on.
struct Red {
    id: DomainId,
    has: Vec<Thing>,
}

/// The user.
pub struct User {
    drawn: u64,
    misdeed: Misdeed,
    /// What was commanded last, and when.
    open: Option<(RequestId, Instant)>,
    /// When the next command is given.
    next: Instant,
    /// What can be done to the machine until the supervisor dies.
    fuse: u64,
    red: Option<Red>,
    heard: Option<Instant>,
    /// What did not hold, first of all.
    pub broken: Option<String>,
    pub counts: Counts,
}

fn name(of: &str) -> Name {
    Name::new(of.as_bytes()).expect("it is one")
}

impl User {
    pub fn new(seed: u64, misdeed: Misdeed) -> User {
        let (open, red, heard, broken) = (None, None, None, None);
        let (next, counts) = (Instant::START, Counts::default());
        let mut user =
            User { drawn: seed, misdeed, open, next, fuse: 0, red, heard, broken, counts };
        user.fuse = 1 + user.draw(FUSE);
        user
    }

    /// What a domain of this name is told.
    pub fn config(of: &str) -> String {
        format!("# {of}\n")
    }

    /// Tells a supervisor that begins what domains are for.
    pub fn say_what_for(running: &mut Running) {
        for of in OTHERS.into_iter().chain([RED]) {
            running.set_text(name(of), "serve", &User::config(of));
        }
    }

    /// A number below `bound` (splitmix64).
    pub fn draw(&mut self, bound: u64) -> u64 {
        self.drawn = self.drawn.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.drawn;
        it = (it ^ it >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ it >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (it ^ it >> 31) % bound.max(1)
    }

    /// Notes what does not hold.
    pub fn note(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }

    /// A supervisor begins, who knows nothing of what an earlier one was told; whether it is the
    /// first.
    pub fn begins(&mut self) -> bool {
        self.counts.supervisors += 1;
        self.open = None;
        self.counts.supervisors == 1
    }

    /// Whether the supervisor dies now.
    pub fn dies(&mut self) -> bool {
        self.fuse -= 1;
        let dies = self.fuse == 0;
        if dies {
            self.fuse = 1 + self.draw(FUSE);
        }
        dies
    }

    /// Red beats.
    pub fn hear(&mut self, now: Instant) {
        self.counts.beats += 1;
        if self.heard.is_some_and(|before| now.since(before) > SILENCE) {
            self.note(format!("I8: red was silent before {now}"));
        }
        self.heard = Some(now);
    }

    /// Red's cores.
    pub fn of_red(&self) -> impl Iterator<Item = u16> + '_ {
        self.red.iter().flat_map(|red| &red.has).filter_map(|thing| match thing {
            Thing::Core(core) => Some(*core),
            _ => None,
        })
    }

    /// Looks at everything, and commands something; whether there is more to come.
    pub fn turn(&mut self, running: &mut Running, now: Instant) -> bool {
        self.look(running.supervisor.ledger(), now);
        match self.open {
            Some((request, since)) => match running.take_outcome(request) {
                Some(outcome) => self.told(outcome.is_ok()),
                None if now.since(since) > LATE => {
                    self.note(format!("I6: what was commanded at {since} has not ended at {now}"));
                }
                None => {}
            },
            None if now.since(Instant::START) < SPAN && now >= self.next => {
                self.next = now + Duration::from_micros(self.draw(40_000));
                let command = self.command(running.supervisor.ledger());
                match running.command(now, &command) {
                    Ok(request) => self.open = Some((request, now)),
                    Err(_) => self.told(false),
                }
            }
            None => {}
        }
        let is_over = self.open.is_none() && now.since(Instant::START) >= SPAN;
        if is_over && self.red.is_none() {
            self.note("there was no red".into());
        }
        !is_over && self.broken.is_none()
    }

    fn told(&mut self, is_done: bool) {
        self.open = None;
        self.counts.done += u64::from(is_done);
        self.counts.refused += u64::from(!is_done);
    }

    /// What is commanded next: first of all red, until it is there.
    fn command<W: Words>(&mut self, ledger: &Ledger<W>) -> Command {
        // Perhaps one that somebody has: then it is refused.
        let device = Some(self.draw(2 * u64::from(ledger.sizes().devices)) as u16);
        let device = device.filter(|it| *it < ledger.sizes().devices);
        let create = |of, cores, units, limits| {
            Command::Create(Create { name: name(of), cores, units, limits, device })
        };
        if self.red.is_none() && ledger.named(name(RED)).is_none() {
            let Limits { cores, units, .. } = OF_RED;
            return create(RED, cores.0, units.0, OF_RED);
        }
        let [one, other] = [(); 2].map(|()| OTHERS[self.draw(3) as usize]);
        let (cores, units) = (1 + self.draw(4) as u16, 3 + self.draw(7) as u32);
        let (name, force) = (name(one), self.draw(2) == 0);
        if ledger.named(name).is_none() {
            let limits = match self.misdeed {
                Misdeed::GivesTooMuch => Limits { cores: (1, 6), units: (1, 20), ..OF_OTHERS },
                _ => Limits { priority: self.draw(3) as u8, ..OF_OTHERS },
            };
            return create(one, cores, units, limits);
        }
        match self.draw(8) {
            0 => Command::Destroy { name, force },
            1 => Command::Recall { from: name },
            2 => {
                let millis = self.draw(300) as u32;
                Command::Lend { from: name, to: self::name(other), cores: 1, millis }
            }
            3..6 => Command::Resize(Resize { name, cores: Some(cores), units: None, force }),
            _ => Command::Resize(Resize { name, cores: None, units: Some(units), force }),
        }
    }

    fn look<W: Words>(&mut self, ledger: &Ledger<W>, now: Instant) {
        for domain in ledger.domains().filter(|it| it.state.is_running()) {
            let slot = domain.id.slot;
            let limits = if domain.name == name(RED) { OF_RED } else { OF_OTHERS };
            let cores = ledger.cores_with(|it| it.counts(slot) && it.phase != Phase::Dirty).len();
            let units = ledger.units_with(|it| it.counts(slot) && it.phase != Phase::Dirty);
            let own = ledger.cores_with(|it| it.is_own(slot)).len();
            let most = (usize::from(limits.cores.1), limits.units.1);
            if cores > most.0 || units > most.1 || own < usize::from(limits.cores.0) {
                let what = format!("I7: {} has {cores} cores, {own} of its own", domain.name);
                self.note(format!("{what}, and {units} units at {now}"));
            }
        }
        self.look_at_red(ledger, now);
    }

    fn look_at_red<W: Words>(&mut self, ledger: &Ledger<W>, now: Instant) {
        let domain = ledger.named(name(RED)).filter(|it| it.state.is_running());
        let held = |id: DomainId| {
            let is_its = |thing: &Thing| {
                let it = ledger.holding(*thing);
                it.is_of(id.slot) && it.phase == Phase::Held && it.lender == Party::Pool
            };
            ledger.things().filter(is_its).collect::<Vec<_>>()
        };
        match (&self.red, domain) {
            (None, Some(it)) => self.red = Some(Red { id: it.id, has: held(it.id) }),
            (Some(red), Some(it)) if it.id == red.id && held(it.id) == red.has => {}
            (Some(red), _) => {
                let what = format!("I8: {} had {:?}", red.id, red.has);
                self.note(format!("{what}, and at {now} it is {domain:?}"));
            }
            (None, None) => {}
        }
        if self.heard.is_some_and(|before| now.since(before) > SILENCE) {
            self.note(format!("I8: red is silent at {now}"));
        }
    }
}
