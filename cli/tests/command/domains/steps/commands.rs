//! The hand of a machine that is up: the commands that people use.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nile_scenarios::domain_steps::{Domain, Hand, Package, Resize, Seen, Wanted};
use serde_json::Value;

use crate::cluster::{Place, send};
use crate::jobs::packages;
use crate::support::{Said, run};

const UNIT: u64 = 2 << 20;

/// What domains with packages have: more than the supervisor's node, so that the file of a package
/// goes to them. A core runs none that its own node has not.
pub const DISK: &str = "96M";

/// `nile`, in a place where a machine is up, and after how long it is killed that is to be.
pub struct Commands<'a> {
    pub place: &'a Place,
    pub moments: &'static [Duration],
}

/// What a command has printed, if it was done; else what it says.
fn told(said: Said) -> Result<String, String> {
    if said.status == Some(0) { Ok(said.out) } else { Err(said.err + &said.out) }
}

fn megabytes(units: u32) -> String {
    format!("{}M", 2 * units)
}

fn units(bytes: &Value) -> u32 {
    (bytes.as_u64().expect("a number of bytes") / UNIT) as u32
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").into()
}

fn number(value: &Value) -> u32 {
    value.as_u64().expect("a number") as u32
}

impl Commands<'_> {
    fn command(&self, words: &[&str]) -> Command {
        let mut nile = self.place.nile();
        nile.env("NILE_PACKAGES", packages()).args(words);
        nile
    }

    fn say(&self, words: &[&str]) -> Result<(), String> {
        told(run(&mut self.command(words), &[])).map(drop)
    }

    fn ask(&self, words: &[&str]) -> Result<Value, String> {
        let said = told(run(&mut self.command(words), &["--json"]))?;
        serde_json::from_str(&said).map_err(|error| format!("{error}: {said}"))
    }

    /// Begins a command, and kills it after so long.
    fn begin(&self, words: &[&str], after: Duration) {
        let mut command = self.command(words);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the command can be started");
        sleep(after);
        send("-KILL", child.id());
        child.wait().expect("it has ended");
    }
}

/// The words of `domain create`.
fn create(wanted: &Wanted<'_>) -> Vec<String> {
    let Wanted { name, cores, least, most, units, most_units, priority, has_packages } = *wanted;
    let numbers = [
        ("--cores", cores.to_string()),
        ("--min-cores", least.to_string()),
        ("--max-cores", most.to_string()),
        ("--memory", megabytes(units)),
        ("--max-memory", megabytes(most_units)),
        ("--priority", priority.to_string()),
    ];
    let numbers = numbers.into_iter().flat_map(|(word, number)| [word.into(), number]);
    let disk: &[&str] = if has_packages { &["--disk", DISK] } else { &[] };
    let begin = ["domain", "create", name].map(String::from);
    begin.into_iter().chain(numbers).chain(disk.iter().copied().map(String::from)).collect()
}

fn resize(name: &str, to: Resize) -> Vec<String> {
    let mut words = ["domain", "resize", name].map(String::from).to_vec();
    words.extend(to.cores.into_iter().flat_map(|it| ["--cores".into(), it.to_string()]));
    words.extend(to.units.into_iter().flat_map(|it| ["--memory".into(), megabytes(it)]));
    words.extend(to.force.then(|| "--force".into()));
    words
}

fn words(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}

fn place((domain, core): (&str, u16)) -> String {
    format!("{domain}.c{core}")
}

impl Hand for Commands<'_> {
    fn moments(&self) -> &'static [Duration] {
        self.moments
    }

    async fn create(&mut self, wanted: &Wanted<'_>) -> Result<(), String> {
        self.say(&words(&create(wanted)))
    }

    async fn begin_to_create(&mut self, wanted: &Wanted<'_>, after: Duration) {
        self.begin(&words(&create(wanted)), after);
    }

    async fn resize(&mut self, name: &str, to: Resize) -> Result<(), String> {
        self.say(&words(&resize(name, to)))
    }

    async fn begin_to_resize(&mut self, name: &str, to: Resize, after: Duration) {
        self.begin(&words(&resize(name, to)), after);
    }

    async fn lend(
        &mut self,
        (from, to): (&str, &str),
        cores: u16,
        span: Duration,
    ) -> Result<(), String> {
        // The least that can be said.
        let (cores, span) = (cores.to_string(), format!("{}s", span.as_secs().max(1)));
        let lend = ["domain", "lend", from, to, "--cores", &cores, "--for", &span];
        let said = told(run(&mut self.command(&lend), &[]))?;
        let shown = self.ask(&["domain", "show", to])?["borrowed"].clone();
        let is_shown = list(&shown).iter().any(|it| it["domain"] == from);
        match said == format!("lent: {cores} of {from} to {to}\n") && is_shown {
            true => Ok(()),
            false => Err(format!("it says {said:?}, and shows {shown}")),
        }
    }

    async fn recall(&mut self, name: &str) -> Result<(), String> {
        self.say(&["domain", "recall", name])
    }

    async fn destroy(&mut self, name: &str, force: bool) -> Result<(), String> {
        let force: &[&str] = if force { &["--force"] } else { &[] };
        self.say(&[&["domain", "destroy", name], force].concat())
    }

    async fn restart(&mut self, name: &str) -> Result<(), String> {
        self.say(&["domain", "restart", name])
    }

    async fn share(&mut self, name: &str, units: u32, with: &[&str]) -> Result<(), String> {
        let (memory, with) = (megabytes(units), with.join(","));
        self.say(&["domain", "share", name, "--memory", &memory, "--with", &with])
    }

    async fn unshare(&mut self, name: &str, from: &[&str]) -> Result<(), String> {
        let from = from.join(",");
        let from: &[&str] = if from.is_empty() { &[] } else { &["--from", &from] };
        self.say(&[&["domain", "unshare", name], from].concat())
    }

    async fn look(&mut self) -> Result<Seen, String> {
        let machine = self.ask(&["domain", "list"])?;
        let cores = |value: &Value| list(value).iter().map(|it| number(it) as u16).collect();
        let domain = |it: &Value| Domain {
            name: text(&it["name"]),
            cores: cores(&it["cores"]),
            units: units(&it["memory"]),
        };
        let shared =
            |it: &Value| (text(&it["name"]), list(&it["domains"]).iter().map(text).collect());
        Ok(Seen {
            domains: list(&machine["domains"]).iter().map(domain).collect(),
            free_cores: cores(&machine["free"]["cores"]),
            free_units: units(&machine["free"]["memory"]),
            shared: list(&machine["shared"]).iter().map(shared).collect(),
        })
    }

    async fn compute(&mut self, domain: &str, core: u16) -> Result<u64, String> {
        let core = place((domain, core));
        let said = self.ask(&["call", "ackermann.compute", "m=2", "n=3", "--core", &core])?;
        said["reply"]["value"].as_u64().ok_or_else(|| format!("no number in {said}"))
    }

    async fn generation(&mut self, domain: &str) -> Result<u64, String> {
        let status = self.ask(&["status"])?;
        let node = self.ask(&["domain", "show", domain])?["node"].clone();
        let found = list(&status["nodes"]).iter().find(|it| it["name"] == node);
        found.and_then(|it| it["generation"].as_u64()).ok_or_else(|| format!("{node}: {status}"))
    }

    async fn running(&mut self, domain: &str) -> Result<Vec<(u16, u32)>, String> {
        let said = self.ask(&["call", "core_manager.list", "--core", domain])?;
        let run = list(&said["reply"]["cores"]).iter().filter(|it| it["phase"] == "running");
        Ok(run.map(|it| (number(&it["core"]) as u16, number(&it["generation"]))).collect())
    }

    async fn knows(&mut self, domain: &str, other: &str) -> Result<bool, String> {
        let said = self.ask(&["call", "gossip.members", "after=0", "--core", domain])?;
        let node = text(&self.ask(&["domain", "show", other])?["node"]);
        let is_it = |it: &Value| format!("n{}", it["identity"]["node"]) == node;
        Ok(list(&said["reply"]["members"]).iter().any(is_it))
    }

    async fn end_manager(&mut self, of: Option<&str>) -> Result<(), String> {
        self.say(&["fault", "kill", &place((of.unwrap_or("n1"), 0))])
    }

    async fn start(
        &mut self,
        core: (&str, u16),
        package: &str,
        argument: &str,
    ) -> Result<(), String> {
        let core = place(core);
        self.say(&["package", "start", package, "--on", &core, "--argument", argument])
    }

    async fn stop(&mut self, core: (&str, u16), package: &str) -> Result<(), String> {
        self.say(&["package", "stop", &format!("{}/{package}", place(core))])
    }

    async fn packages(&mut self, core: (&str, u16)) -> Result<Vec<Package>, String> {
        let said = self.ask(&["call", "packages.list", "--core", &place(core)])?;
        let package = |it: &Value| Package {
            name: text(&it["name"]),
            begun: number(&it["begun"]),
            said: text(&it["said"]),
        };
        Ok(list(&said["reply"]["packages"]).iter().map(package).collect())
    }

    async fn pause(&mut self, span: Duration) {
        sleep(span);
    }
}
