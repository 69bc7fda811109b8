//! `nile logs`: the last lines of a node's log service; of a node that is down, or whose service
//! has no lines, of what the node itself wrote.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use nile_abi::NodeId;
use nile_interfaces::log::{self, LogClient};
use nile_stl::Client;
use serde_json::{Value, json};

use super::args::Logs;
use super::folder::Folder;
use super::process;
use super::session::Session;
use crate::failure::Failure;
use crate::interrupt;
use crate::peer::call::CallFailed;
use crate::peer::known;
use crate::serial::{Said, Splitter};
use crate::switch::logs::last_of;

/// The service that keeps lines, and the most lines that it keeps.
const SERVICE: &str = LogClient::INTERFACE.name;
const KEPT: u16 = 256;

/// How often a log that is followed is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Prints the last lines of a node.
pub fn run(options: &Logs) -> Result<(), Failure> {
    let place = options.node.on(&options.query.which)?;
    if place.core.is_some() {
        return Err(Failure::request(format!("{place} is a core; a node has one log: name it")));
    }
    let (folder, record) = Folder::open(&options.query.which)?;
    let node = record.node(place.node)?;
    let (name, part) = (node.name(), record.part_of(node));
    let is_running = !process::of(folder.path(), &part).is_empty();
    if is_running && let Some(source) = Service::open(options, place.node)? {
        return show(options, &name, source);
    }
    if is_running {
        crate::say(format_args!(
            "nile: {name}'s log service says nothing; this is what the node itself wrote"
        ));
    }
    let prefix = record.is_in_pc(node).then(|| format!(" d{}.g", node.id - 1));
    let source = File { folder, name: part, prefix, shown: 0 };
    show(options, &name, source)
}

/// One line.
struct Line {
    number: u64,
    /// Since the node's start, in nanoseconds; not of what a file has.
    nanos: Option<u64>,
    core: Option<u16>,
    text: String,
}

/// Where lines come from.
trait Source {
    /// The lines that are there now, the newest last. `None` once there will be no more.
    fn lines(&mut self, most: u16) -> Result<Option<Vec<Line>>, Failure>;

    /// Waits for a while.
    fn wait(&mut self) -> Result<(), Failure>;
}

fn show(options: &Logs, name: &str, mut source: impl Source) -> Result<(), Failure> {
    let mut lines = source.lines(options.lines)?.unwrap_or_default();
    if options.query.json && !options.follow {
        let line = |it: &Line| json!({ "nanos": it.nanos, "core": it.core, "text": it.text });
        let lines: Vec<Value> = lines.iter().map(line).collect();
        return crate::print(&format!("{}\n", json!({ "node": name, "lines": lines })));
    }
    let mut last = 0;
    loop {
        for line in lines.iter().filter(|line| line.number > last) {
            crate::print(&match options.query.json {
                true => {
                    let Line { nanos, core, text, .. } = line;
                    format!("{}\n", json!({ "nanos": nanos, "core": core, "text": text }))
                }
                false => format!("{}\n", written(line)),
            })?;
        }
        last = lines.last().map_or(last, |line| line.number);
        if !options.follow {
            return Ok(());
        }
        if crate::is_unread() {
            return Ok(());
        }
        match source.wait() {
            // That is how it is ended.
            Err(Failure::Interrupted) => return Ok(()),
            waited => waited?,
        }
        match source.lines(KEPT)? {
            Some(more) => lines = more,
            None => return Ok(()),
        }
    }
}

fn written(line: &Line) -> String {
    let nanos =
        |nanos: u64| format!("{:>5}.{:06} ", nanos / 1_000_000_000, nanos / 1000 % 1_000_000);
    let time = line.nanos.map(nanos).unwrap_or_default();
    let core = line.core.map(|core| format!("c{core} ")).unwrap_or_default();
    format!("{time}{core}{}", line.text)
}

/// The node's log service.
struct Service {
    session: Session,
    target: known::Target,
}

impl Service {
    /// `None` if the node cannot be asked, or has no lines.
    fn open(options: &Logs, node: NodeId) -> Result<Option<Service>, Failure> {
        let mut session = match Session::open(&options.query.which, options.query.timeout) {
            Ok(session) => session,
            Err(Failure::Failed(why)) => {
                crate::say(format_args!("nile: {why}"));
                return Ok(None);
            }
            Err(failure) => return Err(failure),
        };
        let Some(target) = known::on_node(session.peer.known(), node, SERVICE) else {
            return Ok(None);
        };
        if session.peer.check::<LogClient>(&[target], session.patience)?.contains(&Ok(())) {
            let mut service = Service { session, target };
            let lines = service.lines(1)?.unwrap_or_default();
            return Ok((options.follow || !lines.is_empty()).then_some(service));
        }
        Ok(None)
    }
}

impl Source for Service {
    fn lines(&mut self, most: u16) -> Result<Option<Vec<Line>>, Failure> {
        let Service { session, target } = self;
        let end = session.peer.work(session.patience, async |clients| {
            clients.at::<LogClient>(*target).tail(most).await
        })?;
        let said = end.map_err(|error| {
            let failed = CallFailed::from(error);
            Failure::failed(format!("{SERVICE}.tail: {failed}"))
        })?;
        let line = |it: log::Line| Line {
            number: it.number,
            nanos: Some(it.nanos),
            core: Some(it.core),
            text: it.text,
        };
        Ok(Some(said.into_iter().map(line).collect()))
    }

    fn wait(&mut self) -> Result<(), Failure> {
        self.session.peer.until(LOOK, |_| false).map(|_| ())
    }
}

/// What the node itself wrote.
struct File {
    folder: Folder,
    name: String,
    /// What its lines begin with, if others are in the file as well.
    prefix: Option<String>,
    shown: u64,
}

impl Source for File {
    fn lines(&mut self, most: u16) -> Result<Option<Vec<Line>>, Failure> {
        let path = self.folder.log_path(&self.name);
        let all = of_file(&path)
            .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
        let is_own = |line: &String| match &self.prefix {
            Some(prefix) => line.contains(prefix),
            None => true,
        };
        let all: Vec<String> = all.into_iter().filter(is_own).collect();
        let skipped = all.len().saturating_sub(most.into());
        let numbered = (1..).zip(all).skip(skipped);
        let lines: Vec<Line> =
            numbered.map(|(number, text)| Line { number, nanos: None, core: None, text }).collect();
        let last = lines.last().map_or(0, |line| line.number);
        // A node that is down writes nothing more.
        let is_over = last == self.shown && process::of(self.folder.path(), &self.name).is_empty();
        self.shown = last;
        Ok((!is_over).then_some(lines))
    }

    fn wait(&mut self) -> Result<(), Failure> {
        std::thread::sleep(LOOK);
        match interrupt::requested() {
            true => Err(Failure::Interrupted),
            false => Ok(()),
        }
    }
}

/// The lines that a node wrote to its log, without reports, fit for a terminal.
pub fn of_file(path: &Path) -> io::Result<Vec<String>> {
    let said = said(path)?.into_iter();
    Ok(said.filter_map(|it| if let Said::Line(line) = it { Some(line) } else { None }).collect())
}

/// The last report in a node's log.
pub fn last_report(path: &Path) -> Option<String> {
    let said = said(path).ok()?.into_iter().rev();
    said.into_iter().find_map(|it| if let Said::Report(it) = it { Some(it) } else { None })
}

fn said(path: &Path) -> io::Result<Vec<Said>> {
    let mut splitter = Splitter::default();
    // What was written before the log had become too long.
    let mut said = splitter.feed(&fs::read(last_of(path)).unwrap_or_default());
    said.extend(splitter.feed(&fs::read(path)?));
    said.extend(splitter.finish());
    Ok(said)
}
