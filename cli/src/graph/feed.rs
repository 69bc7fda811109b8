//! Edges of a file, given to a graph in calls.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Read};
use std::mem;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
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

/// So many calls are given of which it is not known that they are kept, and as soon as there is a
/// half of them it is asked.
const MOST_TAKEN: usize = 32;
const HALF: u64 = MOST_TAKEN as u64 / 2;

/// So many are under way at once.
const AT_ONCE: usize = 8;

/// Rejected lines of a call.
const MOST_REJECTED: usize = 64;

/// Bytes that are read at once.
const PIECE: usize = 1 << 16;

/// For how long the graph is looked for while no core has it or can take more, and how often.
const INSISTS: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(250);

/// How often it is looked whether somebody wants it to end, while nothing comes.
const LOOK: Duration = Duration::from_millis(50);

/// Gives the graph the edges of a file; over when they are kept. Said again, nothing counts twice.
pub fn run(
    cores: &mut Cores,
    core: Target,
    name: &str,
    file: &Path,
    source: Option<u64>,
    query: &Query,
) -> Result<(), Failure> {
    let shown = file.display().to_string();
    let unread =
        move |error: io::Error| Failure::request(format!("{shown} cannot be read: {error}"));
    let bytes: Box<dyn Read + Send> = match file.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(file).map_err(&unread)?),
    };
    let source = source.unwrap_or_else(|| number_of(file));
    let (give, given) = mpsc::sync_channel(AT_ONCE);
    // While it waits for more, what has come is given.
    thread::spawn(move || read(bytes, source, &give));
    let mut feed = Feed::new(cores, core, name, source);
    let mut rejected = 0;
    while let Some(batch) = feed.wait(&given)? {
        let mut more = Some(batch.map_err(&unread)?);
        let mut failed = None;
        let next = || {
            let batch = more.take().or_else(|| match given.try_recv().ok()? {
                Ok(batch) => Some(batch),
                Err(error) => {
                    failed = Some(error);
                    None
                }
            })?;
            rejected += batch.rejects.len();
            Some(batch)
        };
        feed.give(next)?;
        if let Some(error) = failed {
            return Err(unread(error));
        }
    }
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

/// Reads lines, and gives what has come before it waits for more.
fn read(bytes: Box<dyn Read>, source: u64, give: &SyncSender<io::Result<Batch>>) {
    let mut reader = BufReader::with_capacity(PIECE, bytes);
    // What is fed later has happened later, unless lines say when.
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_micros() as u64);
    let (mut batch, mut sequence, mut line) = (Batch::default(), 0, String::new());
    loop {
        line.clear();
        match reader.read_line(&mut line) {
            Ok(0) => break,
            Ok(_) => {}
            // Nobody waits for it who is gone.
            Err(error) => return drop(give.send(Err(error))),
        }
        let text = line.trim_end_matches(['\n', '\r']);
        match lines::edge(text, sequence, begun.saturating_add(sequence)) {
            Ok(None) => {}
            Ok(Some(edge)) => {
                batch.events.push(edge);
                sequence += 1;
            }
            // It has its number: once it is mended it counts.
            Err(why) => {
                batch.rejects.push(RejectedEvent { source, sequence, text: text.into(), why });
                sequence += 1;
            }
        }
        let is_full = batch.rejects.len() == MOST_REJECTED || batch.events.len() == MOST_EVENTS;
        let is_all = !batch.is_empty() && !reader.buffer().contains(&b'\n');
        if (is_all || is_full) && give.send(Ok(mem::take(&mut batch))).is_err() {
            return;
        }
    }
    if !batch.is_empty() {
        let _ = give.send(Ok(batch));
    }
}

/// What one or two calls give.
#[derive(Clone, Default)]
struct Batch {
    events: Vec<EdgeEvent>,
    rejects: Vec<RejectedEvent>,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.rejects.is_empty()
    }
}

struct Feed<'a> {
    cores: &'a mut Cores,
    core: Target,
    name: &'a str,
    source: u64,
    /// What was given, the first one by its number, and is said again if it is not known to be kept
    /// when the graph has moved.
    unkept: VecDeque<Batch>,
    first: u64,
    /// How many edges were new when they were said first, and how many had been there.
    new: u64,
    known: u64,
    /// Which opening of the graph has what was given.
    life: Option<u64>,
}

/// What is said while others are under way.
#[derive(Clone)]
enum Say {
    /// The batch of this number.
    Batch(u64, Batch),
    /// Nothing, which is kept when all batches below this number are.
    Mark(u64),
}

/// The calls that are under way.
#[derive(Default)]
struct Window {
    open: BTreeSet<u64>,
    /// Up to where it is asked whether all is kept.
    mark: Option<u64>,
    /// Batches that have to be said again, and whether their edges are counted.
    again: BTreeMap<u64, bool>,
    /// Something went wrong: what is under way is waited for.
    is_off: bool,
    failed: Option<Failure>,
    /// The first edge that is missing, as far as is known, and the first that was not given.
    next: u64,
    upto: u64,
}

impl<'a> Feed<'a> {
    fn new(cores: &'a mut Cores, core: Target, name: &'a str, source: u64) -> Feed<'a> {
        let (unkept, first) = (VecDeque::new(), 0);
        Feed { cores, core, name, source, unkept, first, new: 0, known: 0, life: None }
    }

    /// Waits for what is to be given next; none if nothing comes any more.
    fn wait<T>(&mut self, given: &Receiver<T>) -> Result<Option<T>, Failure> {
        loop {
            match given.recv_timeout(LOOK) {
                Ok(batch) => return Ok(Some(batch)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => self.cores.look_again(Duration::ZERO)?,
            }
        }
    }

    /// Gives batches as they come, several at the same time, until none has come; those are taken
    /// then. What could not be taken so is said again, one after the other.
    fn give(&mut self, mut more: impl FnMut() -> Option<Batch>) -> Result<(), Failure> {
        let (name, source, core) = (self.name, self.source, self.core);
        let feed = RefCell::new((&mut self.unkept, &mut self.first, Window::default()));
        let next = || {
            let (unkept, first, window) = &mut *feed.borrow_mut();
            let end = **first + unkept.len() as u64;
            let answered = window.open.first().copied().unwrap_or(end);
            if !window.is_off && window.mark.is_none() && answered - **first >= HALF {
                window.mark = Some(answered);
                return Some(Say::Mark(answered));
            }
            if window.is_off || unkept.len() >= MOST_TAKEN {
                return None;
            }
            let batch = more()?;
            let last = batch.events.last().map(|it| it.sequence);
            let last = last.max(batch.rejects.last().map(|it| it.sequence));
            window.upto = last.map_or(window.upto, |it| it + 1);
            window.open.insert(end);
            unkept.push_back(batch.clone());
            Some(Say::Batch(end, batch))
        };
        let (new, known, life) = (&mut self.new, &mut self.known, &mut self.life);
        let told = |said: Say, done: Result<OfferedEvents, Refused>| {
            let (unkept, first, window) = &mut *feed.borrow_mut();
            if let Ok(offered) = &done {
                // What an earlier one has taken may be lost.
                window.is_off |= *life.get_or_insert(offered.life) != offered.life;
            }
            match (said, done) {
                (Say::Batch(number, _), Ok(offered)) => {
                    window.open.remove(&number);
                    window.next = window.next.max(offered.next);
                    *new += offered.new;
                    *known += offered.known;
                    if offered.ahead > 0 {
                        window.again.insert(number, true);
                        window.is_off = true;
                    }
                }
                (Say::Mark(_), Ok(_)) if window.is_off => window.mark = None,
                (Say::Mark(upto), Ok(_)) => {
                    window.mark = None;
                    unkept.drain(..(upto - **first) as usize);
                    **first = upto;
                }
                (_, Err(Refused::No(why))) => {
                    window.failed = Some(why);
                    window.is_off = true;
                }
                (Say::Batch(number, _), Err(_)) => {
                    window.open.remove(&number);
                    window.again.insert(number, false);
                    window.is_off = true;
                }
                (Say::Mark(_), Err(_)) => window.is_off = true,
            }
        };
        let say = async |it: GraphClient, said: Say| match said {
            Say::Batch(_, batch) => offer(&it, name, source, batch, Acknowledgement::Taken).await,
            Say::Mark(_) => offer(&it, name, source, Batch::default(), Acknowledgement::Kept).await,
        };
        self.cores.try_stream(core, AT_ONCE, next, say, told)?;
        let (.., window) = feed.into_inner();
        let Window { again, is_off, failed, mut next, upto, .. } = window;
        if let Some(why) = failed {
            return Err(why);
        }
        for (number, is_counted) in again {
            let Some(batch) = self.unkept.get((number - self.first) as usize).cloned() else {
                continue;
            };
            let offered = self.insist(&batch, Acknowledgement::Taken)?;
            self.new += offered.map_or(batch.events.len() as u64, |it| it.new);
            self.known += offered.filter(|_| !is_counted).map_or(0, |it| it.known);
            next = next.max(offered.map_or(upto, |it| it.next));
        }
        if next < upto {
            let message = format!("source {source} lacks its edge {next}: choose another --source");
            return Err(Failure::request(message));
        }
        if is_off { self.keep() } else { Ok(()) }
    }

    /// Waits until all that was given is kept.
    fn keep(&mut self) -> Result<(), Failure> {
        self.insist(&Batch::default(), Acknowledgement::Kept)?;
        self.first += self.unkept.len() as u64;
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
                Ok(offered) if *self.life.get_or_insert(offered.life) != offered.life => {
                    has_moved = true;
                    if self.say_unkept()? {
                        self.life = Some(offered.life);
                    } else if Instant::now() > until {
                        let message = format!("{} is opened anew again and again", self.name);
                        return Err(Failure::failed(message));
                    } else {
                        self.cores.look_again(AGAIN)?;
                    }
                }
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
            if self.say_unkept()? {
                return Ok(());
            }
        }
    }

    /// Says again what is not known to be kept; whether all of it was taken.
    fn say_unkept(&mut self) -> Result<bool, Failure> {
        let mut is_said = true;
        for batch in self.unkept.clone() {
            is_said = is_said && self.say(&batch, Acknowledgement::Taken)?.is_ok();
        }
        Ok(is_said)
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
