//! `nile record`: records by key in the memory of worker cores. Which core has a key follows from
//! the key and the cores that there are.

pub mod args;

use std::io::Read;

use nile_abi::Status;
use nile_interfaces::records::{RecordPage, RecordsClient, RecordsState, StoredRecord, owner};
use nile_stl::CallError;
use serde_json::{Value, json};

use crate::cluster::args::{Place, Query, Said};
use crate::cluster::session::Session;
use crate::data::service;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::known::Target;
use crate::{print, print_bytes, table};
use args::{Key, Record, RecordAction};

/// Bytes of a value at most.
const MOST_VALUE: u64 = 4096;

/// Does what is asked for.
pub fn run(options: &Record) -> Result<(), Failure> {
    match &options.action {
        RecordAction::Put { key, value, query } => {
            let value = bytes_of(value)?;
            let mut cores = Cores::open(query)?;
            let core = cores.of(key, query)?;
            let put = async |it: RecordsClient| it.put(name(key), value).await;
            let version = cores.ask(core, put)?;
            let place = core.place();
            match query.json {
                true => line(&json!({ "core": place.to_string(), "version": version })),
                false => print(&format!("{} is on {place}, version {version}\n", key.key)),
            }
        }
        RecordAction::Get { key, query } => {
            let mut cores = Cores::open(query)?;
            let core = cores.of(key, query)?;
            let found = cores.ask(core, async |it| it.get(name(key)).await)?;
            let record = found.ok_or_else(|| nothing(core, key))?;
            match query.json {
                true => line(&document(core, &record)),
                false => print_bytes(&record.value),
            }
        }
        RecordAction::Remove { key, query } => {
            let mut cores = Cores::open(query)?;
            let core = cores.of(key, query)?;
            let was_there = cores.ask(core, async |it| it.remove(name(key)).await)?;
            let place = core.place();
            match (was_there, query.json) {
                (false, _) => Err(nothing(core, key)),
                (true, true) => line(&json!({ "core": place.to_string() })),
                (true, false) => print(&format!("{} is removed from {place}\n", key.key)),
            }
        }
        RecordAction::List { on, number, query } => {
            let mut cores = Cores::open(query)?;
            let on = place(on, query)?;
            list(&mut cores, on, *number as usize, query)
        }
        RecordAction::Show(query) => show(&mut Cores::open(query)?, query),
    }
}

/// The worker cores of a cluster, as far as they answer.
struct Cores {
    session: Session,
    all: Vec<Target>,
}

impl Cores {
    fn open(query: &Query) -> Result<Cores, Failure> {
        let mut session = Session::open(&query.which, query.timeout)?;
        let all = service::find::<RecordsClient>(&mut session)?.ok_or_else(none)?;
        let away = session.away();
        let all = all.into_iter().filter(|it| !away.contains(&it.node)).collect();
        Ok(Cores { session, all })
    }

    /// The core that is meant, or the one that the key belongs to.
    fn of(&self, key: &Key, query: &Query) -> Result<Target, Failure> {
        match place(&key.on, query)? {
            Some(on) => self.at(on),
            None => {
                let number = |it: Target| u64::from(it.node.0) << 16 | u64::from(it.core.0);
                owner(key.key.as_bytes(), &self.all, number).ok_or_else(none)
            }
        }
    }

    fn at(&self, on: Place) -> Result<Target, Failure> {
        let is_it = |it: &&Target| Some(it.core) == on.core && it.node == on.node;
        let none = || Failure::request(format!("{on} is no worker core that answers"));
        self.all.iter().find(is_it).copied().ok_or_else(none)
    }

    fn ask<T>(
        &mut self,
        core: Target,
        ask: impl AsyncFnOnce(RecordsClient) -> Result<T, CallError>,
    ) -> Result<T, Failure> {
        let session = &mut self.session;
        let asked = session.peer.work(session.patience, async |clients| {
            ask(clients.at(core)).await.map_err(CallFailed::from)
        })?;
        asked.map_err(|failed| {
            let message = format!("{}: {failed}", core.place());
            match failed.status {
                Status::Invalid | Status::NoMemory => Failure::request(message),
                _ => Failure::failed(message),
            }
        })
    }
}

fn none() -> Failure {
    Failure::failed("no node has a worker core that answers")
}

fn nothing(core: Target, key: &Key) -> Failure {
    Failure::request(format!("{} has no record {}", core.place(), key.key))
}

fn place(on: &Option<Said>, query: &Query) -> Result<Option<Place>, Failure> {
    on.map(|on| on.on(&query.which)).transpose()
}

fn name(key: &Key) -> Vec<u8> {
    key.key.as_bytes().into()
}

/// The value that is said, or comes in. One that is too large is not read whole.
fn bytes_of(value: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::from(value);
    if value == "-" {
        bytes.clear();
        let mut input = std::io::stdin().take(MOST_VALUE + 1);
        let read = input.read_to_end(&mut bytes);
        read.map_err(|error| Failure::failed(format!("what comes in cannot be read: {error}")))?;
    }
    if bytes.len() as u64 > MOST_VALUE {
        let message = format!("a value has at most {MOST_VALUE} bytes: `nile put` keeps more");
        return Err(Failure::request(message));
    }
    Ok(bytes)
}

fn list(cores: &mut Cores, on: Option<Place>, most: usize, query: &Query) -> Result<(), Failure> {
    let asked = match on {
        Some(on) => vec![cores.at(on)?],
        None => cores.all.clone(),
    };
    let mut found: Vec<(Target, StoredRecord)> = Vec::new();
    let mut is_part = false;
    for core in asked {
        let mut from = None;
        loop {
            if found.len() > most {
                break;
            }
            let page = async |it: RecordsClient| it.scan(0, from).await;
            let RecordPage { records, next } = cores.ask(core, page)?;
            found.extend(records.into_iter().map(|it| (core, it)));
            match next {
                Some(next) => from = Some(next),
                None => break,
            }
        }
        is_part |= found.len() > most;
        found.truncate(most + 1);
    }
    found.truncate(most);
    if query.json {
        let records: Vec<Value> = found.iter().map(|(core, it)| document(*core, it)).collect();
        line(&json!({ "records": records, "more": is_part }))?;
    } else {
        let title = ["core", "key", "version", "bytes"];
        let mut rows = vec![title.map(String::from).to_vec()];
        rows.extend(found.iter().map(|(core, it)| {
            let key = String::from_utf8_lossy(&it.key).escape_debug().to_string();
            let (version, bytes) = (it.version.to_string(), it.value.len().to_string());
            vec![core.place().to_string(), key, version, bytes]
        }));
        print(&table::columns("", &rows))?;
        if is_part {
            print(&format!("there are more than {most}: -n shows more\n"))?;
        }
    }
    Failure::unless_all_asked(&cores.session.away())
}

fn show(cores: &mut Cores, query: &Query) -> Result<(), Failure> {
    let mut states: Vec<(Target, RecordsState)> = Vec::new();
    for core in cores.all.clone() {
        states.push((core, cores.ask(core, async |it| it.state().await)?));
    }
    if query.json {
        let state = |(core, it): &(Target, RecordsState)| {
            let core = core.place().to_string();
            json!({ "core": core, "records": it.records, "bytes": it.bytes })
        };
        line(&json!({ "cores": states.iter().map(state).collect::<Vec<_>>() }))?;
    } else {
        let mut rows = vec![["core", "records", "bytes"].map(String::from).to_vec()];
        rows.extend(states.iter().map(|(core, it)| {
            vec![core.place().to_string(), it.records.to_string(), it.bytes.to_string()]
        }));
        print(&table::columns("", &rows))?;
    }
    Failure::unless_all_asked(&cores.session.away())
}

/// A record; bytes that are no text are numbers.
fn document(core: Target, record: &StoredRecord) -> Value {
    let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!(bytes),
    };
    json!({
        "core": core.place().to_string(),
        "key": text(&record.key),
        "version": record.version,
        "value": text(&record.value),
    })
}

fn line(document: &Value) -> Result<(), Failure> {
    print(&format!("{document}\n"))
}
