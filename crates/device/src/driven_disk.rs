//! A disk as the tasks of its core use it: requests wait here until the device has room for them,
//! and their memory is the disk's until they have ended.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use crate::disk::{Description, DiskError, Inline, Piece, Request};
use crate::{Disk, Line};

/// A disk that this core drives: the same one for all its tasks.
pub struct DrivenDisk {
    device: Box<dyn Disk>,
    requests: RefCell<Requests>,
}

#[derive(Default)]
struct Requests {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Those that the device has had no room for yet.
    waiting: VecDeque<(u32, Request, Inline)>,
    in_flight: u32,
    /// Requests that have ended.
    ended: u64,
}

/// How a request ended: well, with the hash of what was moved if that was wanted and taken.
pub type End = Result<Option<u64>, DiskError>;

/// What is known of a request.
enum Slot {
    Free,
    /// It goes on: its memory, and who waits.
    Open(Rc<dyn Any>, Option<Waker>),
    Ended(End),
    /// It goes on, and nobody waits any more; its memory stays, for the device.
    Abandoned {
        _memory: Rc<dyn Any>,
    },
}

impl DrivenDisk {
    /// A disk of which nobody has asked anything yet.
    pub fn new(device: Box<dyn Disk>) -> DrivenDisk {
        DrivenDisk { device, requests: RefCell::default() }
    }

    /// What it is.
    pub fn description(&self) -> &Description {
        self.device.description()
    }

    /// What it interrupts by.
    pub fn line(&self) -> Option<Line> {
        self.device.line()
    }

    /// Requests that the device has ended so far.
    pub fn ended(&self) -> u64 {
        self.requests.borrow().ended + self.device.ended_for_others()
    }

    /// Reads from byte `at` on into `pieces`, which lie in `memory`.
    pub fn read<T: 'static>(
        self: &Rc<Self>,
        at: u64,
        pieces: Vec<Piece>,
        memory: T,
    ) -> Transfer<T> {
        self.begin(Request::Read { at, into: pieces }, Inline::default(), memory)
    }

    /// Writes `pieces`, which lie in `memory`, from byte `at` on. It is durable after a flush that
    /// began when this had ended.
    pub fn write<T: 'static>(
        self: &Rc<Self>,
        at: u64,
        pieces: Vec<Piece>,
        memory: T,
    ) -> Transfer<T> {
        self.begin(Request::Write { at, from: pieces }, Inline::default(), memory)
    }

    /// Makes durable all writes that have ended before.
    pub fn flush(self: &Rc<Self>) -> Transfer<()> {
        self.begin(Request::Flush, Inline::default(), ())
    }

    /// Gives back what lies beneath these bytes: until they are written, they are anything.
    pub fn discard(self: &Rc<Self>, at: u64, bytes: u64) -> Transfer<()> {
        self.begin(Request::Discard { at, bytes }, Inline::default(), ())
    }

    /// Whether the device encrypts and decrypts transfers of so many bytes.
    pub fn ciphers(&self, bytes: u64) -> bool {
        self.device.ciphers(bytes)
    }

    /// Does any request, whose pieces lie in `memory`, and with the bytes of a transfer what is
    /// said.
    pub fn begin<T: 'static>(
        self: &Rc<Self>,
        request: Request,
        inline: Inline,
        memory: T,
    ) -> Transfer<T> {
        let memory = Rc::new(Cell::new(Some(memory)));
        let slot = self.open(request, inline, memory.clone());
        Transfer { disk: self.clone(), slot: Some(slot), memory }
    }

    fn open(&self, request: Request, inline: Inline, memory: Rc<dyn Any>) -> u32 {
        let requests = &mut *self.requests.borrow_mut();
        let slot = requests.free.pop().unwrap_or_else(|| {
            requests.slots.push(Slot::Free);
            requests.slots.len() as u32 - 1
        });
        let fits = self.description().check(&request);
        requests.slots[slot as usize] = match fits {
            Ok(()) => Slot::Open(memory, None),
            Err(error) => Slot::Ended(Err(error)),
        };
        if fits.is_ok() {
            if requests.waiting.is_empty() && self.device.submit_inline(slot, &request, &inline) {
                requests.in_flight += 1;
            } else {
                requests.waiting.push_back((slot, request, inline));
            }
        }
        slot
    }

    /// Whether a request has ended and nobody was told.
    pub fn is_ready(&self) -> bool {
        self.is_looked_at() && self.device.is_ready()
    }

    fn is_looked_at(&self) -> bool {
        self.requests.borrow().in_flight > 0 || self.device.serves_others()
    }

    /// Whether no request is under way.
    pub fn is_idle(&self) -> bool {
        let requests = self.requests.borrow();
        requests.in_flight == 0 && requests.waiting.is_empty()
    }

    /// Tells the device what there is to do, and tasks what is done; whether anything was done. The
    /// core's loop does once a pass.
    pub fn turn(&self) -> bool {
        if !self.is_looked_at() {
            return false;
        }
        self.device.tell();
        let mut found = false;
        while let Some(completion) = self.device.complete() {
            found = true;
            self.end(completion.tag, completion.result.map(|()| completion.hash));
        }
        // There is room after an end, which may be of somebody else's request.
        let requests = &mut *self.requests.borrow_mut();
        while let Some((slot, request, inline)) = requests.waiting.front() {
            if !self.device.submit_inline(*slot, request, inline) {
                break;
            }
            found = true;
            requests.in_flight += 1;
            requests.waiting.pop_front();
        }
        found
    }

    fn end(&self, slot: u32, result: End) {
        let mut requests = self.requests.borrow_mut();
        let Some(place) = requests.slots.get_mut(slot as usize) else { return };
        let ended = match place {
            Slot::Open(..) => core::mem::replace(place, Slot::Ended(result)),
            Slot::Abandoned { .. } => core::mem::replace(place, Slot::Free),
            Slot::Free | Slot::Ended(_) => return,
        };
        requests.in_flight -= 1;
        requests.ended += 1;
        if matches!(ended, Slot::Abandoned { .. }) {
            requests.free.push(slot);
        }
        drop(requests);
        if let Slot::Open(_, Some(waiter)) = ended {
            waiter.wake();
        }
        // What is left of it may be the last of the request's memory, and goes here.
    }
}

/// A request of a disk. As a future it gives how it ended, and its memory back. Dropped before
/// that, it goes on, and its memory goes when it has ended.
pub struct Transfer<T> {
    disk: Rc<DrivenDisk>,
    slot: Option<u32>,
    memory: Rc<Cell<Option<T>>>,
}

impl<T> Future for Transfer<T> {
    type Output = (End, T);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        const GIVEN: &str = "a future is not polled again when it has given its result";
        let slot = self.slot.expect(GIVEN);
        let mut requests = self.disk.requests.borrow_mut();
        let result = match &mut requests.slots[slot as usize] {
            Slot::Open(_, waiter) => {
                match waiter {
                    Some(known) => known.clone_from(context.waker()),
                    None => *waiter = Some(context.waker().clone()),
                }
                return Poll::Pending;
            }
            Slot::Ended(result) => *result,
            Slot::Free | Slot::Abandoned { .. } => unreachable!("the slot is this future's"),
        };
        requests.slots[slot as usize] = Slot::Free;
        requests.free.push(slot);
        drop(requests);
        self.slot = None;
        Poll::Ready((result, self.memory.take().expect(GIVEN)))
    }
}

impl<T> Drop for Transfer<T> {
    fn drop(&mut self) {
        let Some(slot) = self.slot else { return };
        let mut requests = self.disk.requests.borrow_mut();
        let place = &mut requests.slots[slot as usize];
        match core::mem::replace(place, Slot::Free) {
            Slot::Open(memory, _) => *place = Slot::Abandoned { _memory: memory },
            _ => requests.free.push(slot),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Completion;
    use nile_abi::PhysAddr;
    use nile_ring::Region;

    /// Does what it is asked for when the test says so.
    struct Slow {
        description: Description,
        given: Rc<RefCell<Vec<u32>>>,
        ended: Rc<RefCell<Vec<Completion>>>,
        hashed: Rc<Cell<u64>>,
    }

    const ROOM: usize = 2;

    impl Disk for Slow {
        fn description(&self) -> &Description {
            &self.description
        }

        fn submit_inline(&self, tag: u32, request: &Request, inline: &Inline) -> bool {
            self.hashed.set(inline.hashed);
            self.submit(tag, request)
        }

        fn submit(&self, tag: u32, _: &Request) -> bool {
            let room = self.given.borrow().len() < ROOM;
            if room {
                self.given.borrow_mut().push(tag);
            }
            room
        }

        fn tell(&self) {}

        fn is_ready(&self) -> bool {
            !self.ended.borrow().is_empty()
        }

        fn complete(&self) -> Option<Completion> {
            let completion = self.ended.borrow_mut().pop()?;
            self.given.borrow_mut().retain(|tag| *tag != completion.tag);
            Some(completion)
        }
    }

    struct Bench {
        disk: Rc<DrivenDisk>,
        given: Rc<RefCell<Vec<u32>>>,
        ended: Rc<RefCell<Vec<Completion>>>,
        hashed: Rc<Cell<u64>>,
    }

    impl Bench {
        fn new() -> Bench {
            let given = Rc::new(RefCell::new(Vec::new()));
            let ended = Rc::new(RefCell::new(Vec::new()));
            let hashed = Rc::new(Cell::new(0));
            let description = Description {
                name: "slow".into(),
                serial: "".into(),
                bytes: 4096,
                sector_bytes: 512,
            };
            let slow = Slow {
                description,
                given: given.clone(),
                ended: ended.clone(),
                hashed: hashed.clone(),
            };
            Bench { disk: Rc::new(DrivenDisk::new(Box::new(slow))), given, ended, hashed }
        }

        fn end_last(&self, result: Result<(), DiskError>) {
            let tag = *self.given.borrow().last().expect("one is in flight");
            self.ended.borrow_mut().push(Completion { tag, result, hash: None });
        }

        fn read(&self, memory: Rc<u32>) -> Transfer<Rc<u32>> {
            let piece = Piece { at: PhysAddr(0), region: Region::owned(512) };
            self.disk.read(512, alloc::vec![piece], memory)
        }
    }

    fn poll<T>(transfer: &mut Transfer<T>) -> Option<(End, T)> {
        match Pin::new(transfer).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(ended) => Some(ended),
            Poll::Pending => None,
        }
    }

    #[test]
    fn requests_wait_for_room_and_end_in_the_device_s_order() {
        let bench = Bench::new();
        let mut reads: Vec<_> = (0..4).map(|it| bench.read(Rc::new(it))).collect();
        assert!(reads.iter_mut().all(|it| poll(it).is_none()));
        assert_eq!(bench.given.borrow().len(), ROOM);
        bench.end_last(Err(DiskError::Failed));
        assert!(bench.disk.is_ready() && bench.disk.turn() && !bench.disk.turn());
        assert_eq!(poll(&mut reads[1]), Some((Err(DiskError::Failed), Rc::new(1))));
        assert_eq!(bench.given.borrow().len(), ROOM, "the next one has taken the room");
        for at in [2, 3, 0] {
            bench.end_last(Ok(()));
            assert!(bench.disk.turn());
            assert_eq!(poll(&mut reads[at]), Some((Ok(None), Rc::new(at as u32))));
        }
        assert!(!bench.disk.is_ready() && !bench.disk.turn());
    }

    #[test]
    fn a_hash_that_is_wanted_comes_with_the_end_if_the_device_has_taken_it() {
        let bench = Bench::new();
        let begin = |hashed| {
            let piece = Piece { at: PhysAddr(0), region: Region::owned(512) };
            let inline = Inline { hashed, ..Inline::default() };
            bench.disk.begin(Request::Read { at: 0, into: alloc::vec![piece] }, inline, ())
        };
        let mut reads = [begin(512), begin(0), begin(100)];
        for (tag, hash) in [(0, Some(7)), (1, None), (2, Some(8))] {
            bench.ended.borrow_mut().push(Completion { tag, result: Ok(()), hash });
            assert!(bench.disk.turn());
            assert_eq!(poll(&mut reads[tag as usize]), Some((Ok(hash), ())));
        }
        assert_eq!(bench.hashed.get(), 100, "the one that had waited is as it was asked for");
    }

    #[test]
    fn memory_of_a_request_that_nobody_waits_for_stays_until_it_has_ended() {
        let bench = Bench::new();
        let memory = Rc::new(7);
        drop(bench.read(memory.clone()));
        assert_eq!(Rc::strong_count(&memory), 2, "the device may still write there");
        bench.end_last(Ok(()));
        assert!(bench.disk.turn());
        assert_eq!(Rc::strong_count(&memory), 1);
        let mut again = bench.read(memory);
        assert_eq!(again.slot, Some(0), "the slot is free");
        assert!(poll(&mut again).is_none());
    }

    #[test]
    fn what_no_disk_can_do_is_refused_with_its_memory() {
        let bench = Bench::new();
        let piece = Piece { at: PhysAddr(0), region: Region::owned(512) };
        let mut write = bench.disk.write(4096, alloc::vec![piece], 5);
        let refused = DiskError::OutOfRange { end: 4608, disk: 4096 };
        assert_eq!(poll(&mut write), Some((Err(refused), 5)));
        assert!(bench.given.borrow().is_empty());
        assert!(poll(&mut bench.disk.flush()).is_none());
        assert_eq!(bench.given.borrow().len(), 1);
    }
}
