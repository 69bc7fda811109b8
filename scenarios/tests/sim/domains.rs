//! A machine that a supervisor shares out to domains, in the simulator: what must never be ends
//! the run, and each of these checks is seen to find what it is for.

mod hand;

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use nile_abi::{CoreId, Generation, NodeId, PageSize, PhysAddr, Status};
use nile_domain::{Command, Create, DOMAINS, Limits, Name, Sizes, UNIT};
use nile_interfaces::core_manager::{CoreManagerClient, SharedUnits};
use nile_interfaces::domains::{DomainChange, DomainWanted, DomainsClient, SharedEntry};
use nile_interfaces::gossip::GossipClient;
use nile_kernel::{Config, Core};
use nile_platform::{Entry, Grant, Loop, Machine, Manager, Outcome, Wanted};
use nile_platform_sim::{
    Finished, Image, MachineOptions, Options, Plan, SimMachine, Stuck, Text, simulate_machine,
};
use nile_registry::Place;
use nile_scenarios::domain_steps::{self, Hand, SCENARIOS, carry_out};
use nile_services::ackermann::AckermannClient;
use nile_services::domains::supervise::Running;
use nile_sim::Nodes;
use nile_stl::{CallError, CallResult};

use crate::{options, passed};
use hand::SimHand;

/// A machine whose supervisor keeps a core and 64 MiB.
fn machine(seed: u64, cores: u16, units: u64) -> MachineOptions {
    let supervisor = Options { limit: Duration::from_secs(60), ..options(seed, 1) };
    MachineOptions { supervisor, cores, memory: units * UNIT, parts: (0, 0), zeroes: false }
}

fn run(options: &MachineOptions, command: &str) -> Result<Finished, Stuck> {
    simulate_machine(options, &Nodes { config: &Config::default(), command })
}

#[test]
fn domains_come_and_go() {
    for seed in 0..4 {
        let options = machine(seed, 2 + seed as u16 % 3, 40);
        let command = format!("domains cores={} units=20", options.cores.min(3));
        let finished = run(&options, &command).unwrap_or_else(|stuck| {
            panic!("{command}: {stuck}\n{}", stuck.log.join("\n"));
        });
        let report = passed(&finished, &command, seed);
        assert_eq!((report.cores.len(), report.memory.total_bytes), (1, 64 << 20));
        let figures = report.program.expect("a scenario has a report").figures;
        assert!(figures["words_found_memory_left_as_it_is"] > 100_000, "{figures:?}");
        assert_eq!(figures["words_found_memory_zeroed"], 0, "{figures:?}");
        assert!(finished.log.iter().any(|it| it.contains(" d1.g4.c0] panicked: ")));
        assert_eq!(run(&options, &command), Ok(finished), "the same seed, the same run");
    }
}

/// Nobody waits until a domain looks for messages by itself, and what comes may go at once, and
/// come back.
#[test]
fn domains_hear_at_once_what_they_are_told() {
    for (seed, times) in [(0, 1), (1, 4)] {
        let command = format!("domain-times rounds=2 times={times}");
        let finished = run(&machine(seed, 3, 640), &command).expect("it comes to its end");
        let report = passed(&finished, &command, seed);
        let figures = report.program.expect("a scenario has a report").figures;
        for what in ["core more", "core less", "memory more", "memory less"] {
            for round in 0..2 {
                let micros = figures[&format!("{what} {round}")];
                assert!(micros > 0, "{what}");
                assert!(times > 1 || micros < 20_000, "{what}: {micros} µs");
            }
        }
    }
}

/// A supervisor that serves, whose domains are nodes of its cluster.
struct Cluster;

fn config_of(node: u32) -> String {
    format!("[node]\nid = {node}\n[network]\nunsealed = true\n")
}

impl Image for Cluster {
    fn plan(&self, text: &Text, cores: usize, memory: u64) -> Result<Plan, String> {
        Nodes { config: &Config::default(), command: "serve" }.plan(text, cores, memory)
    }

    fn begin(&self, machine: SimMachine, text: Option<&Text>) -> Box<dyn Loop> {
        let config = Config::parse(&config_of(1)).expect("the test's configuration is valid");
        if text.is_some() {
            return Nodes { config: &config, command: "serve" }.begin(machine, text);
        }
        Box::new(Core::start(machine, &config, |core| {
            nile_node::deploy(core);
            if core.machine().manager().is_some() {
                let own = core.clone();
                core.spawn(async move {
                    // What does not hold panics, once.
                    let is_first = own.machine().generation() == Generation::FIRST;
                    let all = if is_first { use_domains(&own).await } else { return };
                    all.unwrap_or_else(|error| panic!("{error}"));
                    own.finish(Outcome::Success);
                });
            }
        }))
    }
}

/// What `nile domain` does, by the service that it asks.
async fn use_domains(core: &Core<SimMachine>) -> CallResult<()> {
    let stl = core.stl();
    let domains = until(core, async || DomainsClient::find(&stl).await).await?;
    for (node, name) in [(2, "web"), (3, "log")] {
        let wanted = DomainWanted {
            name: name.into(),
            cores: 2,
            units: 4,
            least_cores: 1,
            most_cores: 3,
            most_units: 8,
            priority: 1,
            disk: false,
        };
        let planned = domains.plan(wanted.clone()).await?;
        let made = domains.create(wanted, planned.place, config_of(node)).await?;
        assert_eq!((made.name.as_str(), made.state.as_str()), (name, "running"));
    }
    let at = |node, core| Place { node: NodeId(node), core: CoreId(core) };
    for (node, number) in [(2, 0), (2, 1), (3, 1)] {
        let call = async || {
            let callee = AckermannClient::find_at(&stl, at(node, number)).await?;
            callee.compute(2, 3).await
        };
        assert_eq!(until(core, call).await?, 9);
    }
    // Frames go between domains, too.
    let met = async || {
        let gossip = GossipClient::find_at(&stl, at(2, 0)).await?;
        let all = gossip.everyone().await?;
        let other = all.iter().any(|it| it.identity.node == 3);
        other.then_some(()).ok_or(CallError::new(Status::NotFound, "they have not met"))
    };
    until(core, met).await?;

    let change =
        DomainChange { cores: Some(3), units: Some(6), force: false, ..DomainChange::default() };
    let grown = domains.resize("web".into(), change).await?;
    assert_eq!((grown.cores.len(), grown.units), (3, 6));
    let call = async || AckermannClient::find_at(&stl, at(2, 2)).await?.compute(2, 3).await;
    assert_eq!(until(core, call).await?, 9);
    let change =
        DomainChange { cores: Some(2), units: Some(4), force: false, ..DomainChange::default() };
    let shrunk = domains.resize("web".into(), change).await?;
    assert_eq!(shrunk.cores.len(), 2);
    let cleared = async || {
        let free = domains.list().await?.free_units;
        (free == 8).then_some(()).ok_or(CallError::new(Status::Busy, "memory is not cleared"))
    };
    until(core, cleared).await?;
    for name in ["web", "log"] {
        domains.destroy(name.into(), false).await?;
    }
    let left = domains.list().await?;
    assert_eq!((left.domains, left.free_cores.len(), left.free_units), (vec![], 5, 16));
    Ok(())
}

/// What `attempt` gives once it succeeds; its last failure after ten seconds.
async fn until<T>(
    core: &Core<SimMachine>,
    attempt: impl AsyncFn() -> CallResult<T>,
) -> CallResult<T> {
    let limit = core.now() + Duration::from_secs(10);
    loop {
        match attempt().await {
            Err(_) if core.now() < limit => core.sleep(Duration::from_millis(5)).await,
            result => return result,
        }
    }
}

#[test]
fn domains_are_nodes_that_are_called_by_name_over_their_loops() {
    for seed in 0..4 {
        let finished = simulate_machine(&machine(seed, 5, 16), &Cluster).unwrap_or_else(|stuck| {
            panic!("{stuck}\n{}", stuck.log.join("\n"));
        });
        let log = finished.log.join("\n");
        assert!(!log.contains("c0] panicked"), "seed {seed}: {log}");
        assert_eq!(finished.outcome, Outcome::Success, "seed {seed}: {log}");
    }
}

/// What a node does that must never be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wrong {
    Nothing,
    /// A domain uses memory that nobody has offered it.
    TakesMemory,
    /// The supervisor clears memory that a domain uses.
    ClearsMemory,
    /// The supervisor clears what a domain is put together from.
    ClearsTables,
    /// The supervisor takes a core away that goes on.
    LosesCore,
    /// The supervisor lets a core in where no domain has a space.
    AdmitsAnywhere,
    /// The supervisor has a domain of the same generation begin in the place of another.
    BuildsTwice,
}

/// A supervisor that makes a domain, after which one of them does wrong.
struct Wronging(Wrong);

impl Image for Wronging {
    fn plan(&self, text: &Text, cores: usize, memory: u64) -> Result<Plan, String> {
        Nodes { config: &Config::default(), command: "boot" }.plan(text, cores, memory)
    }

    fn begin(&self, machine: SimMachine, text: Option<&Text>) -> Box<dyn Loop> {
        let (wrong, is_domain) = (self.0, text.is_some());
        Box::new(Core::start(machine, &Config::default(), |core| {
            if core.machine().manager().is_some() {
                let own = core.clone();
                core.spawn(async move {
                    match is_domain {
                        true => live(&own, wrong).await,
                        false => supervise(&own, wrong).await,
                    }
                });
            }
        }))
    }
}

/// A domain uses what it has, and perhaps more.
async fn live(core: &Core<SimMachine>, wrong: Wrong) {
    let given = core.machine().seated().expect("this is a domain").memory;
    if wrong == Wrong::TakesMemory {
        let last = PhysAddr(given.start.0 + given.bytes - UNIT);
        core.get_memory(Grant { start: last, bytes: UNIT }).await.expect("the records have it");
    }
    let mut pages = Vec::new();
    while let Ok(page) = core.allocate(PageSize::Large).await {
        pages.push(page);
    }
    core.sleep(Duration::from_secs(50)).await;
}

async fn supervise(core: &Core<SimMachine>, wrong: Wrong) {
    let manager = core.machine().manager().expect("this core manages");
    let domains = manager.domains().expect("this node supervises");
    let mut running = Running::begin(domains, core.now()).expect("there is room for a ledger");
    let name = Name::new(b"web").expect("a name");
    let limits = Limits { cores: (1, 2), units: (1, 4), priority: 0 };
    let create = Create { name, cores: 2, units: 4, limits, device: None };
    running.set_text(name, "boot", "");
    running.command(core.now(), &Command::Create(create)).expect("there is room");
    for _ in 0..200 {
        running.turn(domains, core.now());
        core.sleep(Duration::from_micros(200)).await;
    }
    let ledger = running.supervisor.ledger();
    let id = ledger.named(name).expect("it is there").id;
    let first = ledger.extents_with(|it| it.is_of(id.slot))[0].start;
    let unit = |unit: u32| {
        let start = PhysAddr(domains.memory().start.0 + u64::from(first + unit) * UNIT);
        Grant { start, bytes: UNIT }
    };
    match wrong {
        Wrong::ClearsMemory => domains.scrub(unit(2)),
        Wrong::ClearsTables => domains.scrub(unit(0)),
        Wrong::LosesCore => {
            let core = (0..3).find(|it| !domains.is_parked(*it)).expect("it runs");
            let word = Sizes::row(DOMAINS as u8 + 1) + usize::from(core);
            domains.ledger().words()[word].store(0, Relaxed);
        }
        Wrong::AdmitsAnywhere => {
            let parked = (0..3).find(|it| domains.is_parked(*it)).expect("it is");
            let (root, stack_top, node) = Default::default();
            let entry = Entry { hardware: parked, core: 1, root, stack_top, node };
            domains.admit(&entry).expect("that core is parked");
        }
        Wrong::BuildsTwice => {
            let parked = (0..3).find(|it| domains.is_parked(*it)).expect("it is");
            let wanted = Wanted {
                slot: id.slot,
                generation: id.generation,
                cores: &[parked],
                most: 1,
                memory: &[unit(4), unit(5)],
                most_memory: 2 * UNIT,
                disk: None,
                confines_disk: true,
                program: "boot",
                config: "",
            };
            domains.build(&wanted).expect("that core is parked");
        }
        Wrong::Nothing | Wrong::TakesMemory => {}
    }
    core.sleep(Duration::from_millis(50)).await;
    core.finish(Outcome::Success);
}

#[test]
fn what_must_never_be_ends_the_run() {
    let all = [
        (Wrong::TakesMemory, "I2: c0 of d1.g1 reaches"),
        (Wrong::ClearsMemory, "I5: c0 of the domain in place 1 still reaches"),
        (Wrong::ClearsTables, "I5: c0 of the domain in place 1 still reaches"),
        (Wrong::LosesCore, "I3: hardware core "),
        (Wrong::AdmitsAnywhere, "I3: "),
        (Wrong::BuildsTwice, "I4: d1.g1 comes after"),
    ];
    let options = machine(5, 3, 8);
    let fine = simulate_machine(&options, &Wronging(Wrong::Nothing)).expect("nothing is wrong");
    assert_eq!(fine.outcome, Outcome::Success, "{}", fine.log.join("\n"));
    for (wrong, why) in all {
        let stuck = simulate_machine(&options, &Wronging(wrong)).expect_err("it is wrong");
        let violation = stuck.violation.unwrap_or_default();
        assert!(violation.contains(why), "{wrong:?}: {violation}\n{}", stuck.log.join("\n"));
    }
}

/// What a hand does.
type Steps = dyn Fn(SimHand) -> Pin<Box<dyn Future<Output = Result<(), String>>>>;

/// A supervisor whose worker core is a user's hand.
struct Stepping<'a> {
    steps: &'a Steps,
    said: Rc<RefCell<Option<Result<(), String>>>>,
}

impl Image for Stepping<'_> {
    fn plan(&self, text: &Text, cores: usize, memory: u64) -> Result<Plan, String> {
        Cluster.plan(text, cores, memory)
    }

    fn begin(&self, machine: SimMachine, text: Option<&Text>) -> Box<dyn Loop> {
        if text.is_some() {
            return Cluster.begin(machine, text);
        }
        let config = Config::parse(&config_of(1)).expect("the test's configuration is valid");
        Box::new(Core::start(machine, &config, |core| {
            nile_node::deploy(core);
            let (core, said) = (core.clone(), self.said.clone());
            match core.machine().manager() {
                Some(_) => core.clone().spawn(async move {
                    while said.borrow().is_none() {
                        core.sleep(Duration::from_millis(1)).await;
                    }
                    core.finish(Outcome::Success);
                }),
                None => {
                    let steps = (self.steps)(SimHand { core: core.clone(), made: Vec::new() });
                    core.spawn(async move {
                        let done = steps.await;
                        *said.borrow_mut() = Some(done);
                    })
                }
            };
        }))
    }
}

/// Has a hand do this on a machine with six cores and so many units to give: what it says, and
/// how the run has ended.
fn step(seed: u64, units: u64, steps: &Steps) -> (Option<Result<(), String>>, Result<(), Stuck>) {
    let supervisor = Options {
        limit: Duration::from_secs(600),
        packages: nile_sim::PACKAGES.into(),
        ..options(seed, 2)
    };
    let memory = units * UNIT;
    let options = MachineOptions { supervisor, cores: 6, memory, parts: (0, 0), zeroes: true };
    let image = Stepping { steps, said: Rc::default() };
    let ended = simulate_machine(&options, &image);
    (image.said.take(), ended.map(drop))
}

#[test]
fn scenarios_of_every_machine_hold_in_the_simulator() {
    for scenario in SCENARIOS {
        // A domain gets more than 1 GiB where memory is what it is about.
        let units = if scenario == "domain-resize-memory" { 640 } else { 128 };
        // Packages that look for each other's packets take a while.
        let seeds = if scenario == "domain-ficm" { 1 } else { 3 };
        for seed in 0..seeds {
            let steps = move |mut hand: SimHand| -> Pin<Box<dyn Future<Output = _>>> {
                Box::pin(async move { carry_out(scenario, &mut hand).await })
            };
            let (said, ended) = step(seed, units, &steps);
            let log = ended.err().map(|stuck| format!("{stuck}\n{}", stuck.log.join("\n")));
            assert_eq!((said, log), (Some(Ok(())), None), "{scenario}, seed {seed}");
        }
    }
}

#[test]
fn what_is_shared_is_not_had_by_others_and_not_withdrawn_while_it_is_used() {
    /// Two domains, of which one has what is shared, and a package over it.
    async fn begin(hand: &mut SimHand) -> Result<SharedEntry, String> {
        for name in ["web", "batch"] {
            hand.create(&domain_steps::Wanted::new(name, 2).for_packages()).await?;
        }
        hand.share("primes", 1, &["batch"]).await?;
        hand.start(("batch", 1), "primes", "hold 2000000").await?;
        hand.shared("primes").await
    }
    let (said, ended) = step(1, 128, &|mut hand| {
        Box::pin(async move {
            let first = begin(&mut hand).await?.first;
            // A domain that says itself what it shares is not believed.
            let share = Some(SharedUnits { first, place: 1 });
            let manager = hand.of::<CoreManagerClient>("web", 0).await?;
            let made = manager.make_region("primes".into(), UNIT, share).await;
            let why = made.expect_err("it has it").to_string();
            assert!(why.contains("no supervisor has this node share that memory"), "{why}");
            Ok(())
        })
    });
    assert!(said == Some(Ok(())) && ended.is_ok(), "{said:?} {ended:?}");

    // A supervisor that does not wait until who has it has let go.
    let (_, ended) = step(1, 128, &|mut hand| {
        Box::pin(async move {
            begin(&mut hand).await?;
            let domains = hand.domains().await?;
            domains.unshare("primes".into(), Vec::new()).await.map_err(|it| it.to_string())?;
            hand.pause(Duration::from_secs(1)).await;
            Ok(())
        })
    });
    let violation = ended.expect_err("it is used").violation.unwrap_or_default();
    assert!(violation.contains("I5: c1 of the domain in place 2 still reaches"), "{violation}");
}
