//! Packages that mean harm, by calls that each seem sound: what they leave behind on their core
//! and on the node.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use nile_abi::call::{System, SystemCall};
use nile_abi::{CoreId, Role, RoleSet, Status};
use nile_bosml::discovery;
use nile_kernel::packages::MAX_ARGUMENT_BYTES;
use nile_kernel::{Config, Core, Ended, LoadError, PackageLimits, ServiceCalls};
use nile_platform::Outcome;
use nile_platform_sim::options::Program;
use nile_platform_sim::{Faults, Finished, Options, SimMachine, simulate};
use nile_stl::relay::{self, Announcement};
use nile_stl::{CallResult, Stl};

/// Which of the simulator's packages they stand in for.
const PACKAGE: &str = "caller";

/// What their service is called.
const NAME: &str = "hostile";

const WORKER: CoreId = CoreId(1);

/// Runs `program` as often as `conduct` does, on the worker of a node with all services.
fn node<F>(seed: u64, program: Program, conduct: impl Fn(Core<SimMachine>) -> F) -> Finished
where
    F: Future<Output = ()> + 'static,
{
    let options = Options {
        seed,
        roles: vec![
            RoleSet::EMPTY.with(Role::Management).with(Role::Network).with(Role::Disk),
            RoleSet::EMPTY.with(Role::Worker),
        ],
        memory_bytes: 32 << 20,
        pool_bytes: 0,
        wake_mode: None,
        packages: vec![(PACKAGE, program)],
        disks: Vec::new(),
        files: Vec::new(),
        faults: Faults::default(),
        limit: Duration::from_secs(60),
    };
    let done = Rc::new(Cell::new(false));
    let mut config = Config::default();
    config.packages = nile_sim::STORE;
    let finished = simulate(&options, |machine| {
        let start = |core: &Core<SimMachine>| {
            let (stl, roles) = (core.stl(), core.roles());
            let (own, done) = (core.clone(), done.clone());
            let conducted = (core.id() == WORKER).then(|| conduct(core.clone()));
            core.spawn(async move {
                nile_services::deploy(&stl, roles).await;
                if let Some(conducted) = conducted {
                    conducted.await;
                    done.set(true);
                }
                while own.id() != WORKER && !done.get() {
                    own.sleep(Duration::from_millis(1)).await;
                }
                own.finish(Outcome::Success);
            });
        };
        Box::new(Core::start(machine, &config, start))
    });
    let finished =
        finished.unwrap_or_else(|stuck| panic!("seed {seed}: {stuck}\n{}", stuck.log.join("\n")));
    // A core that panics, here for a wrong package, begins anew.
    let log = finished.log.join("\n");
    assert!(!log.contains("panicked"), "seed {seed}: {log}");
    finished
}

/// The package's end.
async fn run(core: &Core<SimMachine>, argument: &[u8]) -> Ended {
    start(core, argument, PackageLimits::default()).ended().await.ended
}

fn start(
    core: &Core<SimMachine>,
    argument: &[u8],
    limits: PackageLimits,
) -> nile_kernel::Package<SimMachine> {
    let calls = ServiceCalls::new(&core.stl());
    let image = core.find_package(PACKAGE).expect("the simulator has it");
    core.run_package(image, argument, limits, calls).expect("the core is free")
}

/// Publishes a service with a method of the log, and this name, subsystem and `doc`.
fn publish(
    system: &dyn System,
    (subsystem, name): (&str, &'static str),
    doc: String,
) -> CallResult<Vec<u8>> {
    let mut schema = nile_services::log::REGISTRATION.interface.schema.clone();
    (schema.name, schema.doc) = (name.into(), doc.into());
    schema.methods = schema.methods[..1].to_vec().into();
    let announcement = Announcement {
        document: discovery::to_text(&schema),
        subsystem: subsystem.into(),
        capability: "lines".into(),
        keywords: Vec::new(),
        type_name: String::new(),
        attributes: Vec::new(),
    };
    let input = relay::encode(&announcement).expect("it is no longer than a message");
    let mut output = [0; 512];
    let answer = system.call(SystemCall::Publish, 0, &input, &mut output);
    relay::decode_end(&output[..answer.result()? as usize])
}

fn is_installed(stl: &Stl) -> bool {
    stl.installed().iter().any(|(published, _)| published.name() == NAME)
}

/// Publishes, and exits with 0, or with the status.
fn publisher(system: &dyn System, _: &[u8]) -> u64 {
    let end = publish(system, (NAME, NAME), String::new());
    end.map_or_else(|error| u64::from(error.status.code()), |_| 0)
}

#[test]
fn a_package_that_is_stopped_while_it_publishes_leaves_no_service() {
    let halfway = Rc::new(Cell::new(0));
    for seed in 0..10 {
        let count = halfway.clone();
        node(seed, publisher, move |core| {
            let count = count.clone();
            async move {
                let (stl, package) = (core.stl(), start(&core, b"", PackageLimits::default()));
                while !is_installed(&stl) {
                    core.sleep(Duration::from_nanos(100)).await;
                }
                package.stop();
                if package.ended().await.ended == Ended::Stopped {
                    count.set(count.get() + 1);
                }
                // Nothing is in the way of the next one.
                assert_eq!(run(&core, b"").await, Ended::Exited(0), "seed {seed}");
                core.sleep(Duration::from_millis(5)).await;
                assert!(!is_installed(&stl), "seed {seed}");
            }
        });
    }
    assert!(halfway.get() > 0, "none was stopped in time");
}

/// Publishes again and again what the registry refuses: there is a service that does the same.
/// Exits with how often the registry was asked.
fn squatter(system: &dyn System, _: &[u8]) -> u64 {
    let ends = (0..2000).map(|_| publish(system, ("log", NAME), String::new()));
    ends.filter(|end| end.as_ref().is_err_and(|it| it.status != Status::Busy)).count() as u64
}

#[test]
fn a_package_cannot_use_up_the_numbers_of_its_core() {
    node(1, squatter, |core| async move {
        let Ended::Exited(asked) = run(&core, b"").await else { panic!("it exits") };
        assert!((1..=256).contains(&asked), "{asked} numbers are used up");
    });
}

/// Publishes long documents. Exits with the kilobytes that were taken.
fn writer(system: &dyn System, _: &[u8]) -> u64 {
    const NAMES: [&str; 8] = ["w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8"];
    let taken =
        NAMES.iter().map_while(|name| publish(system, (name, name), "x".repeat(40_000)).ok());
    taken.count() as u64 * 40
}

#[test]
fn a_package_cannot_fill_the_registry_with_documents() {
    node(1, writer, |core| async move {
        let Ended::Exited(kilobytes) = run(&core, b"").await else { panic!("it exits") };
        assert!(kilobytes <= 128, "{kilobytes} KB are kept");
    });
}

/// One call for the log, of nothing but ends of lines.
fn flooder(system: &dyn System, _: &[u8]) -> u64 {
    system.call(SystemCall::Log, 0, &[b'\n'; 1024], &mut []).status
}

#[test]
fn one_call_for_the_log_writes_few_lines() {
    let finished = node(1, flooder, |core| async move {
        assert_eq!(run(&core, b"").await, Ended::Exited(0));
    });
    let lines = finished.log.iter().filter(|line| line.contains("p1:")).count();
    assert!((1..=16).contains(&lines), "{lines} lines");
}

fn measurer(_: &dyn System, argument: &[u8]) -> u64 {
    argument.iter().rposition(|byte| *byte == 7).map_or(0, |at| at as u64 + 1)
}

#[test]
fn an_argument_is_whole_up_to_its_longest_and_no_limit_confuses_the_kernel() {
    node(1, measurer, |core| async move {
        let longest = vec![7; MAX_ARGUMENT_BYTES];
        assert_eq!(run(&core, &longest).await, Ended::Exited(MAX_ARGUMENT_BYTES as u64));
        let longer = vec![7; MAX_ARGUMENT_BYTES + 1];
        assert_eq!(run(&core, &longer).await, Ended::NotLoaded(LoadError::Argument));
        let usual = PackageLimits::default();
        for bytes in [u64::MAX, u64::MAX - 4095, 1 << 63, 1 << 41] {
            for limits in [
                PackageLimits { stack_bytes: bytes, ..usual },
                PackageLimits { arena_bytes: bytes, ..usual },
                PackageLimits { arena_bytes: bytes, memory_bytes: u64::MAX, ..usual },
            ] {
                let ended = start(&core, b"", limits).ended().await.ended;
                assert!(matches!(ended, Ended::NotLoaded(_)), "{limits:?}: {ended}");
            }
        }
        let without = PackageLimits { arena_bytes: 0, ..usual };
        assert_eq!(start(&core, &[7], without).ended().await.ended, Ended::Exited(1));
    });
}
