//! The package `gauge`, which measures in domains. What it has found is read in their logs.

use std::thread;
use std::time::{Duration, Instant};

use super::machine::Machine;
use crate::figure::Failure;
use crate::place::Cpu;

/// How often it is looked whether packages have measured, and how long at most.
const LOOK: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(40);

/// What stands in the log before what was measured.
const MEASURED: &str = "measured ";

/// A domain whose worker cores run the package.
pub struct Domain<'m> {
    machine: &'m Machine,
    name: &'static str,
    /// The node that it is, and its number among domains.
    node: String,
    place: u16,
}

/// What a core is to do.
pub struct Task<'d> {
    /// Whose core.
    pub domain: &'d Domain<'d>,
    /// Which.
    pub core: u16,
    /// What the package is told.
    pub argument: String,
    /// Whether it says what it has found: who follows another one does not.
    pub tells: bool,
}

impl<'m> Domain<'m> {
    /// Makes one with a worker core on each of these CPUs. All else of it is on `rest`.
    pub fn create(
        machine: &'m Machine,
        name: &'static str,
        rest: Cpu,
        workers: &[Cpu],
    ) -> Result<Domain<'m>, Failure> {
        let cores = (1 + workers.len()).to_string();
        let create = ["domain", "create", name, "--cores", &cores, "--memory", "64M"];
        let made = machine.document(&[&create[..], &["--disk", "64M"]].concat())?;
        let node = made["node"].as_str().unwrap_or_default();
        // The supervisor's node is n1.
        let place = node.strip_prefix('n').and_then(|it| it.parse::<u16>().ok()?.checked_sub(1));
        let place = place.ok_or_else(|| Failure::Node(format!("no node of a domain: {made}")))?;
        machine.pin(node, rest, workers)?;
        Ok(Domain { machine, name, node: node.into(), place })
    }

    /// The node that it is.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Its number among members of a post.
    pub fn place(&self) -> u16 {
        self.place
    }

    /// All that was ever measured there.
    fn found(&self) -> Result<Vec<f64>, Failure> {
        let log = self.machine.log(&self.node)?;
        let said = log.lines().filter_map(|line| line.split_once(MEASURED));
        Ok(said.filter_map(|(_, rest)| rest.split(' ').next()?.parse().ok()).collect())
    }

    /// Starts the package on a core. The one before may have yet to end.
    pub fn start(&self, core: u16, argument: &str) -> Result<(), Failure> {
        let on = format!("{}.c{core}", self.name);
        let words = ["package", "start", "gauge", "--on", &on, "--argument", argument];
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.machine.say(&words) {
                Err(_) if Instant::now() < deadline => thread::sleep(LOOK),
                said => return said.map(drop),
            }
        }
    }
}

/// Has cores measure at once, and gives what they have found. Nobody looks before they had the
/// time that it takes: that would disturb them.
pub fn measure(tasks: &[Task<'_>], takes: Duration) -> Result<Vec<f64>, Failure> {
    let mut domains: Vec<(&Domain<'_>, usize, usize)> = Vec::new();
    for Task { domain, tells, .. } in tasks {
        let wanted = usize::from(*tells);
        match domains.iter_mut().find(|(it, ..)| it.node == domain.node) {
            Some((.., more)) => *more += wanted,
            None => domains.push((domain, domain.found()?.len(), wanted)),
        }
    }
    for Task { domain, core, argument, .. } in tasks {
        domain.start(*core, argument)?;
    }
    thread::sleep(takes);
    let deadline = Instant::now() + PATIENCE;
    let mut all = Vec::new();
    for (domain, before, wanted) in domains {
        loop {
            let found = domain.found()?;
            if found.len() >= before + wanted {
                all.extend(&found[before..]);
                break;
            }
            if Instant::now() > deadline {
                let last = domain.machine.log(&domain.node)?;
                let last = last.lines().last().unwrap_or_default();
                let why = format!("{} has measured nothing: {last}", domain.name);
                return Err(Failure::Node(why));
            }
            thread::sleep(LOOK);
        }
    }
    Ok(all)
}
