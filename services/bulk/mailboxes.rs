//! The mailboxes of this node: what has come to each, what is on its way, and what waits at its
//! sender until there is room. No IO: whoever owns this asks what may come now.
//!
//! A mailbox belongs to an incarnation of a core. It may hold a share of the pool, so that one
//! whose owner is slow takes nothing from the others.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::task::Waker;

use nile_abi::{CoreId, Generation, NodeId};
use nile_order::SortedMap;
use nile_stl::node::{Buffer, Handle, Pool};

/// The fewest buffers that a mailbox may hold.
const LEAST_SHARE: usize = 2;

/// The most tasks that are remembered as waiting: more of them are woken to ask again.
const MOST_WAITING: usize = 64;

/// The most mailboxes of a node.
const MOST: usize = 1024;

/// Who has opened a mailbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    pub core: CoreId,
    pub generation: Generation,
}

/// Something that has come.
pub struct Arrived {
    pub from: NodeId,
    pub generation: Generation,
    pub label: u64,
    pub buffer: Buffer,
    pub bytes: usize,
}

/// What an arrival is, besides its buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Given {
    pub from: NodeId,
    pub generation: Generation,
    pub label: u64,
    pub handle: Handle,
}

/// Why a mailbox was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotOpened {
    /// Another core has it.
    Exists,
    /// There are as many as there may be.
    TooMany,
}

struct Mailbox {
    owner: Owner,
    arrived: VecDeque<Arrived>,
    /// What was given to the owner. It claims that before it asks again; what it never got, for
    /// instance because it had stopped waiting, is given once more.
    given: Vec<Given>,
    /// Transfers that come, each with a buffer of its own.
    coming: usize,
    /// Who waits for something to arrive, and who for room.
    readers: Vec<Waker>,
    writers: Vec<Waker>,
}

/// All mailboxes of a node.
#[derive(Default)]
pub struct Mailboxes(SortedMap<u64, Mailbox>);

impl Mailboxes {
    /// Opens a mailbox. Its owner may do so again.
    pub fn open(&mut self, name: u64, owner: Owner) -> Result<(), NotOpened> {
        match self.0.get(&name) {
            Some(known) if known.owner == owner => return Ok(()),
            Some(_) => return Err(NotOpened::Exists),
            None if self.0.len() >= MOST => return Err(NotOpened::TooMany),
            None => {}
        }
        let mailbox = Mailbox {
            owner,
            arrived: VecDeque::new(),
            given: Vec::new(),
            coming: 0,
            readers: Vec::new(),
            writers: Vec::new(),
        };
        self.0.insert(name, mailbox);
        Ok(())
    }

    /// Closes a mailbox: what it holds is free. `false` if there is none.
    pub fn close(&mut self, name: u64, pool: &Pool) -> bool {
        let Some(mut mailbox) = self.0.remove(&name) else { return false };
        mailbox.given.drain(..).for_each(|given| drop(pool.claim(given.handle)));
        mailbox.readers.into_iter().chain(mailbox.writers).for_each(Waker::wake);
        true
    }

    /// Who has opened a mailbox.
    pub fn owner(&self, name: u64) -> Option<Owner> {
        self.0.get(&name).map(|mailbox| mailbox.owner)
    }

    /// The mailboxes whose owners are not as `lives` says.
    pub fn orphans(&self, lives: impl Fn(Owner) -> bool) -> Vec<u64> {
        let orphans = self.0.iter().filter(|(_, mailbox)| !lives(mailbox.owner));
        orphans.map(|(name, _)| *name).collect()
    }

    /// Whether a mailbox may take one more, of a pool of so many buffers. `None` if it is not open.
    pub fn has_room(&self, name: u64, buffers: usize) -> Option<bool> {
        let mailbox = self.0.get(&name)?;
        let share = (buffers / 2 / self.0.len()).max(LEAST_SHARE);
        Some(mailbox.arrived.len() + mailbox.given.len() + mailbox.coming < share)
    }

    /// A transfer begins to come to a mailbox that has room.
    pub fn begin(&mut self, name: u64) {
        if let Some(mailbox) = self.0.get_mut(&name) {
            mailbox.coming += 1;
        }
    }

    /// A transfer that came is over. What has arrived is dropped if the mailbox is gone.
    pub fn end(&mut self, name: u64, arrived: Option<Arrived>) {
        let Some(mailbox) = self.0.get_mut(&name) else { return };
        mailbox.coming = mailbox.coming.saturating_sub(1);
        match arrived {
            Some(arrived) => mailbox.put(arrived),
            None => mailbox.writers.drain(..).for_each(Waker::wake),
        }
    }

    /// Something came from this node to a mailbox that has room.
    pub fn put(&mut self, name: u64, arrived: Arrived) {
        if let Some(mailbox) = self.0.get_mut(&name) {
            mailbox.put(arrived);
        }
    }

    /// Has `waker` woken when there may be room.
    pub fn wait_for_room(&mut self, name: u64, waker: &Waker) {
        if let Some(mailbox) = self.0.get_mut(&name) {
            wait(&mut mailbox.writers, waker);
        }
    }

    /// Gives what came first. `None` and `waker` is woken when something comes, or the mailbox is
    /// closed.
    pub fn take(&mut self, name: u64, pool: &Pool, waker: &Waker) -> Option<Given> {
        let mailbox = self.0.get_mut(&name)?;
        mailbox.take_back(pool);
        let Some(Arrived { from, generation, label, buffer, bytes }) = mailbox.arrived.pop_front()
        else {
            wait(&mut mailbox.readers, waker);
            return None;
        };
        let given = Given { from, generation, label, handle: buffer.into_handle(bytes) };
        mailbox.given.push(given);
        mailbox.writers.drain(..).for_each(Waker::wake);
        Some(given)
    }
}

/// Adds a task to those that wait.
fn wait(waiting: &mut Vec<Waker>, waker: &Waker) {
    if waiting.len() >= MOST_WAITING {
        waiting.drain(..).for_each(Waker::wake);
    }
    if !waiting.iter().any(|known| known.will_wake(waker)) {
        waiting.push(waker.clone());
    }
}

impl Mailbox {
    fn put(&mut self, arrived: Arrived) {
        self.arrived.push_back(arrived);
        self.readers.drain(..).for_each(Waker::wake);
    }

    /// What the owner was given and has not claimed comes first again.
    fn take_back(&mut self, pool: &Pool) {
        for Given { from, generation, label, handle } in self.given.drain(..).rev() {
            if let Ok(buffer) = pool.claim(handle) {
                let bytes = buffer.len();
                self.arrived.push_front(Arrived { from, generation, label, buffer, bytes });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_stl::node::PoolId;

    const OWNER: Owner = Owner { core: CoreId(3), generation: Generation(1) };

    fn pool() -> Pool {
        Pool::owned(PoolId(0), CoreId(1), 16, 4096).unwrap()
    }

    fn arrival(pool: &Pool, label: u64) -> Arrived {
        let buffer = pool.alloc().unwrap();
        Arrived { from: NodeId(2), generation: Generation(7), label, buffer, bytes: 5 }
    }

    fn take(boxes: &mut Mailboxes, pool: &Pool) -> Option<Given> {
        boxes.take(1, pool, Waker::noop())
    }

    #[test]
    fn what_comes_is_given_in_order_and_what_is_never_claimed_again() {
        let (pool, mut boxes) = (pool(), Mailboxes::default());
        boxes.open(1, OWNER).unwrap();
        for label in 0..3 {
            boxes.put(1, arrival(&pool, label));
        }
        let first = take(&mut boxes, &pool).unwrap();
        assert_eq!((first.label, first.from, first.generation), (0, NodeId(2), Generation(7)));
        let claimed = pool.claim(first.handle).unwrap();
        assert_eq!(claimed.len(), 5);
        let second = take(&mut boxes, &pool).unwrap();
        // Nobody has got that: it comes once more, and the first handle is worth nothing.
        let again = take(&mut boxes, &pool).unwrap();
        assert_eq!((second.label, again.label), (1, 1));
        assert!(pool.claim(second.handle).is_err());
        assert!(pool.claim(again.handle).is_ok());
        assert_eq!(take(&mut boxes, &pool).map(|it| it.label), Some(2));
    }

    #[test]
    fn a_mailbox_holds_its_share_and_no_more() {
        let (pool, mut boxes) = (pool(), Mailboxes::default());
        assert_eq!(boxes.has_room(1, 16), None);
        boxes.open(1, OWNER).unwrap();
        for _ in 0..7 {
            boxes.begin(1);
        }
        assert_eq!(boxes.has_room(1, 16), Some(true));
        boxes.put(1, arrival(&pool, 0));
        assert_eq!(boxes.has_room(1, 16), Some(false));
        boxes.end(1, Some(arrival(&pool, 1)));
        assert_eq!(boxes.has_room(1, 16), Some(false), "it has arrived");
        boxes.end(1, None);
        assert_eq!(boxes.has_room(1, 16), Some(true));
        let given = take(&mut boxes, &pool).unwrap();
        boxes.begin(1);
        assert_eq!(boxes.has_room(1, 16), Some(false), "what is given counts until it is claimed");
        pool.claim(given.handle).unwrap();
        take(&mut boxes, &pool).unwrap();
        assert_eq!(boxes.has_room(1, 16), Some(true));
        for name in 2..100 {
            boxes.open(name, OWNER).unwrap();
        }
        assert_eq!(boxes.has_room(50, 16), Some(true), "each has a least share");
        assert_eq!(boxes.has_room(1, 16), Some(false));
    }

    #[test]
    fn closing_frees_all_that_is_held() {
        let (pool, mut boxes) = (pool(), Mailboxes::default());
        boxes.open(1, OWNER).unwrap();
        boxes.put(1, arrival(&pool, 0));
        boxes.put(1, arrival(&pool, 1));
        take(&mut boxes, &pool).unwrap();
        assert_eq!(pool.free_buffers(), 14);
        assert!(boxes.close(1, &pool));
        assert_eq!(pool.free_buffers(), 16);
        assert!(!boxes.close(1, &pool));
        boxes.end(1, Some(arrival(&pool, 2)));
        assert_eq!(pool.free_buffers(), 16, "it came too late");
    }

    #[test]
    fn a_mailbox_is_one_incarnation_s() {
        let mut boxes = Mailboxes::default();
        let later = Owner { generation: Generation(2), ..OWNER };
        assert_eq!(boxes.open(1, OWNER), Ok(()));
        assert_eq!(boxes.open(1, OWNER), Ok(()));
        assert_eq!(boxes.open(1, later), Err(NotOpened::Exists));
        assert_eq!(boxes.orphans(|owner| owner == later), [1]);
        assert!(boxes.orphans(|owner| owner == OWNER).is_empty());
        for name in 2..=MOST as u64 {
            boxes.open(name, OWNER).unwrap();
        }
        assert_eq!(boxes.open(0, OWNER), Err(NotOpened::TooMany));
    }
}
