//! What a run is about, and what befalls it: drawn from the seed.

use std::time::Duration;

use nile_interfaces::job::records::JobPhase;
use nile_switch::{Link, Probability};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Worker cores of a node.
pub const WORKERS: u64 = 2;

/// The phases of a sort after its submission, in their order.
pub const PHASES: [JobPhase; 4] =
    [JobPhase::Sampling, JobPhase::Mapping, JobPhase::Reducing, JobPhase::Ending];

/// How the parts of a run behave. Tests have them do wrong, so that the checks are seen to find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Conduct {
    /// One copy of the input has to do, and its node stays away: yet the sort is to succeed.
    pub wants_too_much: bool,
    /// One bit of the output is read wrongly.
    pub flips_a_bit: bool,
    /// A draft is left on a disk.
    pub leaves_a_draft: bool,
    /// A part of the output is removed from one of its nodes.
    pub removes_a_copy: bool,
    /// All of the output is removed before anybody reads it.
    pub removes_all: bool,
    /// A job over lines leaves out values.
    pub leaves_values_out: bool,
}

/// What the job does with its input, which is random bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// It sorts records.
    Sort,
    /// It has lines under so many keys, collects so many bytes of pairs at a time, and adds up
    /// values before they travel or not.
    Pairs { keys: u64, collected: u64, combines: bool },
}

/// One run.
#[derive(Clone, Debug)]
pub struct Plot {
    pub seed: u64,
    pub conduct: Conduct,
    pub work: Work,
    /// Nodes with disks.
    pub nodes: usize,
    pub rows: u64,
    pub reducers: u32,
    pub input_copies: u32,
    pub output_copies: u32,
    /// Bytes of pool for the job on each node; 0 for all.
    pub memory: u64,
    /// The node that the sort is submitted to, counted from zero.
    pub via: usize,
    pub blows: Vec<Blow>,
    pub link: Link,
    /// Whether nodes read what others send where these have it.
    pub shows_pools: bool,
    /// Whether the disks are so full that they have no room for the output.
    pub is_full: bool,
    /// Whether two other jobs run beside the sort.
    pub has_others: bool,
    /// How many packages of each node fault in the midst of what they do.
    pub package_faults: u32,
}

/// What befalls the cluster.
#[derive(Clone, Debug)]
pub struct Blow {
    pub when: When,
    pub what: What,
    /// How long a node stays away; `None` for until the sort has ended.
    pub away: Option<Duration>,
}

/// When it happens.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// This much after the sort is submitted.
    Submitted(Duration),
    /// This much after so many hundredths of the phase's tasks are done.
    In { phase: usize, percent: u64, after: Duration },
    /// This much after the first blow.
    Later(Duration),
}

/// What it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A worker core of a node restarts.
    Core(usize, u16),
    /// A node loses its power.
    Node(usize),
    /// The node of the sort's master does.
    Master,
    /// A node is cut off from all others, and lives.
    Apart(usize),
}

struct Dice(ChaCha8Rng);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound.max(1)
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    fn span(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(self.below(most.as_nanos() as u64))
    }
}

impl Plot {
    /// The run of a seed. Seeds that follow each other go through all phases and all kinds of
    /// what happens in them; the rest is chance.
    pub fn draw(seed: u64, nodes: usize, conduct: Conduct) -> Plot {
        let dice = &mut Dice(ChaCha8Rng::seed_from_u64(seed));
        let what = match seed / 5 % 4 {
            0 => What::Core(dice.below(nodes as u64) as usize, 2 + dice.below(WORKERS) as u16),
            1 => What::Node(dice.below(nodes as u64) as usize),
            2 => What::Apart(dice.below(nodes as u64) as usize),
            _ => What::Master,
        };
        let when = match (seed % 5) as usize {
            0 => When::Submitted(dice.span(Duration::from_millis(4))),
            later => {
                let (phase, percent) = (later - 1, dice.below(100));
                When::In { phase, percent, after: dice.span(Duration::from_micros(600)) }
            }
        };
        let mut blows = vec![Blow { when, what, away: away(dice) }];
        if dice.one_in(3) {
            let when = When::Later(dice.span(Duration::from_secs(6)));
            let what = match dice.below(3) {
                0 => What::Core(dice.below(nodes as u64) as usize, 2 + dice.below(WORKERS) as u16),
                1 => What::Node(dice.below(nodes as u64) as usize),
                _ => What::Master,
            };
            blows.push(Blow { when, what, away: away(dice) });
            // Two of three keepers may be away then; for ever would be too long.
            for blow in &mut blows {
                blow.away = blow.away.or(Some(Duration::from_secs(14)));
            }
        }
        let copies = |dice: &mut Dice| 1 + u32::from(!dice.one_in(3));
        let workers = WORKERS * nodes as u64;
        let mut plot = Plot {
            seed,
            conduct,
            work: Work::Sort,
            nodes,
            rows: 500 + dice.below(1500),
            reducers: 1 + dice.below(workers) as u32,
            input_copies: copies(dice),
            output_copies: copies(dice),
            memory: if dice.one_in(3) { 96 << 10 } else { 0 },
            via: dice.below(nodes as u64) as usize,
            blows,
            link: link(dice),
            is_full: dice.one_in(8),
            package_faults: u32::from(dice.one_in(4)),
            shows_pools: dice.one_in(2),
            has_others: false,
        };
        if dice.one_in(2) || conduct.leaves_values_out {
            let keys = [3, 40, 100_000][dice.below(3) as usize];
            let (collected, combines) = ((2 << 10) << dice.below(5), dice.one_in(3));
            plot.work = Work::Pairs { keys, collected, combines };
            // What it makes of much may be little.
            plot.is_full = false;
        }
        if plot.is_full {
            plot.rows += 1500;
            plot.blows.retain(|blow| matches!(blow.what, What::Core(..)));
        }
        plot.has_others = !plot.is_full && conduct == Conduct::default() && dice.one_in(2);
        if conduct.wants_too_much {
            let when = When::In { phase: 0, percent: 0, after: Duration::ZERO };
            let node = (plot.via + 1) % nodes;
            plot.blows = vec![Blow { when, what: What::Node(node), away: None }];
            (plot.input_copies, plot.is_full) = (1, false);
        }
        plot
    }
}

/// How long a node is away: it starts at once, or before most others have noticed, or after the
/// time in which they do; or long after its blocks count as lost.
fn away(dice: &mut Dice) -> Option<Duration> {
    let ms = Duration::from_millis;
    match dice.below(6) {
        0 => Some(ms(1) + dice.span(ms(50))),
        1 => Some(ms(100) + dice.span(ms(900))),
        2 | 3 => Some(ms(1000) + dice.span(ms(4000))),
        4 => Some(ms(12_000) + dice.span(ms(4000))),
        _ => None,
    }
}

fn link(dice: &mut Dice) -> Link {
    let good = Link { delay: Duration::from_micros(20), ..Link::default() };
    if !dice.one_in(4) {
        return good;
    }
    let percent = Probability::percent;
    Link { loss: percent(1), duplicate: percent(1), reorder: percent(2), ..good }
}
