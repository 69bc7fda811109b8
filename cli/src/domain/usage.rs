//! What domains have had and done: `nile domain account` since they were made, `nile domain top` in
//! each second. What they had, the ledger says; what they did, their nodes.

use std::fmt::Write as _;
use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

use nile_abi::NodeId;
use nile_domain::{Account, Carried, UNIT};
use nile_interfaces::core_manager::{
    Answers, CoreManagerClient, CorePhase as Phase, CoreRole, CoreRoles,
};
use nile_stl::CallError;
use serde_json::{Value, json};

use super::args::{AccountOptions, TopOptions};
use super::{carry, ledger, pc, show};
use crate::cluster::anew;
use crate::cluster::folder::{Folder, Record};
use crate::cluster::session::Session;
use crate::failure::Failure;
use crate::size::Bytes;
use crate::table;

/// How long nodes may take to be heard at the start, and to answer later.
pub const START: Duration = Duration::from_secs(5);
pub const PATIENCE: Duration = Duration::from_secs(1);

/// What a node had done when it was looked at.
#[derive(Clone, Default)]
pub struct Sample {
    pub answers: Vec<Answers>,
    pub cores: Vec<CoreRoles>,
}

/// A domain, and what it has had.
pub struct Charged {
    pub name: String,
    pub place: u8,
    pub state: String,
    pub cores: Vec<u16>,
    pub units: u32,
    pub account: Account,
    /// What it has sent, and what was moved for it from and to its part of a disk; not known of a
    /// hosted one.
    pub sent: Option<Carried>,
    pub disk: Option<Carried>,
}

/// What a node has counted since it started.
struct Counted {
    busy: Duration,
    answers: u64,
    interrupts: u64,
    system_calls: u64,
}

impl Charged {
    fn node(&self) -> NodeId {
        NodeId(carry::node_of_place(self.place))
    }
}

/// All domains, in the order of their places.
fn charged(folder: &Folder, record: &Record) -> Result<Vec<Charged>, Failure> {
    if pc::is_one(record) {
        return pc::charged(folder, record);
    }
    let ledger = ledger::open(folder)?;
    let of = |domain: nile_domain::Domain| {
        let slot = domain.id.slot;
        Charged {
            name: domain.name.to_string(),
            place: slot,
            state: domain.state.name().into(),
            cores: ledger.cores_with(|it| it.is_of(slot)),
            units: ledger.units_with(|it| it.is_of(slot)),
            account: ledger.account(slot, carry::now()),
            sent: None,
            disk: None,
        }
    };
    Ok(ledger.domains().map(of).collect())
}

/// Prints what domains have had and done since they were made.
pub fn account(options: &AccountOptions) -> Result<(), Failure> {
    let which = &options.options.which;
    let (folder, record) = carry::folder_with_supervisor(which)?;
    let mut domains = charged(&folder, &record)?;
    if let Some(name) = options.name {
        domains.retain(|it| it.name == name.as_str());
        if domains.is_empty() {
            // The record knows the nearest name.
            record.domain(name.as_str())?;
            return Err(Failure::request(format!("{name} has ended, and its account with it")));
        }
    }
    let mut session = Session::open(which, START)?;
    session.patience = PATIENCE;
    let mut all = Vec::new();
    for domain in domains {
        let counted = count(&mut session, domain.node())?;
        all.push((domain, counted));
    }
    if options.options.json {
        let all: Vec<Value> =
            all.iter().map(|(it, counted)| document(it, counted.as_ref())).collect();
        return crate::print(&format!("{}\n", json!({ "domains": all })));
    }
    let mut title =
        vec!["domain", "age", "core s", "MiB s", "busy s", "answers", "interrupts", "system calls"];
    if all.iter().any(|(it, _)| it.sent.is_some()) {
        title.extend(["frames", "KiB sent", "dropped", "bridge s"]);
        title.extend(["requests", "KiB of disk", "refused", "disk s"]);
    }
    let mut rows = vec![title.into_iter().map(String::from).collect()];
    rows.extend(all.iter().map(|(it, counted)| row(it, counted.as_ref())));
    crate::print(&table::columns("", &rows))
}

/// Asks a node what it has counted; none if it does not answer.
fn count(session: &mut Session, node: NodeId) -> Result<Option<Counted>, Failure> {
    let target = match anew::manager(session, node) {
        Ok(target) => target,
        Err(Failure::Interrupted) => return Err(Failure::Interrupted),
        Err(_) => return Ok(None),
    };
    let counted = session.peer.work(PATIENCE, async |clients| {
        let manager = clients.at::<CoreManagerClient>(target);
        let cores = manager.roles().await?;
        let mut counted = Counted {
            busy: Duration::from_micros(cores.iter().map(|it| it.busy_us).sum()),
            answers: manager.answers().await?.iter().map(|it| it.count).sum(),
            interrupts: 0,
            system_calls: 0,
        };
        for core in cores {
            let statistics = manager.statistics(core.core).await?;
            counted.interrupts += statistics.interrupts.iter().map(|it| it.count).sum::<u64>();
            counted.system_calls += statistics.system_calls;
        }
        Ok::<_, CallError>(counted)
    })?;
    Ok(counted.ok())
}

fn row(domain: &Charged, counted: Option<&Counted>) -> Vec<String> {
    let Account { age, core_micros, unit_micros } = domain.account;
    let known = |number: fn(&Counted) -> String| counted.map_or_else(|| "-".into(), number);
    let mut row = vec![
        domain.name.clone(),
        format!("{} s", age.as_secs()),
        format!("{:.3}", core_micros as f64 / 1e6),
        format!("{:.0}", mebibyte_seconds(unit_micros)),
        known(|it| format!("{:.3}", it.busy.as_secs_f64())),
        known(|it| it.answers.to_string()),
        known(|it| it.interrupts.to_string()),
        known(|it| it.system_calls.to_string()),
    ];
    row.extend([domain.sent, domain.disk].iter().flatten().flat_map(|it| {
        let [passed, dropped] = [it.passed, it.dropped].map(|count| count.to_string());
        [passed, (it.bytes >> 10).to_string(), dropped, format!("{:.3}", it.time.as_secs_f64())]
    }));
    row
}

fn document(domain: &Charged, counted: Option<&Counted>) -> Value {
    let Account { age, core_micros, unit_micros } = domain.account;
    let number = |number: fn(&Counted) -> u64| counted.map(number);
    json!({
        "name": domain.name,
        "age_seconds": age.as_secs_f64(),
        "core_seconds": core_micros as f64 / 1e6,
        "mebibyte_seconds": mebibyte_seconds(unit_micros),
        "busy_seconds": counted.map(|it| it.busy.as_secs_f64()),
        "answers": number(|it| it.answers),
        "interrupts": number(|it| it.interrupts),
        "system_calls": number(|it| it.system_calls),
        "sent": domain.sent.map(|it| json!({
            "frames": it.passed,
            "bytes": it.bytes,
            "dropped": it.dropped,
            "bridge_seconds": it.time.as_secs_f64(),
        })),
        "disk": domain.disk.map(|it| json!({
            "requests": it.passed,
            "bytes": it.bytes,
            "refused": it.dropped,
            "disk_seconds": it.time.as_secs_f64(),
        })),
    })
}

fn mebibyte_seconds(unit_micros: u64) -> f64 {
    unit_micros as f64 / 1e6 * (UNIT >> 20) as f64
}

/// Prints all domains time and again, until Ctrl-C or as often as is said. On a terminal each time
/// takes the place of the one before.
pub fn top(options: &TopOptions) -> Result<(), Failure> {
    let which = &options.options.which;
    let (folder, _) = carry::folder_with_supervisor(which)?;
    let mut session = Session::open(which, START)?;
    session.patience = PATIENCE;
    let clears = !options.options.json && stdout().is_terminal();
    let mut before: Vec<(String, u32, Sample)> = Vec::new();
    let mut times = 0;
    let mut at = Instant::now();
    while options.times.is_none_or(|most| times < most) {
        let left = options.period.saturating_sub(at.elapsed());
        session.peer.until(left, |_| false)?;
        let span = at.elapsed();
        at = Instant::now();
        let record = folder.record()?;
        let mut rows = Vec::new();
        let mut after = Vec::new();
        for domain in charged(&folder, &record)? {
            let sample = sample(&mut session, domain.node())?;
            // One that is younger than what was seen has only the name of that.
            let own_age = domain.account.age.as_secs() as u32;
            let is_it =
                |(name, age, _): &&(String, u32, Sample)| *name == domain.name && *age <= own_age;
            let earlier = before.iter().find(is_it).map(|(.., sample)| sample);
            rows.push(Row::of(&domain, earlier.zip(sample.as_ref()), span));
            after.extend(sample.map(|sample| (domain.name, own_age, sample)));
        }
        before = after;
        tell(&rows, options.options.json, clears)?;
        times += 1;
    }
    Ok(())
}

/// Looks at a node; none if it does not answer.
fn sample(session: &mut Session, node: NodeId) -> Result<Option<Sample>, Failure> {
    match look(session, node) {
        Err(Failure::Interrupted) => Err(Failure::Interrupted),
        looked => Ok(looked.ok()),
    }
}

/// A domain in a period.
struct Row {
    name: String,
    state: String,
    cores: Vec<u16>,
    memory: Bytes,
    /// The percent of its workers' time; answers a second; the time within which 99% of them were.
    load: Option<u64>,
    answers: Option<f64>,
    within: Option<u64>,
}

impl Row {
    fn of(domain: &Charged, looks: Option<(&Sample, &Sample)>, span: Duration) -> Row {
        let all = |sample: &Sample| sample.answers.iter().map(|it| it.count).sum::<u64>();
        let rate = |(before, after): (&Sample, &Sample)| {
            all(after).saturating_sub(all(before)) as f64 / span.as_secs_f64()
        };
        Row {
            name: domain.name.clone(),
            state: domain.state.clone(),
            cores: domain.cores.clone(),
            memory: show::memory(domain.units),
            load: looks.and_then(|(before, after)| load(&before.cores, &after.cores)),
            answers: looks.map(rate),
            within: looks
                .and_then(|(before, after)| percentile(&before.answers, &after.answers, 99.0)),
        }
    }

    fn cells(&self) -> Vec<String> {
        let none = || String::from("-");
        vec![
            self.name.clone(),
            self.state.clone(),
            show::numbers(&self.cores),
            self.memory.to_string(),
            self.load.map_or_else(none, |load| format!("{load}%")),
            self.answers.map_or_else(none, |rate| format!("{rate:.0}")),
            self.within.map_or_else(none, |within| format!("{:.3} ms", within as f64 / 1e6)),
        ]
    }

    fn document(&self) -> Value {
        json!({
            "name": self.name,
            "state": self.state,
            "cores": self.cores,
            "memory": self.memory.0,
            "load_percent": self.load,
            "answers_per_second": self.answers,
            "within_ns": self.within,
        })
    }
}

fn tell(rows: &[Row], as_json: bool, clears: bool) -> Result<(), Failure> {
    if as_json {
        let all: Vec<Value> = rows.iter().map(Row::document).collect();
        return crate::print(&format!("{}\n", json!({ "domains": all })));
    }
    let title = ["domain", "state", "cores", "memory", "load", "answers/s", "99% within"];
    let mut cells = vec![title.map(String::from).to_vec()];
    cells.extend(rows.iter().map(Row::cells));
    let mut text = String::from(if clears { "\x1b[H\x1b[J" } else { "" });
    let _ = writeln!(text, "{}", table::columns("", &cells));
    crate::print(&text)
}

/// Looks at what the node of a domain has done.
pub fn look(session: &mut Session, node: NodeId) -> Result<Sample, Failure> {
    let target = anew::manager(session, node)?;
    let sample = session.peer.work(PATIENCE, async |clients| {
        let manager = clients.at::<CoreManagerClient>(target);
        let answers = manager.answers().await?;
        Ok::<_, nile_stl::CallError>(Sample { answers, cores: manager.roles().await? })
    })?;
    sample.map_err(|error| Failure::failed(format!("{node}: {error}")))
}

/// The time below which so many percent of the answers were that came between two looks.
pub fn percentile(before: &[Answers], after: &[Answers], percent: f64) -> Option<u64> {
    let earlier = |it: &Answers| {
        before.iter().find(|known| known.within_ns == it.within_ns).map_or(0, |known| known.count)
    };
    let new = |it: &Answers| it.count.saturating_sub(earlier(it));
    let all: u64 = after.iter().map(new).sum();
    let wanted = (all as f64 * percent / 100.0).ceil() as u64;
    let mut seen = 0;
    let reaches = |it: &&Answers| {
        seen += new(it);
        seen >= wanted
    };
    (all > 0).then(|| after.iter().find(reaches).map(|it| it.within_ns))?
}

/// The percent of their time in which those worker cores had something to do that were there at
/// both looks.
pub fn load(before: &[CoreRoles], after: &[CoreRoles]) -> Option<u64> {
    let works =
        |it: &&CoreRoles| it.roles.contains(&CoreRole::Worker) && it.phase == Phase::Running;
    let (mut busy, mut idle) = (0, 0);
    for core in after.iter().filter(works) {
        let Some(known) = before.iter().filter(works).find(|it| it.core == core.core) else {
            continue;
        };
        busy += core.busy_us.saturating_sub(known.busy_us);
        idle += core.idle_us.saturating_sub(known.idle_us);
    }
    (busy + idle > 0).then(|| busy * 100 / (busy + idle))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(of: &[(u64, u64)]) -> Vec<Answers> {
        of.iter()
            .map(|(within_ns, count)| Answers { within_ns: *within_ns, count: *count })
            .collect()
    }

    #[test]
    fn a_percentile_is_of_the_answers_since_the_look_before() {
        let before = answers(&[(10, 5), (1000, 100)]);
        let after = answers(&[(10, 104), (100, 1), (1000, 100)]);
        assert_eq!(percentile(&before, &after, 99.0), Some(10));
        assert_eq!(percentile(&before, &after, 99.5), Some(100));
        assert_eq!(percentile(&after, &after, 99.0), None);
        // A node that has begun anew has answered less than before.
        assert_eq!(percentile(&after, &answers(&[(10, 1)]), 99.0), None);
    }

    fn core(number: u16, busy_us: u64, idle_us: u64) -> CoreRoles {
        CoreRoles {
            core: number,
            roles: vec![CoreRole::Worker],
            phase: Phase::Running,
            image: None,
            keeps_image: false,
            drives: Vec::new(),
            is_pinned: false,
            load: 0,
            busy_us,
            idle_us,
        }
    }

    #[test]
    fn a_load_is_of_workers_that_were_there_all_the_time() {
        let before = [core(0, 100, 100), core(1, 0, 50)];
        let mut away = core(1, 0, 950);
        away.phase = Phase::Away;
        let after = [core(0, 180, 120), away, core(2, 900, 0)];
        assert_eq!(load(&before, &after), Some(80));
        assert_eq!(load(&before, &before), None);
    }
}
