//! Doorbells: how a core that has nothing to do sleeps, and how others wake it, without losing
//! a message in between.
//!
//! Each core has one line in a region that all cores share:
//!
//! ```text
//! word 0   state: AWAKE (0), SLEEPING (1 in both halves; a futex on the first), or COMPUTING (2)
//! word 1   bell: changes with every quiet ring
//! word 2   heard: what the bell was when the core looked before it began to compute
//! ```
//!
//! The sleeper always does the same: [`Doorbell::prepare`] notes the bell and publishes SLEEPING,
//! then the core *looks again* at everything that could give it work, and only then waits, until
//! [`Sleep::is_over`]. There are two ways to ring:
//!
//! * [`Doorbells::touch`], quiet: one plain store to the bell. It wakes a core that watches its
//!   line (MWAIT, or polling) and costs the sender neither a fence nor a miss it waits for.
//! * [`Doorbells::wake`], loud: a fence, a look at the state, and the platform's signal (IPI,
//!   futex) if the core sleeps. Of several senders exactly one sends the signal.
//!
//! A core that *computes* has its core for itself for long, and looks at nothing meanwhile. It is
//! not interrupted by who rings, and says what it misses: [`Doorbell::compute`] notes the bell and
//! publishes COMPUTING, the core looks again, and only then computes. Whoever rings loudly takes
//! the COMPUTING away. So a third core can see whether something waits
//! ([`Doorbells::is_missed`]), and interrupt it in that case alone.
//!
//! Either the sleeper, looking again, sees the message, or the sender sees the sleeper. Why, for
//! the quiet ring: the message is stored before the bell and the bell is read before the sleeper
//! looks. For the loud ring: both store, then fence, then look at what the other stored.

#[cfg(not(loom))]
use core::sync::atomic::AtomicU32;

use nile_abi::CoreId;

use crate::notify::Signal;
use crate::region::{LINE_BYTES, Line, Region};
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, SeqCst};
use crate::sync::{fence, store_in_turn};

const STATE: usize = 0;
const BELL: usize = 1;
const HEARD: usize = 2;

const AWAKE: u64 = 0;

const COMPUTING: u64 = 2;

/// The state of a core that sleeps or is about to, as [`Sleep::state`] shows it: the value while
/// which a futex waits.
pub const SLEEPING: u32 = 1;

/// The whole state word of such a core: the same in both halves, so that the first is
/// [`SLEEPING`] whichever the byte order.
const ASLEEP: u64 = (SLEEPING as u64) << 32 | SLEEPING as u64;

/// The doorbells of all cores of a node. Clones name the same doorbells.
#[derive(Clone, Debug)]
pub struct Doorbells {
    region: Region,
}

impl Doorbells {
    /// Bytes of the region that the doorbells of `cores` cores take.
    pub const fn region_len(cores: usize) -> usize {
        cores * LINE_BYTES
    }

    /// The doorbells in `region`, which is zeroed memory or holds doorbells: one for each line.
    pub fn attach(region: Region) -> Doorbells {
        Doorbells { region }
    }

    /// The doorbell that `core` sleeps behind, if the node has that core.
    pub fn of(&self, core: CoreId) -> Option<Doorbell> {
        let line = self.region.slice(core.index() * LINE_BYTES, LINE_BYTES)?;
        Some(Doorbell { line })
    }

    /// Rings quietly: wakes `core` if it watches its line. `stamp` differs from every other that
    /// this core's bell may show: senders of different channels never use the same, and no
    /// sender uses one twice. (Adding one to the bell would not do: two senders could both turn
    /// 4 into 5, and a core that fell asleep having seen the first 5 would miss the second.)
    #[inline]
    pub fn touch(&self, core: CoreId, stamp: u64) {
        if let Some(line) = self.region.lines().get(core.index()) {
            store_in_turn(&line[BELL], stamp);
        }
    }

    /// Rings loudly: makes sure that `core` looks again after what this core has stored so far,
    /// in whichever way it sleeps.
    pub fn wake(&self, core: CoreId, signal: &impl Signal) {
        fence(SeqCst);
        self.wake_after_fence(core, signal);
    }

    /// [`Doorbells::wake`] for a caller that has put a full fence after its stores.
    #[inline]
    pub(crate) fn wake_after_fence(&self, core: CoreId, signal: &impl Signal) {
        let Some(line) = self.region.lines().get(core.index()) else { return };
        // While the core is awake its line stays shared, and this is a hit in our own cache.
        if line[STATE].load(Relaxed) != AWAKE {
            Self::rouse(line, core, signal);
        }
    }

    /// Wakes a core that sleeps, and notes for one that computes that it was rung.
    #[cold]
    #[inline(never)]
    fn rouse(line: &Line, core: CoreId, signal: &impl Signal) {
        let computes = line[STATE].compare_exchange(COMPUTING, AWAKE, AcqRel, Relaxed);
        if computes == Err(ASLEEP) && line[STATE].swap(AWAKE, AcqRel) == ASLEEP {
            signal.signal(core);
        }
    }

    /// Whether somebody has rung since `core` began to compute, or it does not compute.
    pub fn is_missed(&self, core: CoreId) -> bool {
        let Some(line) = self.region.lines().get(core.index()) else { return false };
        line[STATE].load(Acquire) != COMPUTING
            || line[BELL].load(Acquire) != line[HEARD].load(Acquire)
    }
}

/// One core's own doorbell.
#[derive(Clone, Debug)]
pub struct Doorbell {
    line: Region,
}

impl Doorbell {
    /// Says that this core is about to sleep. From here on it must look once more at every
    /// source of work, and at which way of waiting its receivers' entries in the
    /// [`ReceiverMap`](crate::ReceiverMap) allow; then either drop the result, or wait.
    pub fn prepare(&self) -> Sleep<'_> {
        let line = &self.line.lines()[0];
        let bell = line[BELL].load(Relaxed);
        line[STATE].store(ASLEEP, Relaxed);
        // Also makes visible what was stored before the ring that the bell shows.
        fence(SeqCst);
        Sleep { line, bell }
    }

    /// Says that this core is about to compute for long. From here on it must look once more at
    /// every source of work; then either drop the result, or compute.
    pub fn compute(&self) -> Computing<'_> {
        let line = &self.line.lines()[0];
        line[HEARD].store(line[BELL].load(Relaxed), Relaxed);
        line[STATE].store(COMPUTING, Relaxed);
        // Also makes visible what was stored before the ring that the bell shows.
        fence(SeqCst);
        Computing { line }
    }
}

/// A core that computes; dropping it says that the core looks at its work again.
#[derive(Debug)]
pub struct Computing<'a> {
    line: &'a Line,
}

impl Drop for Computing<'_> {
    fn drop(&mut self) {
        self.line[STATE].store(AWAKE, Relaxed);
    }
}

/// A core between "about to sleep" and "awake again"; dropping it says that the core is awake.
///
/// How a platform waits: MONITOR [`Sleep::line`], check [`Sleep::is_over`], MWAIT; or mask
/// interrupts, check, then unmask and HLT in one; or wait on the futex [`Sleep::state`] while it
/// is [`SLEEPING`]. A wait may end early; the caller looks at its work and prepares again.
#[derive(Debug)]
pub struct Sleep<'a> {
    line: &'a Line,
    bell: u64,
}

impl Sleep<'_> {
    /// Whether someone has rung since [`Doorbell::prepare`].
    #[inline]
    pub fn is_over(&self) -> bool {
        self.line[STATE].load(Acquire) != ASLEEP || self.line[BELL].load(Acquire) != self.bell
    }

    /// The line that every ring writes to: what MONITOR takes.
    pub fn line(&self) -> &Line {
        self.line
    }

    /// The state as the word that futex calls take; only to be waited on. Loud rings alone
    /// change it.
    #[cfg(not(loom))]
    pub fn state(&self) -> &AtomicU32 {
        let word = &raw const self.line[STATE];
        // SAFETY: the half lies inside the live 8-byte word, is aligned for 4 bytes, and the
        // word is an atomic, which may be shared and changed at any time.
        unsafe { &*word.cast::<AtomicU32>() }
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        self.line[STATE].store(AWAKE, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::cell::RefCell;

    use alloc::vec::Vec;

    /// Remembers who was signalled.
    #[derive(Default)]
    struct Signalled(RefCell<Vec<CoreId>>);

    impl Signal for Signalled {
        fn signal(&self, core: CoreId) {
            self.0.borrow_mut().push(core);
        }
    }

    fn doorbells() -> (Doorbells, Doorbell, Signalled) {
        let bells = Doorbells::attach(Region::owned(Doorbells::region_len(2)));
        let own = bells.of(CoreId(1)).unwrap();
        (bells, own, Signalled::default())
    }

    #[test]
    fn a_loud_ring_signals_a_sleeper_once() {
        let (bells, own, signalled) = doorbells();
        let sleep = own.prepare();
        assert!(!sleep.is_over());
        assert_eq!(sleep.state().load(Relaxed), SLEEPING);
        bells.wake(CoreId(0), &signalled);
        assert!(!sleep.is_over(), "another core's bell");
        bells.wake(CoreId(1), &signalled);
        bells.wake(CoreId(1), &signalled);
        assert!(sleep.is_over());
        assert_ne!(sleep.state().load(Relaxed), SLEEPING);
        assert_eq!(*signalled.0.borrow(), [CoreId(1)]);
    }

    #[test]
    fn a_quiet_ring_ends_the_sleep_without_a_signal() {
        let (bells, own, _) = doorbells();
        bells.touch(CoreId(1), 1);
        let sleep = own.prepare();
        assert!(!sleep.is_over(), "rung before");
        bells.touch(CoreId(1), 2);
        assert!(sleep.is_over());
        assert_eq!(sleep.state().load(Relaxed), SLEEPING, "no futex would see it");
    }

    #[test]
    fn who_computes_is_not_signalled_and_shows_what_it_misses() {
        let (bells, own, signalled) = doorbells();
        let core = CoreId(1);
        assert!(bells.is_missed(core), "it looks by itself");
        let rings: [fn(&Doorbells, &Signalled); 2] =
            [|bells, _| bells.touch(CoreId(1), 7), |bells, to| bells.wake(CoreId(1), to)];
        for ring in rings {
            let computing = own.compute();
            assert!(!bells.is_missed(core));
            bells.wake(CoreId(0), &signalled);
            assert!(!bells.is_missed(core), "another core's bell");
            ring(&bells, &signalled);
            assert!(bells.is_missed(core));
            drop(computing);
        }
        let computing = own.compute();
        assert!(!bells.is_missed(core), "it has looked since");
        drop(computing);
        let sleep = own.prepare();
        bells.wake(core, &signalled);
        assert!(sleep.is_over());
        assert_eq!(*signalled.0.borrow(), [core]);
    }

    #[test]
    fn a_core_that_is_awake_gets_no_signal() {
        let (bells, own, signalled) = doorbells();
        bells.wake(CoreId(1), &signalled);
        drop(own.prepare());
        bells.wake(CoreId(1), &signalled);
        assert!(signalled.0.borrow().is_empty());
    }

    #[test]
    fn a_core_that_the_node_does_not_have_has_no_bell() {
        let (bells, _, signalled) = doorbells();
        assert!(bells.of(CoreId(2)).is_none());
        bells.touch(CoreId(2), 1);
        bells.wake(CoreId(u16::MAX), &signalled);
        assert!(signalled.0.borrow().is_empty());
    }
}
