//! A core's record: one 4 KiB page that the core writes and every other core only reads. The
//! manager learns from it, without disturbing a worker, what the core is doing, which incarnation
//! it is, what interrupted it and why its last incarnation ended.
//!
//! The page is a row of 64-bit words, so any content is a valid record; a word out of range reads
//! as the harmless value.

use alloc::string::String;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use nile_abi::{CoreId, CorePhase, Generation, Instant, KeepName, RoleSet};
use nile_device::{Gate, LINES, Line, LineState};

use crate::answers;
use crate::board::Keep;
use crate::{Cause, Load};

/// Bytes of one record: a page, so that page permissions can protect it.
pub const RECORD_BYTES: usize = 4096;

const PHASE: usize = 0;
const GENERATION: usize = 1;
const ROLES: usize = 2;
const HARDWARE_ID: usize = 3;
const TURNS: usize = 4;
const SLEEPS: usize = 5;
const POLLS: usize = 6;
const SYSTEM_CALLS: usize = 7;
const FAULT_KIND: usize = 8;
const FAULT_CODE: usize = 9;
const FAULT_AT: usize = 10;
const FAULT_ADDRESS: usize = 11;
const WAKES: usize = 12;
const PACKAGE: usize = 13;
/// Which policy decides, by its row; zero if none does.
const POLICY: usize = 14;
/// On the managing core: which incarnation is to end because a policy of its does not return.
const ENDLESS: usize = 15;
const INTERRUPTS: usize = 16;
const QUEUES: usize = 32;
/// Whether anybody here is bound to a policy.
const IS_BOUND: usize = 60;
/// Two words: since when, and the share, its lowest bit whether the core idles.
const LOAD: usize = 61;
/// A bit for each of the last incarnations that have ended: whether that was planned.
const PLANNED_ENDS: usize = 63;
/// Two rows of two words, for incarnations of odd and even number: whom the core works for, and
/// the call.
const WORKING_FOR: usize = 64;
/// On the managing core: which cores are to be away, a bit each.
const AWAY: usize = 68;
/// How often the core was asked to leave and has stayed.
const STAYS: usize = 72;
/// Two words: nanoseconds in which the core had something to do, and in which it had not, up to
/// when that changed last.
const TIMES: usize = 73;
/// Six words: the keep that the core asks for.
const WANTED: usize = 76;
const IS_CALL: u64 = 1 << 16;
/// Rows of [`NAME_BYTES`]: the names of the core's policies, for good.
const POLICY_NAMES: usize = 128;
const MOST_POLICIES: usize = 16;

/// Of the core that drives a device: a word for the device's line. Of each core: how often the line
/// has interrupted it.
const LINE_STATES: usize = 192;
const LINE_INTERRUPTS: usize = LINE_STATES + LINES;
/// A word for each of its buckets: how long answers took.
const ANSWERS: usize = 256;
const _: () = assert!(LINE_INTERRUPTS + LINES <= ANSWERS);
const _: () = assert!((ANSWERS + answers::BUCKETS) * 8 <= RECORD_BYTES);
const IS_LINE: u64 = 1 << 63;
const STORMS_SHIFT: u32 = 32;
const GATE_SHIFT: u32 = 16;

/// The most bytes of a policy's name; what is longer is cut.
const NAME_BYTES: usize = 32;

/// What can pile up on a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Queue {
    /// Tasks that wait for their turn.
    Tasks = 0,
    /// Calls that the core's services work on.
    Serving = 1,
    /// Calls that the core has made and that have not ended.
    Calls = 2,
}

impl Queue {
    /// Every queue, in the order of reports.
    pub const ALL: [Queue; 3] = [Queue::Tasks, Queue::Serving, Queue::Calls];

    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Queue::Tasks => "tasks",
            Queue::Serving => "serving",
            Queue::Calls => "calls",
        }
    }
}

/// Whether a core has a package.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Hosting {
    /// It has none.
    Nothing = 0,
    /// It has one, and the kernel runs.
    Package = 1,
    /// It has one, which runs: the core looks at nothing before the turn ends.
    Turn = 2,
}

/// Why an incarnation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// What happened: see [`Fault::kind_name`].
    pub kind: u64,
    /// The machine's error code or signal number, zero if it has none.
    pub code: u64,
    /// Where it happened: an instruction's address, zero if unknown.
    pub at: u64,
    /// The address that was touched, zero if none.
    pub address: u64,
}

impl Fault {
    /// The kernel panicked.
    pub const PANIC: u64 = 1;
    /// An access that the core's tables do not allow.
    pub const PAGE: u64 = 2;
    /// Any other processor exception, or the end of a worker process.
    pub const EXCEPTION: u64 = 3;
    /// The machine (or a test) stopped the core from outside.
    pub const KILLED: u64 = 4;
    /// The core left as it was asked to: no fault.
    pub const PLANNED: u64 = 5;

    /// A planned end.
    pub const LEFT: Fault = Fault { kind: Fault::PLANNED, code: 0, at: 0, address: 0 };

    /// Whether the core's own code ended it.
    pub fn is_its_own(&self) -> bool {
        !matches!(self.kind, Fault::KILLED | Fault::PLANNED)
    }

    /// The name of the fault's kind in reports.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            Fault::PANIC => "panic",
            Fault::PAGE => "page fault",
            Fault::EXCEPTION => "exception",
            Fault::KILLED => "killed",
            Fault::PLANNED => "a planned end",
            _ => "unknown",
        }
    }
}

/// One core's record in the board.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    words: &'a [AtomicU64],
}

impl<'a> Record<'a> {
    /// The record in `words`, which are one page's.
    pub(crate) fn new(words: &'a [AtomicU64]) -> Record<'a> {
        debug_assert_eq!(words.len() * 8, RECORD_BYTES);
        Record { words }
    }

    fn load(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Acquire)
    }

    fn store(&self, word: usize, value: u64) {
        self.words[word].store(value, Ordering::Release);
    }

    /// Only the record's core writes it, so counting needs no locked instruction.
    fn count(&self, word: usize) {
        let value = self.words[word].load(Ordering::Relaxed);
        self.words[word].store(value.wrapping_add(1), Ordering::Relaxed);
    }

    /// How far the core has come.
    pub fn phase(&self) -> CorePhase {
        usize::try_from(self.load(PHASE))
            .ok()
            .and_then(|phase| CorePhase::ALL.get(phase).copied())
            .unwrap_or(CorePhase::Offline)
    }

    /// Says how far the core has come.
    pub fn set_phase(&self, phase: CorePhase) {
        self.store(PHASE, phase as u64);
    }

    /// The core's incarnation; zero before its first start.
    pub fn generation(&self) -> Generation {
        Generation(self.load(GENERATION) as u32)
    }

    /// Says that an incarnation works for a call that another core made from now on, or for
    /// nobody's. The next incarnation does not change it, so that the caller can learn after the
    /// core's end that its call was to blame.
    pub fn set_working_for(&self, own: Generation, call: Option<(CoreId, u64)>) {
        let row = WORKING_FOR + 2 * (own.0 as usize & 1);
        if let Some((core, id)) = call {
            self.words[row + 1].store(id, Ordering::Relaxed);
            self.store(row, u64::from(own.0) << 32 | IS_CALL | u64::from(core.0));
        } else {
            self.store(row, u64::from(own.0) << 32);
        }
    }

    /// The call that an incarnation worked for when it ended: the present one, or the last.
    pub fn working_for(&self, own: Generation) -> Option<(CoreId, u64)> {
        let row = WORKING_FOR + 2 * (own.0 as usize & 1);
        let (whose, id) = (self.load(row), self.load(row + 1));
        let is_call = whose >> 32 == u64::from(own.0) && whose & IS_CALL != 0;
        is_call.then_some((CoreId(whose as u16), id))
    }

    /// Begins an incarnation.
    pub fn set_generation(&self, generation: Generation) {
        self.store(GENERATION, u64::from(generation.0));
    }

    /// What the core is for.
    pub fn roles(&self) -> RoleSet {
        RoleSet::from_bits(self.load(ROLES) as u8)
    }

    /// Says what the core is for.
    pub fn set_roles(&self, roles: RoleSet) {
        self.store(ROLES, u64::from(roles.bits()));
    }

    /// The core's name in its machine: an APIC id, a thread or process id.
    pub fn hardware_id(&self) -> u64 {
        self.load(HARDWARE_ID)
    }

    /// Says the core's name in its machine.
    pub fn set_hardware_id(&self, id: u64) {
        self.store(HARDWARE_ID, id);
    }

    /// Interrupts of `cause` since the node started, over all incarnations.
    pub fn interrupts(&self, cause: Cause) -> u64 {
        self.load(INTERRUPTS + cause as usize)
    }

    /// Counts one interrupt. Called by the core itself, in its interrupt handler.
    pub fn count_interrupt(&self, cause: Cause) {
        self.count(INTERRUPTS + cause as usize);
    }

    /// Interrupts by a device's line, counted alike; they are among those by devices.
    pub fn line_interrupts(&self, line: Line) -> u64 {
        self.load(LINE_INTERRUPTS + line.index())
    }

    /// Counts one of them. Called by the core itself, in its interrupt handler.
    pub fn count_line(&self, line: Line) {
        self.count(LINE_INTERRUPTS + line.index());
    }

    /// What the core says of a line; `None` if it does not drive the device.
    pub fn line(&self, line: Line) -> Option<LineState> {
        let word = self.load(LINE_STATES + line.index());
        let gate = match word >> GATE_SHIFT & 3 {
            0 => Gate::Open,
            1 => Gate::Masked,
            _ => Gate::Storm,
        };
        let storms = (word & !IS_LINE) >> STORMS_SHIFT;
        let state = LineState { core: CoreId(word as u16), gate, storms: storms as u32 };
        (word & IS_LINE != 0).then_some(state)
    }

    /// Says what is so of a line of a device that the core drives.
    pub fn set_line(&self, line: Line, state: LineState) {
        let storms = u64::from(state.storms) << STORMS_SHIFT & !IS_LINE;
        let gate = (state.gate as u64) << GATE_SHIFT;
        let word = IS_LINE | storms | gate | u64::from(state.core.0);
        self.store(LINE_STATES + line.index(), word);
    }

    /// Says that the core does not drive its device.
    pub fn forget_line(&self, line: Line) {
        self.store(LINE_STATES + line.index(), 0);
    }

    /// Those of them that came while the core slept: they ended that, and broke into nothing.
    pub fn wakes(&self) -> u64 {
        self.load(WAKES)
    }

    /// Counts an interrupt, which is counted by its cause, as one that came in a sleep.
    pub fn count_wake(&self) {
        self.count(WAKES);
    }

    /// Passes of the core's loop.
    pub fn turns(&self) -> u64 {
        self.load(TURNS)
    }

    /// Counts one pass of the loop.
    pub fn count_turn(&self) {
        self.count(TURNS);
    }

    /// Times the core went to sleep.
    pub fn sleeps(&self) -> u64 {
        self.load(SLEEPS)
    }

    /// Counts one sleep.
    pub fn count_sleep(&self) {
        self.count(SLEEPS);
    }

    /// Task polls.
    pub fn polls(&self) -> u64 {
        self.load(POLLS)
    }

    /// Counts task polls.
    pub fn count_polls(&self, polls: u32) {
        let value = self.words[POLLS].load(Ordering::Relaxed);
        self.words[POLLS].store(value.wrapping_add(polls.into()), Ordering::Relaxed);
    }

    /// How busy the core is. What is read while it is written can be off by one span.
    pub fn busy(&self) -> Load {
        let since = Instant::from_nanos(self.load(LOAD));
        let share = self.load(LOAD + 1);
        Load { since, share: share >> 1, is_idle: share & 1 != 0 }
    }

    /// Says how busy the core is.
    pub fn set_busy(&self, load: Load) {
        self.words[LOAD].store(load.since.as_nanos(), Ordering::Relaxed);
        self.store(LOAD + 1, load.share << 1 | u64::from(load.is_idle));
    }

    /// From now on it idles, or is busy.
    pub fn turn(&self, is_idle: bool, now: Instant) {
        let before = self.busy();
        let word = TIMES + usize::from(before.is_idle);
        let span = now.as_nanos().saturating_sub(before.since.as_nanos());
        self.words[word].store(self.words[word].load(Ordering::Relaxed) + span, Ordering::Relaxed);
        self.set_busy(before.turned(is_idle, now));
    }

    /// How long it was busy, and how long it idled, since the node started: as of `now`. What is
    /// read while it is written can be off by one span.
    pub fn times(&self, now: Instant) -> (Duration, Duration) {
        let load = self.busy();
        let span = now.as_nanos().saturating_sub(load.since.as_nanos());
        let time = |is_idle: bool| {
            let more = if load.is_idle == is_idle { span } else { 0 };
            Duration::from_nanos(self.load(TIMES + usize::from(is_idle)).saturating_add(more))
        };
        (time(false), time(true))
    }

    /// System calls of the core's packages.
    pub fn system_calls(&self) -> u64 {
        self.load(SYSTEM_CALLS)
    }

    /// Counts one system call.
    pub fn count_system_call(&self) {
        self.count(SYSTEM_CALLS);
    }

    /// Whether the core has a package, and whether that runs.
    pub fn hosting(&self) -> Hosting {
        match self.load(PACKAGE) {
            1 => Hosting::Package,
            2 => Hosting::Turn,
            _ => Hosting::Nothing,
        }
    }

    /// Says whether the core has a package. That may be seen a moment later.
    pub fn set_hosting(&self, hosting: Hosting) {
        self.words[PACKAGE].store(hosting as u64, Ordering::Relaxed);
    }

    /// The number of the policy of this name, by which the core says that it decides; zero, which
    /// says nothing, if there are too many.
    pub fn name_policy(&self, name: &str) -> u64 {
        let mut bytes = [0; NAME_BYTES];
        let most = name.len().min(NAME_BYTES);
        bytes[..most].copy_from_slice(&name.as_bytes()[..most]);
        for number in 1..=MOST_POLICIES {
            let known = self.name_bytes(number);
            if known == [0; NAME_BYTES] {
                for (word, bytes) in self.name_row(number).iter().zip(bytes.chunks(8)) {
                    let word_bytes = bytes.try_into().unwrap_or_default();
                    word.store(u64::from_le_bytes(word_bytes), Ordering::Release);
                }
            } else if known != bytes {
                continue;
            }
            return number as u64;
        }
        0
    }

    fn name_row(&self, number: usize) -> &'a [AtomicU64] {
        let words = NAME_BYTES / 8;
        &self.words[POLICY_NAMES + words * (number - 1)..][..words]
    }

    fn name_bytes(&self, number: usize) -> [u8; NAME_BYTES] {
        let mut bytes = [0; NAME_BYTES];
        for (word, bytes) in self.name_row(number).iter().zip(bytes.chunks_mut(8)) {
            bytes.copy_from_slice(&word.load(Ordering::Acquire).to_le_bytes());
        }
        bytes
    }

    /// Says which policy decides from now on: its number, or zero.
    #[inline]
    pub fn set_policy(&self, number: u64) {
        self.words[POLICY].store(number, Ordering::Relaxed);
    }

    /// The number of the policy that decides, or did when the core's incarnation ended; zero if
    /// there is none.
    pub fn policy(&self) -> u64 {
        self.load(POLICY)
    }

    /// The name of the policy of this number.
    pub fn policy_name(&self, number: u64) -> Option<String> {
        let number = usize::try_from(number).ok().filter(|it| (1..=MOST_POLICIES).contains(it))?;
        let bytes = self.name_bytes(number);
        let bytes = bytes.split(|byte| *byte == 0).next()?;
        core::str::from_utf8(bytes).ok().map(String::from)
    }

    /// Whether the core asks policies.
    pub fn is_bound(&self) -> bool {
        self.load(IS_BOUND) != 0
    }

    /// Says whether the core asks policies.
    pub fn set_bound(&self, is_bound: bool) {
        self.words[IS_BOUND].store(is_bound.into(), Ordering::Relaxed);
    }

    /// Of the managing core's record: says that an incarnation of a core is to end, which a signal
    /// does from now on.
    pub fn set_endless(&self, core: CoreId, generation: Generation) {
        self.store(ENDLESS, u64::from(generation.0) << 32 | u64::from(core.0));
    }

    /// Whether that is so of this one.
    pub fn is_endless(&self, core: CoreId, generation: Generation) -> bool {
        self.load(ENDLESS) == u64::from(generation.0) << 32 | u64::from(core.0)
    }

    /// Of the managing core's record: says whether a core is to be away once it has left.
    pub fn set_away(&self, core: CoreId, is_away: bool) {
        let (word, bit) = (AWAY + core.index() / 64, 1 << (core.index() % 64));
        let others = self.load(word) & !bit;
        self.store(word, if is_away { others | bit } else { others });
    }

    /// Whether that is so.
    pub fn is_away(&self, core: CoreId) -> bool {
        self.load(AWAY + core.index() / 64) & 1 << (core.index() % 64) != 0
    }

    /// How often the core was asked to leave, in all its incarnations, and has stayed.
    pub fn stays(&self) -> u64 {
        self.load(STAYS)
    }

    /// Counts one such time.
    pub fn count_stay(&self) {
        self.count(STAYS);
    }

    /// Counts a call of another core that this one has answered after so long.
    pub fn count_answer(&self, took: Duration) {
        self.count(ANSWERS + answers::bucket(took));
    }

    /// How many answers took less than how long, and no less than the time before: since the node
    /// started, of all incarnations.
    pub fn answers(&self) -> impl Iterator<Item = (Duration, u64)> {
        let words = &self.words[ANSWERS..][..answers::BUCKETS];
        let counts = words.iter().map(|word| word.load(Ordering::Relaxed));
        counts.enumerate().map(|(bucket, count)| (answers::bound(bucket), count))
    }

    /// The keep that the core asks the management core for.
    pub fn wanted_keep(&self) -> Option<Keep> {
        Some(Keep {
            name: KeepName::from_words([0, 1, 2, 3].map(|word| self.load(WANTED + word)))?,
            bytes: self.load(WANTED + 4),
            version: self.load(WANTED + 5) as u16,
        })
    }

    /// Says it.
    pub fn want_keep(&self, keep: &Keep) {
        let [first, second, third, fourth] = keep.name.words();
        let words = [first, second, third, fourth, keep.bytes, keep.version.into()];
        for (place, word) in words.into_iter().enumerate() {
            self.store(WANTED + place, word);
        }
    }

    /// How long a queue was after the last pass of the core's loop that had anything to do.
    pub fn queue(&self, queue: Queue) -> u64 {
        self.load(QUEUES + queue as usize)
    }

    /// Says how long a queue is.
    pub fn set_queue(&self, queue: Queue, length: usize) {
        self.words[QUEUES + queue as usize].store(length as u64, Ordering::Relaxed);
    }

    /// Why the last incarnation that ended did so.
    pub fn fault(&self) -> Option<Fault> {
        let kind = self.load(FAULT_KIND);
        (kind != 0).then(|| Fault {
            kind,
            code: self.load(FAULT_CODE),
            at: self.load(FAULT_AT),
            address: self.load(FAULT_ADDRESS),
        })
    }

    /// Whether an incarnation has ended as planned; of the last 64, which is more than anybody has
    /// to do with. So has one that is away, whether its number is that of the one which left or,
    /// as on machines that count ahead, of one that has yet to begin.
    pub fn has_left(&self, generation: Generation) -> bool {
        let now = self.generation();
        let since = now.0.wrapping_sub(generation.0);
        if since == 0 {
            return self.phase() == CorePhase::Away && self.fault() == Some(Fault::LEFT);
        }
        since < u64::BITS && self.load(PLANNED_ENDS) & bit_of(generation) != 0
    }

    /// Says why this incarnation ends. The kind is written last: a reader that sees it sees all.
    pub fn set_fault(&self, fault: Fault) {
        let (ends, bit) = (self.load(PLANNED_ENDS), bit_of(self.generation()));
        self.store(PLANNED_ENDS, if fault == Fault::LEFT { ends | bit } else { ends & !bit });
        self.store(FAULT_CODE, fault.code);
        self.store(FAULT_AT, fault.at);
        self.store(FAULT_ADDRESS, fault.address);
        self.store(FAULT_KIND, fault.kind);
    }
}

/// The bit of an incarnation among the last ones.
fn bit_of(generation: Generation) -> u64 {
    1 << (generation.0 % u64::BITS)
}

#[cfg(test)]
mod tests;
