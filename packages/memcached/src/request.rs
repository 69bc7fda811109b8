//! Requests of memcached's text protocol (protocol.txt of memcached), as they stand in the bytes
//! that have come. Nothing here waits or keeps anything: what is not whole is read again when more
//! has come.

use alloc::vec::Vec;
use core::str::{self, FromStr};

use nile_net::memory::RECEIVE_BYTES;

/// Bytes of a key at most.
pub const MOST_KEY: usize = 250;

/// Bytes of a line at most, with its end: those that a connection has room for.
pub const MOST_LINE: usize = RECEIVE_BYTES;

/// Of one that is followed by data, which have to have room, too.
const MOST_STORE_LINE: usize = 512;

/// What a client wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request<'a> {
    /// `get`, `gets`, `gat`, `gats`: the values of keys, with their versions or without, which may
    /// also be told when to expire.
    Get { keys: Vec<&'a [u8]>, with_version: bool, expires: Option<i64> },
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`.
    Store { how: How, key: &'a [u8], flags: u32, expires: i64, data: &'a [u8], is_quiet: bool },
    /// One of those with more data than is ever stored. The data are passed over.
    TooLarge { key: &'a [u8], is_quiet: bool },
    /// `delete`.
    Delete { key: &'a [u8], is_quiet: bool },
    /// `incr`, `decr`.
    Count { key: &'a [u8], by: u64, is_up: bool, is_quiet: bool },
    /// `touch`.
    Touch { key: &'a [u8], expires: i64, is_quiet: bool },
    /// `flush_all`, in so many seconds.
    Flush { delay: i64, is_quiet: bool },
    /// `stats`.
    Stats,
    /// `version`.
    Version,
    /// `verbosity`: there is only one.
    Verbosity { is_quiet: bool },
    /// `quit`.
    Quit,
}

/// On what condition a value is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// On none.
    Set,
    /// If there is none.
    Add,
    /// If there is one.
    Replace,
    /// Behind the one that there is.
    Append,
    /// Before the one that there is.
    Prepend,
    /// If the one that there is has this version.
    Compare(u64),
}

/// Why a request is refused: the line that is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal(pub &'static str);

/// The name of the command is none.
const UNKNOWN: Refusal = Refusal("ERROR");
const FORMAT: Refusal = Refusal("CLIENT_ERROR bad command line format");
const DATA: Refusal = Refusal("CLIENT_ERROR bad data chunk");
const NUMBER: Refusal = Refusal("CLIENT_ERROR invalid numeric delta argument");
const EXPIRY: Refusal = Refusal("CLIENT_ERROR invalid exptime argument");
/// A line that does not end.
pub const LONG_LINE: Refusal = Refusal("CLIENT_ERROR line too long");

/// What bytes begin with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parsed<'a> {
    /// The request, or why it is refused.
    pub request: Result<Request<'a>, Refusal>,
    /// Bytes that it takes, which need not all have come if it is refused or too large.
    pub bytes: u64,
}

/// The request that `bytes` begin with; `None` if more has to come. Values have at most
/// `most_value` bytes.
pub fn parse(bytes: &[u8], most_value: usize) -> Option<Parsed<'_>> {
    let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
        let is_long = bytes.len() >= MOST_LINE;
        return is_long.then_some(Parsed { request: Err(LONG_LINE), bytes: bytes.len() as u64 });
    };
    let line = bytes[..end].strip_suffix(b"\r").unwrap_or(&bytes[..end]);
    let behind = end + 1;
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let name = words.next().unwrap_or_default();
    let words: Vec<&[u8]> = words.collect();
    let storage = match name {
        b"set" => Some(How::Set),
        b"add" => Some(How::Add),
        b"replace" => Some(How::Replace),
        b"append" => Some(How::Append),
        b"prepend" => Some(How::Prepend),
        b"cas" => Some(How::Compare(0)),
        _ => None,
    };
    match storage {
        Some(how) => store(how, &words, bytes, behind, most_value),
        None => {
            let request = other(name, words);
            Some(Parsed { request, bytes: behind as u64 })
        }
    }
}

/// A storage command, whose data begin at `behind`.
fn store<'a>(
    how: How,
    words: &[&'a [u8]],
    bytes: &'a [u8],
    behind: usize,
    most_value: usize,
) -> Option<Parsed<'a>> {
    let line = if behind > MOST_STORE_LINE { Err(LONG_LINE) } else { line_of_store(how, words) };
    let (store, length) = match line {
        Ok(line) => line,
        Err(refusal) => return Some(Parsed { request: Err(refusal), bytes: behind as u64 }),
    };
    let whole = behind as u64 + u64::from(length) + 2;
    if length as usize > most_value {
        let request = Ok(Request::TooLarge { key: store.key, is_quiet: store.is_quiet });
        return Some(Parsed { request, bytes: whole });
    }
    let all = bytes.get(behind..whole as usize)?;
    let (data, end) = all.split_at(length as usize);
    if end != b"\r\n" {
        return Some(Parsed { request: Err(DATA), bytes: whole });
    }
    let Stored { how, key, flags, expires, is_quiet } = store;
    let request = Ok(Request::Store { how, key, flags, expires, data, is_quiet });
    Some(Parsed { request, bytes: whole })
}

/// What the line of a storage command says.
struct Stored<'a> {
    how: How,
    key: &'a [u8],
    flags: u32,
    expires: i64,
    is_quiet: bool,
}

/// The same, and how many bytes of data follow.
fn line_of_store<'a>(how: How, words: &[&'a [u8]]) -> Result<(Stored<'a>, u32), Refusal> {
    let [key, flags, expires, length, rest @ ..] = words else { return Err(UNKNOWN) };
    let (how, rest) = match (how, rest) {
        (How::Compare(_), [version, rest @ ..]) => {
            (How::Compare(number(version).ok_or(FORMAT)?), rest)
        }
        (How::Compare(_), []) => return Err(UNKNOWN),
        (how, rest) => (how, rest),
    };
    let key = checked(key)?;
    let flags = number(flags).ok_or(FORMAT)?;
    let expires = number(expires).ok_or(FORMAT)?;
    let length = number::<u32>(length).filter(|it| *it <= i32::MAX as u32).ok_or(FORMAT)?;
    let is_quiet = quiet(rest)?;
    Ok((Stored { how, key, flags, expires, is_quiet }, length))
}

/// A command without data.
fn other<'a>(name: &[u8], words: Vec<&'a [u8]>) -> Result<Request<'a>, Refusal> {
    let request = match (name, words.as_slice()) {
        (b"get" | b"gets", []) => return Err(UNKNOWN),
        (b"get" | b"gets", _) => {
            let keys = keys(words)?;
            Request::Get { keys, with_version: name == b"gets", expires: None }
        }
        (b"gat" | b"gats", [expires, _, ..]) => {
            let expires = Some(number(expires).ok_or(EXPIRY)?);
            let keys = keys(words[1..].to_vec())?;
            Request::Get { keys, with_version: name == b"gats", expires }
        }
        (b"delete", [key, rest @ ..]) => {
            // A time of zero was once allowed.
            let rest = rest.strip_prefix(&[b"0".as_slice()]).unwrap_or(rest);
            let usage = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
            let is_quiet = quiet(rest).map_err(|_| Refusal(usage))?;
            Request::Delete { key: checked(key)?, is_quiet }
        }
        (b"incr" | b"decr", [key, by, rest @ ..]) => {
            let (key, is_quiet) = (checked(key)?, quiet(rest)?);
            let by = number(by).ok_or(NUMBER)?;
            Request::Count { key, by, is_up: name == b"incr", is_quiet }
        }
        (b"touch", [key, expires, rest @ ..]) => {
            let (key, is_quiet) = (checked(key)?, quiet(rest)?);
            Request::Touch { key, expires: number(expires).ok_or(EXPIRY)?, is_quiet }
        }
        (b"flush_all", rest) => {
            let (delay, rest) = match rest {
                [delay, rest @ ..] if *delay != b"noreply" => (number(delay).ok_or(FORMAT)?, rest),
                rest => (0, rest),
            };
            Request::Flush { delay, is_quiet: quiet(rest)? }
        }
        (b"stats", []) => Request::Stats,
        // What follows the word is not looked at, as memcached has it.
        (b"version", _) => Request::Version,
        (b"verbosity", [b"noreply"]) => Request::Verbosity { is_quiet: true },
        (b"verbosity", [_level, rest @ ..]) => Request::Verbosity { is_quiet: quiet(rest)? },
        (b"quit", _) => Request::Quit,
        _ => return Err(UNKNOWN),
    };
    Ok(request)
}

fn keys(words: Vec<&[u8]>) -> Result<Vec<&[u8]>, Refusal> {
    words.into_iter().map(checked).collect()
}

fn checked(key: &[u8]) -> Result<&[u8], Refusal> {
    if key.len() > MOST_KEY { Err(FORMAT) } else { Ok(key) }
}

/// Whether nothing is to be answered.
fn quiet(rest: &[&[u8]]) -> Result<bool, Refusal> {
    match rest {
        [] => Ok(false),
        [b"noreply"] => Ok(true),
        _ => Err(UNKNOWN),
    }
}

fn number<T: FromStr>(word: &[u8]) -> Option<T> {
    str::from_utf8(word).ok()?.parse().ok()
}
