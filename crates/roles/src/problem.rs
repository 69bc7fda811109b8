//! The problem: cores, what each may be, what is asked of each role, and what an assignment costs.
//!
//! An *assignment* gives each core a set of roles. Work for a role goes to any core that has it.
//! So what a set of roles is asked for has to fit on the cores that have any of them, and the set
//! for which this takes longest is the *bottleneck*: its time is the assignment's. That is exact
//! where a core is as quick in one of its roles as in another, and a lower bound elsewhere.

use alloc::vec::Vec;
use core::fmt;

use nile_abi::{Role, RoleSet};

/// One of each role, in the order of [`Role::ALL`].
pub type PerRole<T> = [T; Role::ALL.len()];

/// The most cores of a node.
pub const MOST_CORES: usize = 1024;

/// How many sets of roles there are, the empty one included.
const SETS: usize = 1 << Role::ALL.len();

/// What a core may be made, besides what stays with it: one role alone, or both kinds of devices.
pub const MENU: [RoleSet; 5] = [
    RoleSet::EMPTY,
    RoleSet::EMPTY.with(Role::Network),
    RoleSet::EMPTY.with(Role::Disk),
    RoleSet::EMPTY.with(Role::Network).with(Role::Disk),
    RoleSet::EMPTY.with(Role::Worker),
];

/// A core as an optimiser knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Core {
    /// Its roles now.
    pub now: RoleSet,
    /// Those that stay with it.
    pub keeps: RoleSet,
    /// Those that it may have besides, as [`MENU`] combines them.
    pub may: RoleSet,
    /// How much it does of each role, in thousandths of a usual core: less for a thread of a core
    /// that is shared, or for devices that are far away.
    pub speed: PerRole<u32>,
    /// What changing its roles costs: millionths of the node's time.
    pub change: u32,
}

impl Core {
    /// A core as quick as any, which can be all of `may`.
    pub fn usual(now: RoleSet, may: RoleSet, change: u32) -> Core {
        Core { now, keeps: RoleSet::EMPTY, may, speed: [1000; Role::ALL.len()], change }
    }

    /// The same, kept as it is.
    #[must_use]
    pub fn pinned(self) -> Core {
        Core { keeps: self.now, may: RoleSet::EMPTY, ..self }
    }

    /// What it may become; what it is now is always among it.
    fn choices(&self) -> Vec<RoleSet> {
        let union = |more: RoleSet| RoleSet::from_bits(self.keeps.bits() | more.bits());
        let allowed = MENU.iter().filter(|more| more.bits() & !self.may.bits() == 0);
        let mut choices: Vec<_> = allowed.map(|more| union(*more)).collect();
        choices.push(self.now);
        choices.retain(|set| !set.is_empty());
        nile_order::sort_by_key(&mut choices, |set| set.bits());
        choices.dedup();
        choices
    }
}

/// The time that a node needs for what is asked of it in a second, in millionths, and what getting
/// there costs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Cost(pub u64);

impl Cost {
    /// What no legal assignment costs.
    pub const MOST: Cost = Cost(u64::MAX);
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// Why there is nothing to choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// The node has no core.
    NoCores,
    /// It has more than [`MOST_CORES`].
    TooMany(usize),
    /// This core has no role now.
    NoRole(usize),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::NoCores => f.write_str("no core is described; describe each core of the node"),
            Unfit::TooMany(cores) => {
                write!(f, "{cores} cores are described; a node has {MOST_CORES} at most")
            }
            Unfit::NoRole(core) => {
                write!(f, "core {core} has no role now; say which roles it has")
            }
        }
    }
}

/// How much a core does for each set of roles, by the set's bits: as much as in the best of them.
type Speeds = [u32; SETS];

/// A node that may be assigned anew. Its assignment now is always legal.
#[derive(Clone, Debug)]
pub struct Problem {
    cores: Vec<Core>,
    choices: Vec<Vec<RoleSet>>,
    /// The choices, a bit for each set.
    allowed: Vec<u16>,
    speeds: Vec<Speeds>,
    /// Cores with the same number may become the same, are as quick, and cost as much to change.
    classes: Vec<u16>,
    /// What is asked of each set of roles.
    demands: [u64; SETS],
    /// The roles that the node has: each is some core's in every legal assignment.
    needed: RoleSet,
}

impl Problem {
    /// The problem of `cores` of which `demand` is asked, in millionths of a usual core for each
    /// role. What is asked of a role that no core has is left out, since no core can be given it.
    pub fn new(cores: Vec<Core>, demand: &PerRole<u64>) -> Result<Problem, Unfit> {
        match cores.len() {
            0 => return Err(Unfit::NoCores),
            count if count > MOST_CORES => return Err(Unfit::TooMany(count)),
            _ => {}
        }
        if let Some(core) = cores.iter().position(|core| core.now.is_empty()) {
            return Err(Unfit::NoRole(core));
        }
        let needed = cores.iter().flat_map(|core| core.now.iter()).collect::<RoleSet>();
        let bits = |index: usize| RoleSet::from_bits(index as u8);
        let asked = |set: RoleSet| -> u64 {
            let held = set.iter().filter(|role| needed.contains(*role));
            held.map(|role| demand[role as usize].min(MOST_DEMAND)).sum()
        };
        let speeds: Vec<Speeds> = cores
            .iter()
            .map(|core| {
                let quickest = |set: RoleSet| set.iter().map(|role| core.speed[role as usize]);
                core::array::from_fn(|index| quickest(bits(index)).max().map_or(0, |it| it.max(1)))
            })
            .collect();
        let choices: Vec<_> = cores.iter().map(Core::choices).collect();
        let mut classes: Vec<u16> = Vec::with_capacity(cores.len());
        for core in 0..cores.len() {
            let same = (0..core).find(|&other| {
                choices[core] == choices[other]
                    && speeds[core] == speeds[other]
                    && cores[core].change == cores[other].change
            });
            let next = classes.iter().max().map_or(0, |most| most + 1);
            let class = same.map_or(next, |other| classes[other]);
            classes.push(class);
        }
        let demands = core::array::from_fn(|index| asked(bits(index)));
        let mask = |sets: &Vec<RoleSet>| sets.iter().fold(0, |mask, set| mask | 1 << set.bits());
        let allowed = choices.iter().map(mask).collect();
        Ok(Problem { cores, choices, allowed, speeds, classes, demands, needed })
    }

    /// How many cores there are.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// The roles of each core now.
    pub fn now(&self) -> Vec<RoleSet> {
        self.cores.iter().map(|core| core.now).collect()
    }

    /// What a core may become, in a fixed order.
    pub fn choices(&self, core: usize) -> &[RoleSet] {
        &self.choices[core]
    }

    /// Cores of one class differ in nothing but what they are now.
    pub fn class(&self, core: usize) -> u16 {
        self.classes[core]
    }

    /// The roles that some core has to have.
    pub fn needed(&self) -> RoleSet {
        self.needed
    }

    /// What is asked of a role.
    pub fn demand(&self, role: Role) -> u64 {
        self.demands[RoleSet::EMPTY.with(role).bits() as usize]
    }

    /// Whether each core has what it may, and each role that the node has a core.
    pub fn is_legal(&self, assignment: &[RoleSet]) -> bool {
        let may = |(set, mask): (&RoleSet, &u16)| mask >> set.bits() & 1 == 1;
        assignment.len() == self.cores.len()
            && assignment.iter().zip(&self.allowed).all(may)
            && self.missing(assignment).is_empty()
    }

    /// What an assignment costs, or nothing if it is not legal.
    pub fn cost(&self, assignment: &[RoleSet]) -> Option<Cost> {
        self.is_legal(assignment).then(|| self.tally(assignment).cost(self))
    }

    /// What the cores of an assignment do together. Of those of the first classes only counts
    /// matter, so that equal cores are counted first.
    pub(crate) fn tally(&self, assignment: &[RoleSet]) -> Tally {
        let mut tally = Tally::default();
        let mut counts = [([0u64; SETS], 0); COUNTED];
        for (core, set) in assignment.iter().enumerate() {
            if *set != self.cores[core].now {
                tally.change += self.price(core);
            }
            match counts.get_mut(usize::from(self.classes[core])) {
                Some((counts, like)) => {
                    counts[usize::from(set.bits())] += 1;
                    *like = core;
                }
                None => tally.add(self, core, *set, 1),
            }
        }
        for (counts, like) in &counts {
            for (bits, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                tally.add(self, *like, RoleSet::from_bits(bits as u8), *count);
            }
        }
        tally
    }

    /// Whether a core has these roles now.
    pub fn is_now(&self, core: usize, set: RoleSet) -> bool {
        self.cores[core].now == set
    }

    /// What changing a core costs.
    pub fn price(&self, core: usize) -> u64 {
        self.cores[core].change.into()
    }

    /// What no assignment costs less than: everything on all cores at their best.
    pub fn floor(&self) -> Cost {
        let all = SETS - 1;
        let speed: u64 = self.speeds.iter().map(|speeds| u64::from(speeds[all])).sum();
        Cost(time(self.demands[all], speed))
    }

    /// Mends an assignment in which a role has no core: gives it to the first that can take it
    /// without leaving another role alone, or has everything stay as it is now.
    pub fn repair(&self, assignment: &mut [RoleSet]) {
        let mut holders = self.holders(assignment);
        for role in self.missing(assignment).iter() {
            let found = assignment.iter().enumerate().find_map(|(core, set)| {
                let spares = |to: &RoleSet| {
                    let lost = set.iter().filter(|lost| !to.contains(*lost));
                    to.contains(role) && lost.into_iter().all(|lost| holders[lost as usize] > 1)
                };
                let to = self.choices[core].iter().find(|to| spares(to))?;
                Some((core, *to))
            });
            let Some((core, to)) = found else {
                assignment.copy_from_slice(&self.now());
                return;
            };
            assignment[core] = to;
            holders = self.holders(assignment);
        }
    }

    fn holders(&self, assignment: &[RoleSet]) -> PerRole<u32> {
        let mut holders = [0; Role::ALL.len()];
        for role in assignment.iter().flat_map(|set| set.iter()) {
            holders[role as usize] += 1;
        }
        holders
    }

    fn missing(&self, assignment: &[RoleSet]) -> RoleSet {
        let held = assignment.iter().fold(0, |held, set| held | set.bits());
        RoleSet::from_bits(self.needed.bits() & !held)
    }
}

/// Of so many classes the cores are counted before they are added up.
const COUNTED: usize = 4;

/// What is taken for asked of a role at most: more than [`MOST_CORES`] cores do.
const MOST_DEMAND: u64 = 1 << 40;

/// How long work takes at a speed in thousandths.
fn time(work: u64, speed: u64) -> u64 {
    if work == 0 { 0 } else { work * 1000 / speed.max(1) }
}

/// How much the time of each role counts beside that of the bottleneck: one part of so many. What
/// is only as quick as another where it matters is better if it leaves more room elsewhere.
const ELSEWHERE: u64 = 64;

/// How much a core with several roles does of each, in thousandths of what it does with that alone:
/// its caches serve both, and a burst of one delays the other.
const MIXED: u64 = 900;

/// What is left of a core's speed where it has these roles.
pub(crate) fn speed_of(speed: u32, roles: RoleSet) -> u64 {
    let is_alone = roles.bits().is_power_of_two();
    u64::from(speed) * if is_alone { 1000 } else { MIXED } / 1000
}

/// What cores do together, as they are added up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    speeds: [u64; SETS],
    held: u8,
    /// What the changes cost.
    pub change: u64,
}

impl Tally {
    /// Adds `count` cores like `core` that have `set`.
    pub fn add(&mut self, problem: &Problem, core: usize, set: RoleSet, count: u64) {
        self.add_by(problem, core, set, count, |speed| speed_of(speed, set));
    }

    /// Adds `count` cores like `core`, each doing the work of all of `set` at its best.
    pub fn add_best(&mut self, problem: &Problem, core: usize, set: RoleSet, count: u64) {
        self.add_by(problem, core, set, count, u64::from);
    }

    fn add_by(
        &mut self,
        problem: &Problem,
        core: usize,
        set: RoleSet,
        count: u64,
        speed_of: impl Fn(u32) -> u64,
    ) {
        let own = &problem.speeds[core];
        let held = usize::from(set.bits());
        for (index, speed) in self.speeds.iter_mut().enumerate() {
            *speed += speed_of(own[index & held]) * count;
        }
        if count > 0 {
            self.held |= set.bits();
        }
    }

    /// Adds what others do.
    pub fn merge(&mut self, others: &Tally) {
        self.speeds.iter_mut().zip(&others.speeds).for_each(|(speed, more)| *speed += more);
        self.held |= others.held;
        self.change += others.change;
    }

    /// Whether each role that the problem needs has a core.
    pub fn covers(&self, problem: &Problem) -> bool {
        problem.needed.bits() & !self.held == 0
    }

    /// The time of the bottleneck.
    pub fn bottleneck(&self, problem: &Problem) -> u64 {
        self.tightest(problem).0
    }

    /// The time of the bottleneck, and the roles that are it.
    pub(crate) fn tightest(&self, problem: &Problem) -> (u64, RoleSet) {
        let mut tightest = (0, RoleSet::EMPTY);
        for (index, (work, speed)) in problem.demands.iter().zip(&self.speeds).enumerate() {
            let time = time(*work, *speed);
            if time > tightest.0 {
                tightest = (time, RoleSet::from_bits(index as u8));
            }
        }
        tightest
    }

    /// How long the work of a role takes without a core that has `set`: for ever if it is the last.
    pub(crate) fn time_without(
        &self,
        problem: &Problem,
        core: usize,
        set: RoleSet,
        role: Role,
    ) -> u64 {
        let index = usize::from(RoleSet::EMPTY.with(role).bits());
        let speed = self.speeds[index].saturating_sub(speed_of(problem.speeds[core][index], set));
        if speed == 0 { u64::MAX } else { time(problem.demands[index], speed) }
    }

    /// What that costs.
    pub fn cost(&self, problem: &Problem) -> Cost {
        let alone = Role::ALL.map(|role| {
            let index = usize::from(RoleSet::EMPTY.with(role).bits());
            time(problem.demands[index], self.speeds[index])
        });
        let elsewhere = alone.iter().sum::<u64>() / ELSEWHERE;
        Cost(self.bottleneck(problem) + elsewhere + self.change)
    }
}
