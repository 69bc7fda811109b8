//! What happens to instances, told to whoever watches, in the order in which it happened. A
//! watcher that does not keep up is told how many events it missed, at the place where they are
//! missing.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;

use nile_abi::Status;
use nile_order::SortedMap;

use crate::limits::{MAX_WATCH_QUEUE, MAX_WATCHERS};
use crate::registry::Registry;
use crate::service::{Handle, TypeId};

/// What is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchFilter {
    /// The instances of every type.
    All,
    /// Those of this one, and of all that extend it.
    Type(TypeId),
}

/// A watcher; never given twice by one registry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WatcherId(u64);

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// An instance was published.
    Publish {
        /// Its type.
        ty: TypeId,
        /// Its name.
        name: Arc<str>,
        /// Which it is and where.
        handle: Handle,
    },
    /// An instance was unpublished, by itself or because its core died.
    Unpublish {
        /// Its type.
        ty: TypeId,
        /// Its name.
        name: Arc<str>,
        /// Which it was and where.
        handle: Handle,
    },
    /// An instance is on another core.
    Move {
        /// Its type.
        ty: TypeId,
        /// Its name.
        name: Arc<str>,
        /// What it was.
        from: Handle,
        /// What it is.
        to: Handle,
    },
    /// An instance's policy was expelled: an attribute says why.
    Expel {
        /// Its type.
        ty: TypeId,
        /// Its name.
        name: Arc<str>,
        /// Which it is and where.
        handle: Handle,
    },
    /// So many events were not kept, because the watcher's queue was full. List the instances
    /// again.
    Missed(u64),
}

/// Why there is no watcher, or no event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchError {
    /// There is no such type.
    UnknownType,
    /// There is no such watcher.
    UnknownWatcher,
    /// A queue holds at least one event and at most [`MAX_WATCH_QUEUE`].
    BadCapacity(usize),
    /// There are [`MAX_WATCHERS`].
    TooManyWatchers,
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchError::UnknownType => f.write_str("there is no such type"),
            WatchError::UnknownWatcher => f.write_str("there is no such watcher"),
            WatchError::BadCapacity(capacity) => {
                write!(f, "a queue of {capacity} events; it holds from 1 to {MAX_WATCH_QUEUE}")
            }
            WatchError::TooManyWatchers => {
                write!(f, "{MAX_WATCHERS} watch already; end one of them")
            }
        }
    }
}

impl From<WatchError> for Status {
    fn from(error: WatchError) -> Status {
        match error {
            WatchError::UnknownType | WatchError::UnknownWatcher => Status::NotFound,
            WatchError::BadCapacity(_) => Status::Invalid,
            WatchError::TooManyWatchers => Status::Busy,
        }
    }
}

struct Watcher {
    filter: WatchFilter,
    capacity: usize,
    queue: VecDeque<Event>,
}

/// Everyone who watches.
#[derive(Default)]
pub(crate) struct Watchers {
    watchers: SortedMap<WatcherId, Watcher>,
    next: u64,
}

impl Watchers {
    /// Tells whoever watches one of these types.
    pub(crate) fn tell(&mut self, types: &[TypeId], event: impl Fn() -> Event) {
        for watcher in self.watchers.values_mut() {
            if matches!(&watcher.filter, WatchFilter::Type(other) if !types.contains(other)) {
                continue;
            }
            if watcher.queue.len() < watcher.capacity {
                watcher.queue.push_back(event());
            } else if let Some(Event::Missed(count)) = watcher.queue.back_mut() {
                *count += 1;
            } else {
                // One more than the capacity: that something is missing always has a place.
                watcher.queue.push_back(Event::Missed(1));
            }
        }
    }
}

impl Registry {
    /// Begins to watch, from the next event on. At most `capacity` events wait.
    pub fn watch(&mut self, filter: WatchFilter, capacity: usize) -> Result<WatcherId, WatchError> {
        if !(1..=MAX_WATCH_QUEUE).contains(&capacity) {
            return Err(WatchError::BadCapacity(capacity));
        }
        if matches!(filter, WatchFilter::Type(ty) if self.entry(ty).is_none()) {
            return Err(WatchError::UnknownType);
        }
        let Watchers { watchers, next } = &mut self.watchers;
        if watchers.len() >= MAX_WATCHERS {
            return Err(WatchError::TooManyWatchers);
        }
        let id = WatcherId(*next);
        *next += 1;
        watchers.insert(id, Watcher { filter, capacity, queue: VecDeque::new() });
        Ok(id)
    }

    /// The next thing that happened; nothing if the watcher knows all. Does not block.
    pub fn next_event(&mut self, id: WatcherId) -> Result<Option<Event>, WatchError> {
        let watcher = self.watchers.watchers.get_mut(&id).ok_or(WatchError::UnknownWatcher)?;
        Ok(watcher.queue.pop_front())
    }

    /// Ends watching; what waits is forgotten.
    pub fn unwatch(&mut self, id: WatcherId) -> Result<(), WatchError> {
        let watcher = self.watchers.watchers.remove(&id);
        watcher.map(|_| ()).ok_or(WatchError::UnknownWatcher)
    }
}
