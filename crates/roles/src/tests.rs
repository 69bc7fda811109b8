//! Every optimiser on small problems of all kinds, beside brute force.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{Instant, Role, RoleSet};
use proptest::prelude::*;

use crate::optimisers::{Exact, Greedy};
use crate::*;

const BUDGET: u32 = 500;
const UNBOUNDED: u32 = u32::MAX;

fn set(roles: &[Role]) -> RoleSet {
    roles.iter().copied().collect()
}

const MOVABLE: [Role; 3] = [Role::Network, Role::Disk, Role::Worker];

/// The node that a configuration without roles gives: one core manages, one has the devices.
fn node(cores: usize) -> Vec<Core> {
    let may = set(&MOVABLE);
    let mut all = vec![Core::usual(set(&[Role::Worker]), may, 1000); cores];
    all[0] = Core::usual(set(&[Role::Management]), RoleSet::EMPTY, 1000).pinned();
    all[1].now = set(&[Role::Network, Role::Disk]);
    all
}

fn some_core() -> impl Strategy<Value = Core> {
    let speed = prop_oneof![Just(1000u32), Just(600), 0u32..3000];
    let speeds = prop_oneof![
        speed.clone().prop_map(|speed| [speed; 4]),
        [speed.clone(), speed.clone(), speed.clone(), speed]
    ];
    let change = prop_oneof![Just(2_000u32), Just(0), 0u32..100_000];
    (1u8..16, 0u8..16, 0u8..16, speeds, change).prop_map(|(now, keeps, may, speed, change)| Core {
        now: RoleSet::from_bits(now),
        keeps: RoleSet::from_bits(keeps & now),
        may: RoleSet::from_bits(may),
        speed,
        change,
    })
}

fn some_problem(cores: usize) -> impl Strategy<Value = Problem> {
    // Cores that are alike, too: with the same pattern for several.
    let cores = prop::collection::vec((some_core(), 1usize..4), 1..=cores).prop_map(move |parts| {
        let all = parts.into_iter().flat_map(|(core, count)| vec![core; count]);
        all.take(cores).collect::<Vec<_>>()
    });
    (cores, [0u64..4_000_000, 0u64..4_000_000, 0u64..4_000_000, 0u64..4_000_000])
        .prop_map(|(cores, demand)| Problem::new(cores, &demand).unwrap())
}

/// The least that any legal assignment costs.
fn brute_force(problem: &Problem) -> Cost {
    let mut at = vec![0; problem.cores()];
    let mut least = Cost::MOST;
    loop {
        let roles: Vec<_> = at.iter().enumerate().map(|(c, i)| problem.choices(c)[*i]).collect();
        least = least.min(problem.cost(&roles).unwrap_or(Cost::MOST));
        let next = (0..at.len()).find(|core| at[*core] + 1 < problem.choices(*core).len());
        let Some(next) = next else { return least };
        at[next] += 1;
        at[..next].fill(0);
    }
}

fn check(problem: &Problem, seed: u64) -> Result<(), TestCaseError> {
    for optimiser in ALL {
        let answer = choose(optimiser, problem, BUDGET, seed);
        let name = optimiser.name();
        prop_assert!(problem.is_legal(&answer.roles), "{} {:?}", name, answer);
        prop_assert_eq!(problem.cost(&answer.roles), Some(answer.cost), "{}", name);
        prop_assert!(answer.cost <= answer.stays, "{} {:?}", name, answer);
        prop_assert!(answer.cost >= problem.floor(), "{} {:?}", name, answer);
        prop_assert!(answer.evaluations <= BUDGET, "{} {:?}", name, answer);
        prop_assert_eq!(&choose(optimiser, problem, BUDGET, seed), &answer, "{}", name);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn answers_are_legal_repeatable_and_never_worse_than_staying(
        problem in some_problem(9), seed: u64
    ) {
        check(&problem, seed)?;
    }

    #[test]
    fn the_exact_one_finds_what_brute_force_finds(problem in some_problem(5), seed: u64) {
        let found = choose(&Exact, &problem, UNBOUNDED, seed);
        prop_assert_eq!(found.cost, brute_force(&problem));
    }

    #[test]
    fn what_is_mended_is_legal(problem in some_problem(9), seed: u64) {
        let mut random = Random::new(seed);
        let draw = |core| problem.choices(core)[random.below(problem.choices(core).len())];
        let mut roles: Vec<RoleSet> = (0..problem.cores()).map(draw).collect();
        let was_legal = problem.is_legal(&roles);
        let before = roles.clone();
        problem.repair(&mut roles);
        prop_assert!(problem.is_legal(&roles));
        prop_assert!(!was_legal || roles == before);
    }

    #[test]
    fn no_budget_is_enough_to_stay(problem in some_problem(6), budget in 0u32..5) {
        for optimiser in ALL {
            let answer = choose(optimiser, &problem, budget, 1);
            prop_assert!(answer.evaluations <= budget && problem.is_legal(&answer.roles));
        }
    }
}

#[test]
fn the_last_core_of_a_role_and_the_managing_one_stay() {
    // Everything is asked of the workers, and nothing of the others.
    let problem = Problem::new(node(6), &[0, 0, 0, 9_000_000]).unwrap();
    for optimiser in ALL {
        let roles = choose(optimiser, &problem, 2_000, 7).roles;
        assert_eq!(roles[0], set(&[Role::Management]), "{}", optimiser.name());
        for role in Role::ALL {
            assert!(roles.iter().any(|set| set.contains(role)), "{}", optimiser.name());
        }
    }
    // Nor does anybody get a role that the node has not.
    let cores = vec![Core::usual(set(&[Role::Worker]), set(&MOVABLE), 0); 3];
    let problem = Problem::new(cores, &[0, 5_000_000, 0, 1_000]).unwrap();
    assert_eq!(choose(&Exact, &problem, 2_000, 7).roles, problem.now());
}

#[test]
fn cores_go_where_the_work_is() {
    let problem = Problem::new(node(16), &[100_000, 7_000_000, 4_000_000, 300_000]).unwrap();
    let answer = choose(&Exact, &problem, UNBOUNDED, 1);
    let with = |role| answer.roles.iter().filter(|set| set.contains(role)).count();
    assert_eq!(
        (with(Role::Network), with(Role::Disk), with(Role::Worker)),
        (9, 6, 1),
        "{answer:?}"
    );
    assert!(answer.cost < Cost(1_000_000) && answer.stays > Cost(10_000_000), "{answer:?}");
    // The plain searches, too, find half of what there is to gain and more.
    for optimiser in ALL {
        let found = choose(optimiser, &problem, 4_000, 1);
        assert!(found.cost.0 < found.stays.0 / 2, "{}: {found:?}", optimiser.name());
    }
}

#[test]
fn a_change_has_to_be_worth_its_price() {
    let demand = [0, 1_100_000, 900_000, 12_000_000];
    let mut cores = node(16);
    let gains = Problem::new(cores.clone(), &demand).unwrap();
    assert!(choose(&Exact, &gains, UNBOUNDED, 1).cost < gains.cost(&gains.now()).unwrap());
    cores.iter_mut().for_each(|core| core.change = 2_000_000);
    let dear = Problem::new(cores, &demand).unwrap();
    assert_eq!(choose(&Exact, &dear, UNBOUNDED, 1).roles, dear.now());
}

#[test]
fn equal_cores_are_counted_and_not_told_apart() {
    let problem = Problem::new(node(64), &[100_000, 7_000_000, 24_000_000, 30_000_000]).unwrap();
    let answer = choose(&Exact, &problem, UNBOUNDED, 1);
    assert!(answer.evaluations < 20_000, "{answer:?}");
    assert!(answer.cost <= choose(&Greedy, &problem, UNBOUNDED, 1).cost);
}

#[test]
fn what_cannot_be_a_node_is_refused() {
    assert_eq!(Problem::new(Vec::new(), &[0; 4]).unwrap_err(), Unfit::NoCores);
    let many = vec![node(2)[1]; MOST_CORES + 1];
    assert_eq!(Problem::new(many, &[0; 4]).unwrap_err(), Unfit::TooMany(MOST_CORES + 1));
    let mut idle = node(3);
    idle[2].now = RoleSet::EMPTY;
    assert_eq!(Problem::new(idle, &[0; 4]).unwrap_err(), Unfit::NoRole(2));
    // Any number that may be asked is only large.
    let most = vec![Core { speed: [u32::MAX; 4], change: u32::MAX, ..node(2)[1] }; MOST_CORES];
    let problem = Problem::new(most, &[u64::MAX; 4]).unwrap();
    assert!(choose(&Greedy, &problem, 100, 1).cost > Cost(0));
}

#[test]
fn time_is_a_workers_or_divided_by_what_is_in_line() {
    let milli = Duration::from_millis;
    let load =
        Load { busy: milli(800), user: milli(600), idle: milli(200), queues: [0, 300, 100, 0] };
    let io = set(&[Role::Network, Role::Disk]);
    assert_eq!(load.shares(io), [0, 600_000, 200_000, 0]);
    let all = RoleSet::ALL;
    assert_eq!(load.shares(all), [0, 150_000, 50_000, 600_000]);
    let unseen = Load { queues: [0; 4], ..load };
    assert_eq!(unseen.shares(io), [0, 400_000, 400_000, 0]);
    assert_eq!(Load::default().shares(all), [0; 4]);
    let slow = [500; 4];
    let asked = demand([(io, &slow, &load), (io, &slow, &load)].into_iter());
    // A core that serves both does nine tenths of what it does with one alone.
    assert_eq!(asked, [0, 540_000, 180_000, 0]);
}

/// Has a mechanism follow what is asked at each second; says how often a core changed, and when.
fn follow(
    damped: &mut Damped,
    seconds: u64,
    asked: impl Fn(u64) -> PerRole<u64>,
) -> Vec<(u64, usize)> {
    let mut cores = node(16);
    let mut changes = Vec::new();
    for look in 0..seconds * 4 {
        let second = look / 4;
        let now = Instant::START + Duration::from_millis(250 * look);
        damped.observe(&asked(second), Duration::from_millis(250));
        let answer = damped.decide(&Exact, cores.clone(), now, UNBOUNDED, second).unwrap();
        let Some(answer) = answer else { continue };
        let before: Vec<_> = cores.iter().map(|core| core.now).collect();
        damped.changed(&before, &answer.roles, now);
        for (core, roles) in answer.roles.iter().enumerate() {
            if cores[core].now != *roles {
                cores[core].now = *roles;
                changes.push((second, core));
            }
        }
    }
    changes
}

const IMPORT: PerRole<u64> = [0, 8_000_000, 5_000_000, 500_000];
const COMPUTE: PerRole<u64> = [0, 200_000, 300_000, 12_000_000];

#[test]
fn a_core_that_changed_stays_and_whoever_alternates_is_met_in_the_middle() {
    // Two kinds of work, for a minute each: the node follows both at once.
    let mut damped = Damped::default();
    let long = |second| if second / 60 % 2 == 0 { IMPORT } else { COMPUTE };
    let changes = follow(&mut damped, 600, long);
    for minute in 0..10 {
        assert!(changes.iter().any(|(second, _)| *second == minute * 60), "{changes:?}");
    }
    assert_eq!(damped.quiet(), QUIET);
    // No core changes twice in the time for which it is held.
    for (index, (second, core)) in changes.iter().enumerate() {
        let again = changes[index + 1..].iter().find(|(_, other)| other == core);
        assert!(again.is_none_or(|(later, _)| later - second >= HOLD.as_secs()), "{changes:?}");
    }

    // Two kinds of work that alternate just slower than that.
    for period in [1, 3, 6, 10] {
        let mut damped = Damped::default();
        let short = |second| if second / period % 2 == 0 { IMPORT } else { COMPUTE };
        let changes = follow(&mut damped, 600, short);
        let late = changes.iter().filter(|(second, _)| *second >= 300).count();
        assert!(late <= 5 * 16, "every {period} s: {late} of {}", changes.len());
        assert!(damped.quiet() > QUIET, "every {period} s");
    }
}

/// What it answers is nowhere near a legal assignment.
struct Hostile;

impl Optimiser for Hostile {
    fn name(&self) -> &'static str {
        "hostile"
    }

    fn explain(&self) -> &'static str {
        "takes everything from everybody"
    }

    fn search(&self, search: &mut Search<'_>) -> Result<(), Spent> {
        search.offer(Cost(0), &[]);
        search.offer(Cost(0), &vec![RoleSet::EMPTY; search.problem().cores()]);
        search.offer(Cost(0), &vec![set(&[Role::Worker]); search.problem().cores()]);
        loop {
            search.cost(&vec![RoleSet::ALL; search.problem().cores() * 2])?;
        }
    }
}

#[test]
fn what_is_not_legal_changes_nothing() {
    let problem = Problem::new(node(8), &IMPORT).unwrap();
    let answer = choose(&Hostile, &problem, 100, 1);
    assert_eq!((answer.roles, answer.evaluations), (problem.now(), 100));
    let mut damped = Damped::default();
    (0..2).for_each(|_| damped.observe(&IMPORT, Duration::from_secs(1)));
    assert_eq!(damped.decide(&Hostile, node(8), Instant::START, 100, 1), Ok(None));
}
