//! What clients do to values, as operations on records. A record's key is the client's behind a
//! prefix; its value has flags and the moment at which it expires before the client's bytes. What
//! depends on what is there is done by comparing versions, so that it is one step for all clients,
//! also for those that reach the records by another way.

use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Instant;
use nile_interfaces::records::StoredRecord;
use nile_stl::CallResult;

use crate::request::How;

/// Where the keys of clients are among all of a core's records.
pub const PREFIX: &[u8] = b"mc/";

/// Bytes before those of the client: flags (4) and the moment at which it expires (8), in
/// nanoseconds since the node's start, little endian; zero says never.
const HEADER: usize = 12;

/// Bytes that a client can store under a key.
pub const MOST_VALUE: usize = 4096 - HEADER;

/// What counts as seconds from now; what is more would be a date, and the node has no calendar.
const MOST_SECONDS: i64 = 60 * 60 * 24 * 30;

/// The records of a core, one operation at a time.
pub trait Records {
    /// The record of a key.
    fn get(&self, key: &[u8]) -> CallResult<Option<StoredRecord>>;

    /// Stores a value.
    fn put(&self, key: &[u8], value: &[u8]) -> CallResult<()>;

    /// Removes a record; whether there was one.
    fn remove(&self, key: &[u8]) -> CallResult<bool>;

    /// Stores a value if the record has this version, or, for 0, if there is none; whether it had.
    fn compare(&self, key: &[u8], version: u64, value: &[u8]) -> CallResult<bool>;

    /// Keys behind one, in their order; none is behind the last.
    fn keys(&self, after: &[u8]) -> CallResult<Vec<Vec<u8>>>;
}

/// A value of a client's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// What the client said with it.
    pub flags: u32,
    /// When it expires.
    pub expires: Option<Instant>,
    /// Its bytes.
    pub data: Vec<u8>,
}

impl Item {
    fn encode(&self) -> Vec<u8> {
        let expires = self.expires.map_or(0, |it| it.as_nanos().max(1));
        let mut bytes = Vec::with_capacity(HEADER + self.data.len());
        bytes.extend_from_slice(&self.flags.to_le_bytes());
        bytes.extend_from_slice(&expires.to_le_bytes());
        bytes.extend_from_slice(&self.data);
        bytes
    }

    /// `None` if nobody has stored that here.
    fn decode(bytes: &[u8]) -> Option<Item> {
        let (flags, rest) = bytes.split_first_chunk()?;
        let (expires, data) = rest.split_first_chunk()?;
        let expires = u64::from_le_bytes(*expires);
        let expires = (expires > 0).then(|| Instant::from_nanos(expires));
        Some(Item { flags: u32::from_le_bytes(*flags), expires, data: data.into() })
    }
}

/// When something expires that a client says so many seconds of. A negative number is in the past.
/// `Err` if it is a date.
pub fn expiry(seconds: i64, now: Instant) -> Result<Option<Instant>, NoCalendar> {
    match seconds {
        0 => Ok(None),
        ..0 => Ok(Some(Instant::from_nanos(1))),
        1..=MOST_SECONDS => Ok(Some(now + Duration::from_secs(seconds.unsigned_abs()))),
        _ => Err(NoCalendar),
    }
}

/// A client says a date.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoCalendar;

/// What has become of a value that was to be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    /// It is.
    Yes,
    /// What is there, or is not there, is not as it was to be.
    No,
    /// There is another version than the one that was named.
    Exists,
    /// There is none, where a version was named.
    Missing,
    /// What is there has no room for more.
    TooLarge,
}

/// What has become of a number that was to be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// It is this now.
    Is(u64),
    /// There is none.
    Missing,
    /// What there is is no number.
    NoNumber,
}

/// Clients' values among the records of a core.
pub struct Table<R>(pub R);

impl<R: Records> Table<R> {
    /// The value of a key, with its version.
    pub fn get(&self, key: &[u8], now: Instant) -> CallResult<Option<(u64, Item)>> {
        Ok(self.look(&named(key), now)?.1)
    }

    /// The version of a record, 0 if there is none, and its value if it has not expired.
    fn look(&self, name: &[u8], now: Instant) -> CallResult<(u64, Option<(u64, Item)>)> {
        let Some(record) = self.0.get(name)? else { return Ok((0, None)) };
        let item = Item::decode(&record.value);
        let live = item.filter(|it| it.expires.is_none_or(|at| now < at));
        Ok((record.version, live.map(|it| (record.version, it))))
    }

    /// Makes of what is there what `change` says, unless that is nothing, in one step.
    fn change<T>(
        &self,
        key: &[u8],
        now: Instant,
        mut change: impl FnMut(Option<(u64, Item)>) -> Result<(Item, T), T>,
    ) -> CallResult<T> {
        let name = named(key);
        loop {
            let (version, live) = self.look(&name, now)?;
            match change(live) {
                Ok((item, said)) if self.0.compare(&name, version, &item.encode())? => {
                    return Ok(said);
                }
                // Somebody else was quicker: what there is now is looked at.
                Ok(_) => {}
                Err(said) => return Ok(said),
            }
        }
    }

    /// Stores a value.
    pub fn store(&self, how: How, key: &[u8], item: Item, now: Instant) -> CallResult<Stored> {
        if how == How::Set {
            self.0.put(&named(key), &item.encode())?;
            return Ok(Stored::Yes);
        }
        self.change(key, now, |live| match (how, live) {
            (How::Set, _) | (How::Add, None) | (How::Replace, Some(_)) => {
                Ok((item.clone(), Stored::Yes))
            }
            (How::Append, Some((_, it))) => joined(it, &[], &item.data),
            (How::Prepend, Some((_, it))) => joined(it, &item.data, &[]),
            (How::Compare(version), Some((is, _))) if is == version => {
                Ok((item.clone(), Stored::Yes))
            }
            (How::Compare(_), Some(_)) => Err(Stored::Exists),
            (How::Compare(_), None) => Err(Stored::Missing),
            _ => Err(Stored::No),
        })
    }

    /// Removes a value; whether there was one.
    pub fn remove(&self, key: &[u8], now: Instant) -> CallResult<bool> {
        let was_there = self.get(key, now)?.is_some();
        Ok(self.0.remove(&named(key))? && was_there)
    }

    /// Adds to a number of decimal digits, or takes from it: more than the largest begins at zero,
    /// less than zero is zero.
    pub fn count(&self, key: &[u8], by: u64, is_up: bool, now: Instant) -> CallResult<Counted> {
        self.change(key, now, |live| {
            let (_, item) = live.ok_or(Counted::Missing)?;
            let known = number(&item.data).ok_or(Counted::NoNumber)?;
            let next = if is_up { known.wrapping_add(by) } else { known.saturating_sub(by) };
            let mut data = alloc::format!("{next}").into_bytes();
            // As memcached has it: what becomes shorter is filled with spaces.
            let longest = if is_up { 0 } else { item.data.len() };
            data.resize(data.len().max(longest), b' ');
            Ok((Item { data, ..item }, Counted::Is(next)))
        })
    }

    /// Has a value expire at another moment; it, if there is one.
    pub fn touch(
        &self,
        key: &[u8],
        expires: Option<Instant>,
        now: Instant,
    ) -> CallResult<Option<(u64, Item)>> {
        let found = self.change(key, now, |live| match live {
            Some((version, item)) => {
                let item = Item { expires, ..item };
                Ok((item.clone(), Some((version, item))))
            }
            None => Err(None),
        })?;
        // Its version is another one since.
        match found {
            Some((_, item)) => Ok(self.get(key, now)?.map(|(version, _)| (version, item))),
            None => Ok(None),
        }
    }

    /// Removes all values of clients.
    pub fn flush(&self) -> CallResult<()> {
        let mut after = PREFIX.to_vec();
        loop {
            let keys = self.0.keys(&after)?;
            for key in &keys {
                if !key.starts_with(PREFIX) {
                    return Ok(());
                }
                self.0.remove(key)?;
            }
            match keys.into_iter().next_back() {
                Some(last) => after = last,
                None => return Ok(()),
            }
        }
    }
}

fn named(key: &[u8]) -> Vec<u8> {
    [PREFIX, key].concat()
}

fn joined(item: Item, before: &[u8], behind: &[u8]) -> Result<(Item, Stored), Stored> {
    let data = [before, &item.data, behind].concat();
    if data.len() > MOST_VALUE {
        return Err(Stored::TooLarge);
    }
    Ok((Item { data, ..item }, Stored::Yes))
}

/// The number that these digits are; spaces may follow.
fn number(data: &[u8]) -> Option<u64> {
    let digits = data.trim_ascii_end();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    core::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}
