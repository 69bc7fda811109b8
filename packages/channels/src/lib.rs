//! A package that exchanges messages with the same package on another core, or beside it on its own
//! core, and checks that it makes no system call for that, but for sleeping and waking; that what
//! is refused is refused; and that it learns when the other one is gone.
//!
//! Its argument is `OWN OTHER ACT [leads]`, the two cores by their numbers, what it does, and
//! whether it is the one of two neighbours that speaks first. With `k` before its number the other
//! one is a service of that core's kernel. It exits with 0, or with 100 and the
//! number of the first check that failed. What `give` and `take` say stands in `lasting`, what
//! `token` says in `token`.
#![no_std]
#![forbid(unsafe_code)]

mod lasting;
mod token;

use nile_abi::call::{ChannelCall, KERNELS_TAGS, System, SystemCall};
use nile_abi::{ChannelId, CoreId, Instant, Status};
use nile_user::channel::Message;
use nile_user::{ChannelReceiver, ChannelSender, Runtime};

pub use lasting::{ENDED, LASTING, NEVER};
pub use token::TOOK;

/// What is added to the number of a failed check: the runtime's own exit codes are below.
const FAILED: u64 = 100;

/// Messages each way that are polled for.
pub const POLLED: u64 = 1000;

/// Messages each way that are slept for.
pub const SLEPT: u64 = 200;

/// The same where the exchange is to last.
const LONG: u64 = 100 * SLEPT;

/// Messages each way before an end is gone.
pub const FEW: u64 = 10;

/// System calls that show that the package has come so far.
pub const SHOWN: u64 = 1000;

/// System calls that show that an exchange is past its polling.
pub const BEYOND_POLLING: u64 = 30;

/// What is logged of a brief talk that came to its end.
pub const TALKED: &str = "talked";

/// Cells of a channel: few, so that it is full now and then.
pub const CELLS: u32 = 16;

/// The tag of kernels' links between each other, which to packages is one like any other.
const TAG: u32 = u32::from_be_bytes(*b"STL\0");

/// The tag of a service of a kernel.
pub const KERNEL: u32 = KERNELS_TAGS + 7;

/// A tag that nobody opens a channel to.
const NOBODY: u32 = 1;

/// A tag that who opens a channel to it accepts itself.
const MINE: u32 = 2;

/// What a package says that panics as asked.
const FAILS: &str = "it was asked for";

/// How long the other package may take to begin, in nanoseconds.
const PATIENCE: u64 = 30_000_000_000;

/// The same where the other one need not begin at all.
const LITTLE_PATIENCE: u64 = 300_000;

/// `Err` is the number of the check that failed.
type Checked<T = ()> = Result<T, u64>;

/// Who is at the other end.
#[derive(Clone, Copy)]
struct Other {
    core: CoreId,
    tag: u32,
}

impl Other {
    fn of(word: &str) -> Option<Other> {
        let (number, tag) = match word.strip_prefix('k') {
            Some(number) => (number, KERNEL),
            None => (word, TAG),
        };
        Some(Other { core: CoreId(number.parse().ok()?), tag })
    }
}

struct Pair<'s> {
    out: ChannelSender<'s>,
    back: ChannelReceiver<'s>,
}

/// Does what the argument says.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    let argument = core::str::from_utf8(argument).unwrap_or_default();
    let mut words = argument.split(' ');
    let own = words.next().and_then(|it| it.parse().ok()).map(CoreId);
    let (Some(own), Some(other)) = (own, words.next().and_then(Other::of)) else { return FAILED };
    let runtime = Runtime::new(system);
    let checked = match words.next() {
        Some("exchange") => exchange(&runtime, own, other, SLEPT, words.next()),
        Some("long") => exchange(&runtime, own, other, LONG, words.next()),
        Some("give") => return lasting::give(&runtime, other.core, words),
        Some("take") => return lasting::take(&runtime, words),
        Some("token") => {
            let passed = token::token(&runtime, other, words.next(), words.next());
            return passed.unwrap_or_else(|number| FAILED + number);
        }
        Some("steal") => steal(&runtime, own),
        Some("many") => many(&runtime, other, words.next()),
        Some("panic") => fail(&runtime, other),
        Some("leave") => pair(&runtime, other, PATIENCE).and_then(|mut pair| talk(&mut pair)),
        Some("stay") => stay(&runtime, other),
        Some("hold") => hold(&runtime, other),
        Some("brief") => brief(&runtime, other),
        _ => Err(1),
    };
    checked.map_or_else(|number| FAILED + number, |()| 0)
}

fn holds(condition: bool, number: u64) -> Checked {
    if condition { Ok(()) } else { Err(number) }
}

fn say(number: u64) -> Checked<Message> {
    Message::new(1, &number.to_le_bytes()).map_err(|_| 2)
}

fn is(message: &Message, number: u64) -> bool {
    message.kind() == 1 && message.payload() == number.to_le_bytes()
}

fn now(runtime: &Runtime<'_>) -> Checked<u64> {
    runtime.call(SystemCall::Now, 0, &[], &mut []).result().map_err(|_| 3)
}

/// A channel there and one back.
fn pair<'s>(runtime: &Runtime<'s>, other: Other, patience: u64) -> Checked<Pair<'s>> {
    let until = Instant::from_nanos(now(runtime)? + patience);
    let Other { core, tag } = other;
    let out = runtime.open_channel(core, tag, CELLS).map_err(|_| 4u64)?;
    let back = runtime.accept_channel(tag, until).map_err(|_| 5u64)?;
    holds((out.to(), back.from()) == (core, core), 6)?;
    Ok(Pair { out, back })
}

fn exchange(
    runtime: &Runtime<'_>,
    own: CoreId,
    other: Other,
    slept: u64,
    turn: Option<&str>,
) -> Checked {
    refused(runtime, own, other.core)?;
    let mut pair = pair(runtime, other, PATIENCE)?;
    let leads = own < other.core || turn == Some("leads");
    match own == other.core {
        // Neighbours have turns: one of them is asleep, or polls for what cannot come.
        true => bursts(&mut pair, leads)?,
        false => polling(runtime, &mut pair)?,
    }
    sleeping(runtime, &mut pair, leads, slept)?;
    let channel = pair.out.channel();
    pair.out.close();
    pair.back.close();
    holds(wake(runtime, channel) == Err(Status::NotFound), 40)?;
    holds(ask(runtime, ChannelCall::Close(channel)) == Err(Status::NotFound), 41)
}

fn ask(runtime: &Runtime<'_>, call: ChannelCall) -> Result<u64, Status> {
    runtime.call(SystemCall::Channel, 0, &call.encode(), &mut []).result()
}

fn wake(runtime: &Runtime<'_>, channel: ChannelId) -> Result<u64, Status> {
    runtime.call(SystemCall::Wake, channel.0.into(), &[], &mut []).result()
}

/// What cannot be is refused.
fn refused(runtime: &Runtime<'_>, own: CoreId, other: CoreId) -> Checked {
    let open = |to, cells| runtime.open_channel(to, TAG, cells).err();
    holds(open(CoreId(999), CELLS) == Some(Status::NotFound), 11)?;
    for cells in [0, 3, 1 << 15, u32::MAX] {
        holds(open(other, cells) == Some(Status::Invalid), 12)?;
    }
    let soon = Instant::from_nanos(now(runtime)? + 1000);
    holds(runtime.accept_channel(NOBODY, soon).err() == Some(Status::Timeout), 13)?;
    for channel in [ChannelId(0), ChannelId(1), ChannelId(u32::MAX)] {
        holds(wake(runtime, channel) == Err(Status::NotFound), 14)?;
        holds(ask(runtime, ChannelCall::Close(channel)) == Err(Status::NotFound), 15)?;
    }
    holds(runtime.open_channel(own, KERNEL, CELLS).err() == Some(Status::Invalid), 17)?;
    let nonsense = runtime.call(SystemCall::Channel, 0, &[9; 24], &mut []).result();
    holds(nonsense == Err(Status::Invalid), 16)
}

/// Both send and receive all the time, and neither makes a system call.
fn polling(runtime: &Runtime<'_>, pair: &mut Pair<'_>) -> Checked {
    let before = runtime.system_calls();
    let (mut sent, mut received) = (0, 0);
    while sent < POLLED || received < POLLED {
        let mut moved = false;
        if sent < POLLED {
            match pair.out.try_send(&say(sent)?) {
                Ok(()) => (sent, moved) = (sent + 1, true),
                Err(Status::Busy) => {}
                Err(_) => return Err(20),
            }
        }
        if received < POLLED
            && let Some(message) = pair.back.try_receive().map_err(|_| 21u64)?
        {
            holds(is(&message, received), 22)?;
            (received, moved) = (received + 1, true);
        }
        if !moved {
            runtime.poll_later();
        }
    }
    holds(runtime.system_calls() == before, 23)
}

/// One sends more than there is room for and then takes as much; the other one the other way round.
fn bursts(pair: &mut Pair<'_>, leads: bool) -> Checked {
    for sends in [leads, !leads] {
        for number in 0..POLLED {
            match sends {
                true => pair.out.send(&say(number)?).map_err(|_| 24u64)?,
                false => holds(is(&pair.back.receive().map_err(|_| 25u64)?, number), 26)?,
            }
        }
    }
    Ok(())
}

/// One says a number, the other says it back, and both sleep until they hear.
fn sleeping(runtime: &Runtime<'_>, pair: &mut Pair<'_>, leads: bool, count: u64) -> Checked {
    let before = runtime.system_calls();
    for number in 0..count {
        if leads {
            pair.out.send(&say(number)?).map_err(|_| 30u64)?;
        }
        let message = pair.back.receive().map_err(|_| 31u64)?;
        holds(is(&message, number), 32)?;
        if !leads {
            pair.out.send(&message).map_err(|_| 33u64)?;
        }
    }
    // Each message costs a wait and a wake-up, and an event that comes too late one more wait.
    holds(runtime.system_calls() - before <= 3 * count, 34)
}

/// A few messages there and back.
fn talk(pair: &mut Pair<'_>) -> Checked {
    for number in 0..FEW {
        pair.out.send(&say(number)?).map_err(|_| 50u64)?;
    }
    for number in 0..FEW {
        holds(is(&pair.back.receive().map_err(|_| 51u64)?, number), 52)?;
    }
    Ok(())
}

/// The other end ends; this one learns that on both channels.
fn stay(runtime: &Runtime<'_>, other: Other) -> Checked {
    let mut pair = pair(runtime, other, PATIENCE)?;
    talk(&mut pair)?;
    holds(pair.back.receive() == Err(Status::Dead), 60)?;
    holds(pair.back.try_receive() == Err(Status::Dead), 61)?;
    let message = say(0)?;
    let last = loop {
        if let Err(status) = pair.out.send(&message) {
            break status;
        }
    };
    holds(last == Status::Dead, 62)?;
    holds(wake(runtime, pair.out.channel()) == Err(Status::Dead), 63)?;
    // There is nobody to wake at the end from which messages come.
    holds(wake(runtime, pair.back.channel()) == Err(Status::Invalid), 64)?;
    pair.out.close();
    pair.back.close();
    Ok(())
}

/// Says that it has come so far, and then waits for what never comes.
fn hold(runtime: &Runtime<'_>, other: Other) -> Checked {
    let mut pair = pair(runtime, other, PATIENCE)?;
    talk(&mut pair)?;
    for _ in 0..SHOWN {
        runtime.call(SystemCall::Nothing, 0, &[], &mut []);
    }
    let _ = pair.back.receive();
    Err(70)
}

/// What two neighbours have between them is not for a third one, nor what one of them offers to
/// itself.
fn steal(runtime: &Runtime<'_>, own: CoreId) -> Checked {
    let soon = Instant::from_nanos(now(runtime)? + LITTLE_PATIENCE);
    holds(runtime.accept_channel(NOBODY, soon).err() == Some(Status::Timeout), 80)?;
    for channel in (0..8).map(ChannelId) {
        holds(wake(runtime, channel) == Err(Status::NotFound), 81)?;
        holds(ask(runtime, ChannelCall::Close(channel)) == Err(Status::NotFound), 82)?;
    }
    let mine = runtime.open_channel(own, MINE, CELLS).map_err(|_| 83u64)?;
    let soon = Instant::from_nanos(now(runtime)? + LITTLE_PATIENCE);
    holds(runtime.accept_channel(MINE, soon).err() == Some(Status::Timeout), 84)?;
    mine.close();
    Ok(())
}

/// Channels there and back are opened and closed, so many times.
fn many(runtime: &Runtime<'_>, other: Other, times: Option<&str>) -> Checked {
    let times: u64 = times.and_then(|it| it.parse().ok()).ok_or(90u64)?;
    for number in 0..times {
        let mut pair = pair(runtime, other, PATIENCE)?;
        pair.out.send(&say(number)?).map_err(|_| 91u64)?;
        holds(is(&pair.back.receive().map_err(|_| 92u64)?, number), 93)?;
        pair.out.close();
        pair.back.close();
    }
    Ok(())
}

/// Ends in the midst, and not by its own will.
fn fail(runtime: &Runtime<'_>, other: Other) -> Checked {
    let mut pair = pair(runtime, other, PATIENCE)?;
    talk(&mut pair)?;
    panic!("{FAILS}")
}

/// Talks to whoever is there, if anybody is, and as long as it is.
fn brief(runtime: &Runtime<'_>, other: Other) -> Checked {
    if let Ok(mut pair) = pair(runtime, other, LITTLE_PATIENCE) {
        // The other one may be gone at any time: then this ends all the same.
        if talk(&mut pair).is_ok() {
            runtime.call(SystemCall::Log, 0, TALKED.as_bytes(), &mut []);
        }
    }
    Ok(())
}
