//! What clients are answered.

use alloc::format;
use alloc::vec::Vec;
use core::cell::Cell;

use nile_abi::{Instant, Status};
use nile_net::memory::SEND_BYTES;
use nile_stl::{CallError, CallResult};

use crate::request::{How, Refusal, Request};
use crate::table::{Counted, Item, MOST_VALUE, Records, Stored, Table, expiry};

/// Bytes of a piece of an answer, and then no key more.
const PIECE: usize = 16 << 10;

// There is room for it, the largest value, and what stands before and behind.
const _: () = assert!(PIECE + MOST_VALUE + 512 <= SEND_BYTES);

/// The version whose protocol this is, and whose implementation.
const VERSION: &str = concat!("VERSION 1.6.0 (NileOS ", env!("CARGO_PKG_VERSION"), ")\r\n");

const DATE: &str = "CLIENT_ERROR this node has no calendar: say seconds from now, 30 days at most";
const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";

/// A piece of an answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Piece {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// From which of the request's keys on the next piece is; `None` if this is the last one.
    pub next: Option<u32>,
    /// The connection ends with it.
    pub closes: bool,
}

/// What is told of the connections beside the records.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// How many there are.
    pub connections: usize,
    /// Records of the core, and bytes of their keys and values.
    pub records: u64,
    /// Those bytes.
    pub bytes: u64,
}

/// Answers requests, and counts what was asked for.
pub struct Answers<R> {
    table: Table<R>,
    gets: Cell<u64>,
    hits: Cell<u64>,
    sets: Cell<u64>,
}

/// What is not done with a line of its own.
enum Said {
    Line(&'static str),
    Piece(Piece),
}

impl<R: Records> Answers<R> {
    /// Answers of these records.
    pub fn new(records: R) -> Answers<R> {
        Answers {
            table: Table(records),
            gets: Cell::new(0),
            hits: Cell::new(0),
            sets: Cell::new(0),
        }
    }

    /// The values of clients.
    pub fn table(&self) -> &Table<R> {
        &self.table
    }

    /// Does what is asked for, and answers; of a request for many keys, those from `from` on.
    pub fn answer(
        &self,
        request: &Request<'_>,
        from: u32,
        now: Instant,
        figures: impl FnOnce() -> CallResult<Figures>,
    ) -> Piece {
        let said = match request {
            Request::Get { keys, with_version, expires } => self
                .get(keys, from, *with_version, *expires, now)
                .map(|got| got.map_or(Said::Line(DATE), Said::Piece)),
            Request::Store { how, key, flags, expires, data, .. } => {
                self.store(*how, key, (*flags, *expires, data), now).map(Said::Line)
            }
            // What is there is not what the client believes to be there from now on.
            Request::TooLarge { key, .. } => {
                self.table.remove(key, now).map(|_| Said::Line(TOO_LARGE))
            }
            Request::Delete { key, .. } => {
                let removed = self.table.remove(key, now);
                removed.map(|it| Said::Line(if it { "DELETED" } else { "NOT_FOUND" }))
            }
            Request::Count { key, by, is_up, .. } => {
                self.table.count(key, *by, *is_up, now).map(counted)
            }
            Request::Touch { key, expires, .. } => self.touch(key, *expires, now).map(Said::Line),
            Request::Flush { delay: ..=0, .. } => self.table.flush().map(|()| Said::Line("OK")),
            // Whoever asks has it done then.
            Request::Flush { .. } => Ok(Said::Line("OK")),
            Request::Stats => figures().map(|it| Said::Piece(self.stats(it, now))),
            Request::Version => Ok(Said::Piece(whole(VERSION.into()))),
            Request::Verbosity { .. } => Ok(Said::Line("OK")),
            Request::Quit => Ok(Said::Piece(Piece { closes: true, ..Piece::default() })),
        };
        if is_quiet(request) {
            return Piece::default();
        }
        match said {
            Ok(Said::Line(line)) => line_of(line),
            Ok(Said::Piece(piece)) => piece,
            Err(error) => failed(&error),
        }
    }

    /// The values of keys, as many as a piece has; `None` if a date was said.
    fn get(
        &self,
        keys: &[&[u8]],
        from: u32,
        with_version: bool,
        expires: Option<i64>,
        now: Instant,
    ) -> CallResult<Option<Piece>> {
        let Ok(expires) = expires.map(|it| expiry(it, now)).transpose() else { return Ok(None) };
        let mut bytes = Vec::new();
        for (place, key) in keys.iter().enumerate().skip(from as usize) {
            if bytes.len() >= PIECE {
                return Ok(Some(Piece { bytes, next: Some(place as u32), closes: false }));
            }
            self.gets.set(self.gets.get() + 1);
            let found = match expires {
                Some(expires) => self.table.touch(key, expires, now)?,
                None => self.table.get(key, now)?,
            };
            let Some((version, Item { flags, data, .. })) = found else { continue };
            self.hits.set(self.hits.get() + 1);
            bytes.extend_from_slice(b"VALUE ");
            bytes.extend_from_slice(key);
            let length = data.len();
            let rest = match with_version {
                true => format!(" {flags} {length} {version}\r\n"),
                false => format!(" {flags} {length}\r\n"),
            };
            bytes.extend_from_slice(rest.as_bytes());
            bytes.extend_from_slice(&data);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"END\r\n");
        Ok(Some(whole(bytes)))
    }

    fn store(
        &self,
        how: How,
        key: &[u8],
        (flags, expires, data): (u32, i64, &[u8]),
        now: Instant,
    ) -> CallResult<&'static str> {
        self.sets.set(self.sets.get() + 1);
        let Ok(expires) = expiry(expires, now) else { return Ok(DATE) };
        let item = Item { flags, expires, data: data.into() };
        Ok(match self.table.store(how, key, item, now)? {
            Stored::Yes => "STORED",
            Stored::No => "NOT_STORED",
            Stored::Exists => "EXISTS",
            Stored::Missing => "NOT_FOUND",
            Stored::TooLarge => TOO_LARGE,
        })
    }

    fn touch(&self, key: &[u8], expires: i64, now: Instant) -> CallResult<&'static str> {
        let Ok(expires) = expiry(expires, now) else { return Ok(DATE) };
        let found = self.table.touch(key, expires, now)?;
        Ok(if found.is_some() { "TOUCHED" } else { "NOT_FOUND" })
    }

    fn stats(&self, figures: Figures, now: Instant) -> Piece {
        let (gets, hits) = (self.gets.get(), self.hits.get());
        let lines = [
            ("uptime", now.as_nanos() / 1_000_000_000),
            ("curr_connections", figures.connections as u64),
            ("curr_items", figures.records),
            ("bytes", figures.bytes),
            ("cmd_get", gets),
            ("cmd_set", self.sets.get()),
            ("get_hits", hits),
            ("get_misses", gets - hits),
            ("item_size_max", MOST_VALUE as u64),
        ];
        let mut bytes = Vec::new();
        for (name, value) in lines {
            bytes.extend_from_slice(format!("STAT {name} {value}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"END\r\n");
        whole(bytes)
    }
}

/// Why a request is refused.
pub fn refused(refusal: Refusal) -> Piece {
    line_of(refusal.0)
}

fn counted(counted: Counted) -> Said {
    match counted {
        Counted::Is(number) => Said::Piece(whole(format!("{number}\r\n").into_bytes())),
        Counted::Missing => Said::Line("NOT_FOUND"),
        Counted::NoNumber => {
            Said::Line("CLIENT_ERROR cannot increment or decrement non-numeric value")
        }
    }
}

fn is_quiet(request: &Request<'_>) -> bool {
    match request {
        Request::Store { is_quiet, .. }
        | Request::TooLarge { is_quiet, .. }
        | Request::Delete { is_quiet, .. }
        | Request::Count { is_quiet, .. }
        | Request::Touch { is_quiet, .. }
        | Request::Flush { is_quiet, .. }
        | Request::Verbosity { is_quiet } => *is_quiet,
        _ => false,
    }
}

fn failed(error: &CallError) -> Piece {
    match error.status {
        Status::NoMemory => line_of("SERVER_ERROR out of memory storing object"),
        _ => {
            let said = format!("{error}").replace(['\r', '\n'], " ");
            whole(format!("SERVER_ERROR {said}\r\n").into_bytes())
        }
    }
}

fn whole(bytes: Vec<u8>) -> Piece {
    Piece { bytes, ..Piece::default() }
}

fn line_of(line: &str) -> Piece {
    whole([line.as_bytes(), b"\r\n"].concat())
}
