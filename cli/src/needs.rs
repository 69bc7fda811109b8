//! What a command needs before it can run. The launcher asks (`nile needs boot --cores 4`),
//! installs and builds what is printed, one word a line, and passes on where it lies in the
//! environment. A command checks its own arguments here too, so that a wrong one is refused
//! before anything is installed or built for it.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;

use crate::args::{Command, Firmware, Machine, Nile};
use crate::cluster::args::Kind;
use crate::config::{self, File};
use crate::domain::args::DomainAction;
use crate::failure::Failure;
use crate::nearest::suggestion;
use crate::{boot, cluster, domain, image, packages, print, profile, run};

/// The bare kernel without symbols, as machines load it.
pub const KERNEL: &str = "NILE_KERNEL";
/// The bare kernel with chosen services, without symbols.
pub const KERNEL_ONLY: &str = "NILE_KERNEL_ONLY";
/// The whole kernel with symbols, for backtraces.
pub const KERNEL_SYMBOLS: &str = "NILE_KERNEL_SYMBOLS";
/// The bare kernel that runs scenarios.
pub const SCENARIOS: &str = "NILE_SCENARIOS";
/// The same kernel with symbols.
pub const SCENARIOS_SYMBOLS: &str = "NILE_SCENARIOS_SYMBOLS";
/// The program that is a hosted node.
pub const HOSTED: &str = "NILE_HOSTED";
/// The program that is a hosted node of the tests.
pub const HOSTED_SCENARIOS: &str = "NILE_HOSTED_SCENARIOS";
/// The folder with the project's packages, each as `NAME.elf`.
pub const PACKAGES: &str = "NILE_PACKAGES";
/// The folder with the same packages with symbols, each as `NAME`.
pub const PACKAGES_SYMBOLS: &str = "NILE_PACKAGES_SYMBOLS";
/// The program that carries out the commands of developers.
pub const DEVELOPERS: &str = "NILE_DEV";
/// The program that runs the benchmarks.
pub const BENCHES: &str = "NILE_BENCHES";
/// The program that a Linux guest runs.
pub const GUEST: &str = "NILE_GUEST";
/// The root of the source tree.
pub const ROOT: &str = "NILE_ROOT";

/// One thing that the launcher provides; it knows the names below.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Need {
    /// QEMU for x86_64.
    Qemu,
    /// GRUB and what writes ISO images.
    IsoTools,
    /// UEFI firmware for QEMU.
    Ovmf,
    /// Wireshark without its windows.
    Tshark,
    /// rustfmt and clippy.
    Lints,
    /// Python with environments for packages.
    Python,
    /// Java and Maven, for the peers that need them; without them those are not run.
    Java,
    /// The bare kernel, with and without its symbols.
    Kernel,
    /// The bare kernel with chosen services, with and without its symbols: the launcher's word for
    /// it is made by [`only`].
    KernelOnly(&'static str),
    /// The bare kernel that runs scenarios, with and without its symbols.
    Scenarios,
    /// The program that is a hosted node.
    Hosted,
    /// The program that is a hosted node and runs scenarios.
    HostedScenarios,
    /// The project's packages.
    Packages,
    /// That of them which sorts: a newcomer's first job waits for no other.
    Tera,
    /// The program that carries out the commands of developers, and what that needs for this one.
    Developers,
    /// The program that runs the benchmarks.
    Benches,
    /// The sort in one process that NileOS's is measured against.
    Reference,
    /// The program that a Linux guest runs.
    Guest,
    /// The program that speaks to a node's network, and stands in its place on Linux.
    NetPeer,
    /// iperf3, which measures a network.
    Iperf3,
    /// redis and memcached, beside which records in memory are measured.
    Stores,
}

impl Need {
    fn name(self) -> &'static str {
        match self {
            Need::Qemu => "qemu",
            Need::IsoTools => "iso-tools",
            Need::Ovmf => "ovmf",
            Need::Tshark => "tshark",
            Need::Lints => "lints",
            Need::Python => "python",
            Need::Java => "java",
            Need::Kernel => "kernel",
            Need::KernelOnly(word) => word,
            Need::Scenarios => "scenarios",
            Need::Hosted => "hosted",
            Need::HostedScenarios => "hosted-scenarios",
            Need::Packages => "packages",
            Need::Tera => "package-tera",
            Need::Developers => "dev",
            Need::Benches => "benches",
            Need::Reference => "reference",
            Need::Guest => "guest",
            Need::NetPeer => "net-peer",
            Need::Iperf3 => "iperf3",
            Need::Stores => "stores",
        }
    }
}

/// The kernel with these services, and with those that they need; the image carries `config`. A
/// service that there is not is refused, and so is a configuration that names one that is left out.
pub fn only(names: &[String], config: Option<&File>) -> Result<Need, Failure> {
    let services = nile_node::only(names.iter().map(String::as_str)).map_err(|unknown| {
        let known = nile_node::SERVICES.iter().map(|service| service.name());
        let suggestion = suggestion(unknown, known);
        Failure::request(format!("--only {unknown}: no service has that name; {suggestion}"))
    })?;
    config::read_for(config, &services)?;
    let names: Vec<&str> = services.iter().map(|service| service.name()).collect();
    // A command asks once in its life.
    Ok(Need::KernelOnly(format!("kernel-{}", names.join(",")).leak()))
}

/// What a command needs; refuses one that cannot be fulfilled.
pub type NeedsOf = fn(&Command) -> Result<Vec<Need>, Failure>;

/// Prints what the command `arguments` needs by `needs_of`; a wrong command is refused as it would
/// be itself.
pub fn show(arguments: &[OsString], needs_of: NeedsOf) -> Result<(), Failure> {
    let nile = match Nile::try_parse_from([&["nile".into()], arguments].concat()) {
        Ok(nile) => nile,
        // Help is printed by the command itself, and needs nothing.
        Err(error) if !error.use_stderr() => return Ok(()),
        Err(error) => error.exit(),
    };
    if let Some(config) = config_of(&nile.command) {
        config.leave();
    }
    let needs = needs_of(&nile.command)?;
    print(&needs.iter().map(|need| format!("{}\n", need.name())).collect::<String>())
}

/// The configuration file that a command reads.
fn config_of(command: &Command) -> Option<&File> {
    match command {
        Command::Boot(options) => options.config.as_ref(),
        Command::Up(options) => options.config.as_ref(),
        Command::Image(options) => options.config.as_ref(),
        _ => None,
    }
}

/// What a command of users needs. What to install comes before what to build, so that something
/// missing is told at once.
pub fn of_users(command: &Command) -> Result<Vec<Need>, Failure> {
    Ok(match command {
        Command::Boot(options) => {
            boot::check(options)?;
            let mut needs = match (options.machine, &options.iso, options.firmware) {
                (Machine::Hosted, ..) if options.only_boots() => vec![Need::Hosted],
                (Machine::Hosted, ..) => vec![Need::HostedScenarios],
                (Machine::Sim, ..) => return Ok(vec![Need::Developers]),
                (Machine::Qemu, None, _) if options.only_boots() => {
                    vec![Need::Qemu, Need::Kernel]
                }
                (Machine::Qemu, None, _) => vec![Need::Qemu, Need::Scenarios],
                (Machine::Qemu, Some(_), Firmware::Bios) => vec![Need::Qemu],
                (Machine::Qemu, Some(_), Firmware::Uefi) => vec![Need::Qemu, Need::Ovmf],
            };
            if packages::needs_own(options) {
                needs.push(Need::Packages);
            }
            needs
        }
        Command::Test(_) | Command::Bench(_) | Command::Sim(_) | Command::Guest(_) => {
            vec![Need::Developers]
        }
        Command::Image(options) => {
            image::check(options)?;
            let kernel = match &options.only[..] {
                [] => Need::Kernel,
                names => only(names, options.config.as_ref())?,
            };
            vec![Need::IsoTools, kernel]
        }
        Command::Up(options) => {
            let kinds = cluster::up::check(options)?;
            of_cluster(&kinds, options.program.is_some())
        }
        Command::Run(options) => {
            let mut needs = of_cluster(&run::check(options)?, false);
            needs.extend(run::package_of(options));
            needs
        }
        Command::Profile(options) => {
            let mut needs = of_cluster(&profile::check(options)?, false);
            needs.push(Need::Packages);
            needs
        }
        Command::Demo(_) => {
            vec![Need::Qemu, Need::Kernel, Need::Hosted, Need::Packages]
        }
        Command::Package(options) if cluster::packages::names_own(options) => {
            vec![Need::Packages]
        }
        Command::Servers(options) if cluster::servers::names_own(options) => vec![Need::Packages],
        Command::Fault(options) => {
            let kinds = cluster::fault::machine(options).into_iter();
            kinds.flat_map(|kind| of_nodes(kind, false)).collect()
        }
        Command::Domain(options) => match &options.action {
            DomainAction::Create { dry_run: false, options, .. }
            | DomainAction::Restart { options, .. }
                if domain::is_hosted(options) =>
            {
                vec![Need::Hosted]
            }
            DomainAction::Attack(options) if !options.list => {
                domain::attack::wanted(options)?;
                vec![Need::Qemu, Need::Scenarios]
            }
            _ => vec![],
        },
        Command::Status(_)
        | Command::Services(_)
        | Command::Discover(_)
        | Command::Call(_)
        | Command::Compose(_)
        | Command::Policies(_)
        | Command::Policy(_)
        | Command::Core(_)
        | Command::Deploy(_)
        | Command::Graph(_)
        | Command::Record(_)
        | Command::Door(_)
        | Command::Region(_)
        | Command::Roles(_)
        | Command::Net(_)
        | Command::Package(_)
        | Command::Servers(_)
        | Command::Jobs(_)
        | Command::Logs(_)
        | Command::Top(_)
        | Command::Down(_)
        | Command::Put(_)
        | Command::Get(_)
        | Command::Ls(_)
        | Command::Rm(_)
        | Command::Disk(_)
        | Command::Completions(_) => vec![],
        Command::Switch(_) | Command::Needs { .. } => vec![],
    })
}

/// What a cluster of such nodes needs, which serve or run a scenario.
fn of_cluster(kinds: &[Kind], scenario: bool) -> Vec<Need> {
    let kinds_there = [Kind::Qemu, Kind::Hosted].into_iter().filter(|it| kinds.contains(it));
    let packages = scenario.then_some(Need::Packages);
    kinds_there.flat_map(|kind| of_nodes(kind, scenario)).chain(packages).collect()
}

/// What nodes of a cluster need.
fn of_nodes(kind: Kind, scenario: bool) -> Vec<Need> {
    match (kind, scenario) {
        (Kind::Qemu, false) => vec![Need::Qemu, Need::Kernel],
        (Kind::Qemu, true) => vec![Need::Qemu, Need::Scenarios],
        (Kind::Hosted, false) => vec![Need::Hosted],
        (Kind::Hosted, true) => vec![Need::HostedScenarios],
    }
}

/// Where the launcher says that `variable`, one of the names above, lies.
pub fn provided(variable: &str) -> Result<PathBuf, Failure> {
    let path = env::var_os(variable).map(PathBuf::from).ok_or_else(|| {
        Failure::request(format!("{variable} is not set; start the command through ./nile"))
    })?;
    match path.exists() {
        true => Ok(path),
        false => Err(Failure::request(format!(
            "{variable} names {}, which does not exist; start the command through ./nile",
            path.display()
        ))),
    }
}

/// The program `name` on the search path, which Debian's `package` brings.
pub fn tool(name: &str, package: &str) -> Result<PathBuf, Failure> {
    env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .ok_or_else(|| {
            Failure::request(format!(
                "{name} is not installed; install it with: sudo apt-get install {package}"
            ))
        })
}
