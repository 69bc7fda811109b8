//! Edges of a file, given to a graph in calls.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Read};
use std::mem;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nile_interfaces::graph::{
    Acknowledgement, EdgeEvent, GraphClient, MOST_EVENTS, OfferedEvents, RejectedEvent,
};
use nile_stl::CallError;
use serde_json::json;

use super::cores::{Cores, Refused};
use super::lines;
use crate::advice;
use crate::cluster::args::Query;
use crate::failure::Failure;
use crate::peer::known::Target;

/// So many calls are given until it is waited for that all are kept.
const MOST_TAKEN: usize = 32;

/// So many are under way at once.
const AT_ONCE: usize = 8;

/// Rejected lines of a call.
const MOST_REJECTED: usize = 64;

/// Bytes that are read at once.
const PIECE: usize = 1 << 16;

/// For how long the graph is looked for while no core has it or can take more, and how often.
const INSISTS: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(250);

/// Gives the graph the edges of a file; over when they are kept. Said again, nothing counts twice.
pub fn run(
    cores: &mut Cores,
    core: Target,
    name: &str,
    file: &Path,
    source: Option<u64>,
    query: &Query,
) -> Result<(), Failure> {
    let shown = file.display();
    let unread = |error: io::Error| Failure::request(format!("{shown} cannot be read: {error}"));
    let bytes: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(file).map_err(unread)?),
    };
    let mut reader = BufReader::with_capacity(PIECE, bytes);
    let source = source.unwrap_or_else(|| number_of(file));
    let (unkept, unsaid) = (Vec::new(), 0);
    let mut feed = Feed { cores, core, name, source, unkept, unsaid, new: 0, known: 0 };
    // What is fed later has happened later, unless lines say when.
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_micros() as u64);
    let (mut events, mut rejects) = (Vec::new(), Vec::new());
    let (mut sequence, mut rejected) = (0, 0);
    let mut line = String::new();
    while reader.read_line(&mut line).map_err(unread)? > 0 {
        let text = line.trim_end_matches(['\n', '\r']);
        match lines::edge(text, sequence, begun.saturating_add(sequence)) {
            Ok(None) => {}
            Ok(Some(edge)) => {
                events.push(edge);
                sequence += 1;
            }
            // It has its number: once it is mended it counts.
            Err(why) => {
                rejects.push(RejectedEvent { source, sequence, text: text.into(), why });
                sequence += 1;
            }
        }
        line.clear();
        // What has come is given before it is waited for more.
        let has_any = !events.is_empty() || !rejects.is_empty();
        let is_all = has_any && !reader.buffer().contains(&b'\n');
        if is_all || rejects.len() == MOST_REJECTED || events.len() == MOST_EVENTS {
            rejected += rejects.len();
            feed.give(Batch { events: mem::take(&mut events), rejects: mem::take(&mut rejects) })?;
            if is_all {
                feed.say_all()?;
            }
        }
    }
    rejected += rejects.len();
    feed.give(Batch { events, rejects })?;
    feed.keep()?;
    let Feed { new, known, .. } = feed;
    if query.json {
        let document =
            json!({ "source": source, "new": new, "known": known, "rejected": rejected });
        return crate::print(&format!("{document}\n"));
    }
    let twice = if known > 0 { format!(", {known} had come before") } else { String::new() };
    let wrong = match rejected {
        0 => String::new(),
        _ => {
            let advice = advice::named(&query.which, "graph", &["rejects", name]);
            format!("; lines that are no edges: {rejected}, `{advice}` shows them")
        }
    };
    crate::print(&format!("{new} edges of source {source} are in{twice}{wrong}\n"))
}

/// What one or two calls give.
#[derive(Clone)]
struct Batch {
    events: Vec<EdgeEvent>,
    rejects: Vec<RejectedEvent>,
}

struct Feed<'a> {
    cores: &'a mut Cores,
    core: Target,
    name: &'a str,
    source: u64,
    /// What was taken, and is said again if it is not known to be kept when the graph has moved.
    unkept: Vec<Batch>,
    /// How many of these, the last ones, have yet to be said.
    unsaid: usize,
    /// How many edges were new when they were said first, and how many had been there.
    new: u64,
    known: u64,
}

impl Feed<'_> {
    /// Gives a batch; it is taken when [`Feed::say_all`] is over, which is done now and then.
    fn give(&mut self, batch: Batch) -> Result<(), Failure> {
        self.unkept.push(batch);
        self.unsaid += 1;
        if self.unsaid >= AT_ONCE {
            self.say_all()?;
        }
        if self.unkept.len() >= MOST_TAKEN { self.keep() } else { Ok(()) }
    }

    /// Says all batches that are given and not said yet, side by side, and those once more, one
    /// after the other, that could not be taken so.
    fn say_all(&mut self) -> Result<(), Failure> {
        let unsaid = mem::take(&mut self.unsaid);
        let batches = self.unkept[self.unkept.len() - unsaid..].to_vec();
        let Some(last) = batches.last() else { return Ok(()) };
        let upto = last.events.last().map_or(0, |it| it.sequence + 1);
        let (name, source, core) = (self.name, self.source, self.core);
        let said = self.cores.try_all(batches.iter().map(|it| (core, it)), async |it, batch| {
            offer(&it, name, source, batch.clone(), Acknowledgement::Taken).await
        })?;
        let (mut next, mut again) = (0, Vec::new());
        for (batch, said) in batches.into_iter().zip(said) {
            match said {
                Ok(offered) => {
                    next = next.max(offered.next);
                    self.new += offered.new;
                    self.known += offered.known;
                    if offered.ahead > 0 {
                        again.push((batch, true));
                    }
                }
                Err(Refused::No(why)) => return Err(why),
                Err(Refused::Later(_) | Refused::Elsewhere(_)) => again.push((batch, false)),
            }
        }
        for (batch, is_counted) in again {
            let offered = self.insist(&batch, Acknowledgement::Taken)?;
            self.new += offered.map_or(batch.events.len() as u64, |it| it.new);
            self.known += offered.filter(|_| !is_counted).map_or(0, |it| it.known);
            next = next.max(offered.map_or(upto, |it| it.next));
        }
        if next < upto {
            let message = format!("source {source} lacks its edge {next}: choose another --source");
            return Err(Failure::request(message));
        }
        Ok(())
    }

    /// Waits until all that was given is kept.
    fn keep(&mut self) -> Result<(), Failure> {
        self.say_all()?;
        let nothing = Batch { events: Vec::new(), rejects: Vec::new() };
        self.insist(&nothing, Acknowledgement::Kept)?;
        self.unkept.clear();
        Ok(())
    }

    /// Says a batch until it is acknowledged, wherever the graph is. What had been taken and may be
    /// lost is said again before; then nothing is told of the batch, which may be among it.
    fn insist(
        &mut self,
        batch: &Batch,
        acknowledgement: Acknowledgement,
    ) -> Result<Option<OfferedEvents>, Failure> {
        let until = Instant::now() + INSISTS;
        let mut has_moved = false;
        loop {
            match self.say(batch, acknowledgement)? {
                Ok(offered) => return Ok(Some(offered).filter(|_| !has_moved)),
                Err(Refused::No(why)) => return Err(why),
                Err(refused) if Instant::now() > until => return Err(refused.into_failure()),
                Err(Refused::Later(_)) => self.cores.look_again(AGAIN)?,
                Err(Refused::Elsewhere(_)) => {
                    has_moved = true;
                    self.find(until)?;
                }
            }
        }
    }

    /// Finds the graph, and says what may be lost.
    fn find(&mut self, until: Instant) -> Result<(), Failure> {
        loop {
            self.cores.look_again(AGAIN)?;
            let found = self.cores.named(self.name);
            match found {
                Ok(core) => self.core = core,
                Err(Failure::Interrupted) => return Err(Failure::Interrupted),
                Err(why) if Instant::now() > until => return Err(why),
                Err(_) => continue,
            }
            let mut is_said = true;
            for batch in self.unkept.clone() {
                is_said = is_said && self.say(&batch, Acknowledgement::Taken)?.is_ok();
            }
            if is_said {
                return Ok(());
            }
        }
    }

    fn say(
        &mut self,
        batch: &Batch,
        acknowledgement: Acknowledgement,
    ) -> Result<Result<OfferedEvents, Refused>, Failure> {
        let (name, source, batch) = (self.name, self.source, batch.clone());
        self.cores.try_ask(self.core, async |it: GraphClient| {
            offer(&it, name, source, batch, acknowledgement).await
        })
    }
}

/// Offers what a batch has. A file's lines may have any times, so it promises nothing.
async fn offer(
    graph: &GraphClient,
    name: &str,
    source: u64,
    Batch { events, rejects }: Batch,
    acknowledgement: Acknowledgement,
) -> Result<OfferedEvents, CallError> {
    if !rejects.is_empty() {
        graph.reject(name, rejects).await?;
    }
    graph.offer(name, source, 0, acknowledgement, events).await
}

/// The source that a file is, unless it is said: the same for the same name.
fn number_of(file: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    file.hash(&mut hasher);
    // Such as people can read.
    hasher.finish() >> 32
}
