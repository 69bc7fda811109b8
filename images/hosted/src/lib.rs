//! Hosted images: a node as a Linux process. They bind the kernel to the hosted machine and do
//! nothing else. A program names what its nodes can be started for; [`main`] is its life.
//!
//! Standard output carries the node's report (RFC 7464), standard error its log. Exit status 0:
//! it happened; 1: it started and failed; 2: the request was wrong, nothing was started; 130: a
//! signal ended it.
#![forbid(unsafe_code)]

mod options;

use std::fs;
use std::process::ExitCode;
use std::sync::OnceLock;

use nile_abi::ethernet::STANDARD_FRAME;
use nile_abi::{MacAddress, Role, RoleSet};
use nile_kernel::{Config, ConfigError, Core, Named};
use nile_node::Programs;
use nile_package::{BootModule, Store};
use nile_platform::Outcome;
use nile_platform_hosted::{
    Boot, Cable, End, Hosted, Link, Outside, Setup, StartError, be_worker, run_node,
};

use crate::options::Options;

const FAILED: u8 = 1;
const WRONG_REQUEST: u8 = 2;
const INTERRUPTED: u8 = 130;

/// Runs the node that the command line asks for, or a core of it, to its end.
pub fn main<P: Programs<Hosted>>() -> ExitCode {
    // Worker cores are this same program: they leave here.
    if let Some(status) = be_worker(core_main::<P>) {
        return status;
    }
    match setup(P::check).and_then(|setup| run(setup, core_main::<P>)) {
        Ok(End::Finished(Outcome::Success)) => ExitCode::SUCCESS,
        Ok(End::Finished(Outcome::Failure)) => ExitCode::from(FAILED),
        Ok(End::Interrupted) => ExitCode::from(INTERRUPTED),
        Err((status, message)) => {
            eprintln!("nile-hosted: {message}");
            ExitCode::from(status)
        }
    }
}

/// An exit status and why.
type Refused = (u8, String);

/// The node that the command line asks for, which may run what `check` lets pass.
fn setup(check: fn(&str) -> Result<(), String>) -> Result<Setup, Refused> {
    let wrong = |message| (WRONG_REQUEST, message);
    let options = Options::from_command_line().map_err(wrong)?;
    let text = options.config_text().map_err(wrong)?;
    let misconfigured = |error| wrong(options.misconfigured(&error));
    let config = nile_node::configuration(&text).map_err(misconfigured)?;
    if let Some(kept) = config.supervisor {
        let message = "[supervisor] is for a PC; hosted domains are made with `nile up --machine \
                       hosted --supervisor`";
        return Err(misconfigured(ConfigError { line: Some(kept.line), message: message.into() }));
    }
    let roles = nile_node::roles(&config, options.cores).map_err(misconfigured)?;
    let pool = config.pool_bytes(options.memory).map_err(misconfigured)?;
    let packages = options.packages_path().map_err(wrong)?;
    read_packages(&packages).map_err(wrong)?;
    check(&options.program)
        .map_err(|error| wrong(format!("--program {}: {error}", options.program)))?;
    let links = links(&options, &config, &roles).map_err(wrong)?;
    Ok(Setup {
        roles,
        memory: options.memory,
        most_memory: options.most_memory,
        pool,
        disks: options.disks.clone(),
        links,
        files: options.files.clone(),
        shared: options.shared.clone(),
        samples: options.samples.clone(),
        boot: Boot { config: text, packages, program: options.program },
    })
}

/// The network interfaces, if the node has any: one for each network core, of which the first is
/// called what the node is, or a single device of Linux.
fn links(options: &Options, config: &Config, roles: &[RoleSet]) -> Result<Vec<Link>, String> {
    let outside = match (&options.interface, &config.interface) {
        (Some(outside), _) => Some(outside.clone()),
        (None, Some(Named { name, line })) => {
            let wrong = |message| ConfigError { line: Some(*line), message };
            Some(Outside::parse(name).map_err(|said| options.misconfigured(&wrong(said)))?)
        }
        (None, None) => None,
    };
    let cable = match (&options.switch, outside.clone()) {
        (Some(_), Some(_)) => return Err("a node is on a switch or on an interface".into()),
        (Some(switch), None) => Some(Cable::Switch(switch.clone())),
        (None, outside) => outside.map(Cable::Outside),
    };
    let direct = options.direct.clone();
    if cable.is_none() && direct.is_none() {
        return Ok(Vec::new());
    }
    let Some(membership) = &config.membership else {
        return Err("a node on a network needs an id: the configuration gives none".into());
    };
    let node = membership.node;
    let (mut first, mut max_frame) = (MacAddress::local(node, 0), options.max_frame);
    if let Some(outside) = &outside {
        let theirs = outside.address().map_err(|error| format!("interface {outside}: {error}"))?;
        first = theirs.unwrap_or(first);
        max_frame = outside.max_frame().map_or(max_frame, |most| most.min(max_frame));
        if max_frame < STANDARD_FRAME {
            return Err(format!("interface {outside} takes no frames of {STANDARD_FRAME} bytes"));
        }
    }
    let drivers = roles.iter().filter(|roles| roles.contains(Role::Network)).count();
    let drivers = if outside.is_some() { 1 } else { u8::try_from(drivers).unwrap_or(u8::MAX) };
    let link = |index: u8| Link {
        cable: cable.clone(),
        direct: direct.clone(),
        name: if index == 0 { node.to_string() } else { format!("{node}.{index}") },
        address: if index == 0 { first } else { MacAddress::local(node, index) },
        max_frame,
    };
    Ok((0..drivers).map(link).collect())
}

fn run(setup: Setup, core_main: fn(Hosted, &Boot) -> Outcome) -> Result<End, Refused> {
    run_node(setup, core_main).map_err(|error: StartError| {
        let status = if error.is_bad_request() { WRONG_REQUEST } else { FAILED };
        (status, error.to_string())
    })
}

/// The packages in the archive at `path`. A process reads it once in its life.
fn read_packages(path: &str) -> Result<Store, String> {
    static READ: OnceLock<Result<Store, String>> = OnceLock::new();
    let read = || {
        if path.is_empty() {
            return Ok(Store::Empty);
        }
        let module = fs::read(path).map_err(|error| format!("{path}: {error}"))?;
        let module =
            BootModule::parse(module.leak()).map_err(|error| format!("{path}: {error}"))?;
        Ok(module.packages)
    };
    READ.get_or_init(read).clone()
}

/// What runs on every core.
fn core_main<P: Programs<Hosted>>(machine: Hosted, boot: &Boot) -> Outcome {
    live(machine, boot, P::start)
}

/// One core's whole life. The kernel is compiled for this machine here, once for all images.
fn live(machine: Hosted, boot: &Boot, start: fn(&Core<Hosted>, &str)) -> Outcome {
    let mut config =
        Config::parse(&boot.config).expect("it was parsed before the node was started");
    config.packages = read_packages(&boot.packages)
        .expect("it was read before the node was started, and must stay as long as the node runs");
    nile_kernel::run(machine, &config, |core| start(core, &boot.program))
}
