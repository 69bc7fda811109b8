//! Edges of a file, given to a graph in calls.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use nile_interfaces::graph::{EdgeEvent, MOST_EVENTS};
use serde_json::json;

use super::{Cores, lines};
use crate::cluster::args::Query;
use crate::failure::Failure;
use crate::peer::known::Target;

/// Gives the graph the edges of a file. Said again, nothing counts twice.
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
    let reader: Box<dyn BufRead> = match file.as_os_str() == "-" {
        true => Box::new(BufReader::new(io::stdin())),
        false => Box::new(BufReader::new(File::open(file).map_err(unread)?)),
    };
    let mut feed = Feed { cores, core, name, source: source.unwrap_or_else(|| number_of(file)) };
    // What is fed later has happened later, unless lines say when.
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_micros() as u64);
    let (mut batch, mut sequence) = (Vec::with_capacity(MOST_EVENTS), 0);
    let (mut new, mut known) = (0, 0);
    for (line, text) in (1_u64..).zip(reader.lines()) {
        let text = text.map_err(unread)?;
        let edge = lines::edge(&text, sequence, begun).map_err(|wrong| {
            let before = format!("{sequence} edges before it have come");
            Failure::request(format!("{shown}, line {line}: {wrong}; {before}"))
        });
        // What was right before a line that is not is in.
        let is_wrong = edge.is_err();
        if let Ok(Some(edge)) = &edge {
            batch.push(*edge);
            sequence += 1;
        }
        if batch.len() == MOST_EVENTS || is_wrong {
            let offered = feed.offer(std::mem::take(&mut batch))?;
            (new, known) = (new + offered.0, known + offered.1);
        }
        edge?;
    }
    let offered = feed.offer(batch)?;
    (new, known) = (new + offered.0, known + offered.1);
    let source = feed.source;
    match query.json {
        true => {
            crate::print(&format!("{}\n", json!({ "source": source, "new": new, "known": known })))
        }
        false => {
            let twice =
                if known > 0 { format!(", {known} had come before") } else { String::new() };
            crate::print(&format!("{new} edges of source {source} are in{twice}\n"))
        }
    }
}

struct Feed<'a> {
    cores: &'a mut Cores,
    core: Target,
    name: &'a str,
    source: u64,
}

impl Feed<'_> {
    /// How many of these were new, and how many had been there.
    fn offer(&mut self, events: Vec<EdgeEvent>) -> Result<(u64, u64), Failure> {
        let Some(last) = events.last() else { return Ok((0, 0)) };
        // Its lines may have any times, so a file promises nothing.
        let (name, source, upto) = (self.name, self.source, last.sequence + 1);
        let offer =
            async |it: nile_interfaces::graph::GraphClient| it.offer(name, source, 0, events).await;
        let offered = self.cores.ask(self.core, offer)?;
        if offered.next < upto {
            let next = offered.next;
            let message = format!("source {source} lacks its edge {next}: choose another --source");
            return Err(Failure::request(message));
        }
        Ok((offered.new, offered.known))
    }
}

/// The source that a file is, unless it is said: the same for the same name.
fn number_of(file: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    file.hash(&mut hasher);
    // Such as people can read.
    hasher.finish() >> 32
}
