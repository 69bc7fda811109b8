//! A package that fills buffers of the node's pool and passes them to the same package on another
//! core, which reads them where they are, and passes them back; that a handle works once; that
//! either sees what the other has in its buffers without getting them; and that what it keeps comes
//! back when it has ended, because it keeps some.
//!
//! Its argument is `OTHER ACT`, the other core by its number and `pass` or `read`. It exits with 0,
//! or with 100 and the number of the first check that failed.
#![no_std]
#![forbid(unsafe_code)]

use nile_abi::call::{PoolCall, System, SystemCall};
use nile_abi::{CoreId, Instant, Status};
use nile_bosml::Buffer;
use nile_user::channel::Message;
use nile_user::{ChannelReceiver, ChannelSender, PoolBuffer, Runtime};

/// What is added to the number of a failed check: the runtime's own exit codes are below.
const FAILED: u64 = 100;

/// Buffers that go there and back.
const ROUNDS: u64 = 200;

/// The channels' tag, and their cells.
const TAG: u32 = 7;
const CELLS: u32 = 4;

/// How long the other package may take to begin, in nanoseconds.
const PATIENCE: u64 = 30_000_000_000;

/// What is sent where no buffer is meant.
const NOTHING: Buffer = Buffer { pool: 0, index: 0, generation: 0, length: 0 };

/// `Err` is the number of the check that failed.
type Checked<T = ()> = Result<T, u64>;

/// Does what the argument says.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    let argument = core::str::from_utf8(argument).unwrap_or_default();
    let mut words = argument.split(' ');
    let Some(other) = words.next().and_then(|word| word.parse().ok()).map(CoreId) else {
        return FAILED;
    };
    let runtime = Runtime::new(system);
    let checked = match words.next() {
        Some("pass") => pass(&runtime, other),
        Some("read") => read(&runtime, other),
        _ => Err(1),
    };
    checked.map_or_else(|number| FAILED + number, |()| 0)
}

fn holds(condition: bool, number: u64) -> Checked {
    if condition { Ok(()) } else { Err(number) }
}

/// A channel there and one back.
fn pair<'s>(
    runtime: &Runtime<'s>,
    other: CoreId,
) -> Checked<(ChannelSender<'s>, ChannelReceiver<'s>)> {
    let now = runtime.call(SystemCall::Now, 0, &[], &mut []).result().map_err(|_| 2u64)?;
    let out = runtime.open_channel(other, TAG, CELLS).map_err(|_| 3u64)?;
    let until = Instant::from_nanos(now + PATIENCE);
    Ok((out, runtime.accept_channel(TAG, until).map_err(|_| 4u64)?))
}

fn send(out: &mut ChannelSender<'_>, buffer: Buffer) -> Checked {
    let Buffer { pool, index, generation, length } = buffer;
    let mut bytes = [0; 16];
    for (place, word) in bytes.chunks_exact_mut(4).zip([pool, index, generation, length]) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let message = Message::new(1, &bytes).map_err(|_| 5u64)?;
    out.send(&message).map_err(|_| 6)
}

fn receive(back: &mut ChannelReceiver<'_>) -> Checked<Buffer> {
    let message = back.receive().map_err(|_| 7u64)?;
    let word = |at: usize| {
        let bytes = message.payload().get(4 * at..4 * at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let [pool, index, generation, length] = [word(0), word(1), word(2), word(3)];
    let buffer =
        (|| Some(Buffer { pool: pool?, index: index?, generation: generation?, length: length? }))(
        );
    buffer.ok_or(8)
}

fn fill(buffer: &mut PoolBuffer<'_>, seed: u64) {
    for (place, at) in buffer.chunks_exact_mut(8).zip(0..) {
        place.copy_from_slice(&(at ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes());
    }
}

fn is_filled(buffer: &[u8], seed: u64) -> bool {
    buffer.chunks_exact(8).zip(0u64..).all(|(place, at)| {
        place == (at ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes().as_slice()
    })
}

/// Fills buffers, and finds in them what the other one has made of them.
fn pass(runtime: &Runtime<'_>, other: CoreId) -> Checked {
    let (mut out, mut back) = pair(runtime, other)?;
    for round in 0..ROUNDS {
        let mut buffer = runtime.take_buffer().map_err(|_| 10u64)?;
        fill(&mut buffer, round);
        let bytes = buffer.len();
        let handle = buffer.pass(bytes).map_err(|_| 11u64)?;
        send(&mut out, handle)?;
        // The other one has written it and keeps it until it is told that this one has looked.
        let theirs = receive(&mut back)?;
        holds(theirs == handle, 15)?;
        let view = runtime.view_buffer(theirs).map_err(|_| 16u64)?;
        holds(view.len() == bytes && is_filled(&view, round + 1), 17)?;
        send(&mut out, NOTHING)?;
        let buffer = runtime.claim_buffer(receive(&mut back)?).map_err(|_| 12u64)?;
        holds(buffer.len() == bytes && is_filled(&buffer, round + 1), 13)?;
        // It is where the view was, and the view is still one.
        holds(view.as_ptr() == buffer.as_ptr() && view.len() == bytes, 18)?;
        let again = runtime.claim_buffer(handle).map(|_| ());
        holds(again == Err(Status::NotFound), 14)?;
    }
    // The other one's last buffer is claimed: it may end.
    send(&mut out, NOTHING)?;
    refused(runtime)?;
    keep(runtime)
}

/// Reads what comes where it is, and writes it anew.
fn read(runtime: &Runtime<'_>, other: CoreId) -> Checked {
    let (mut out, mut back) = pair(runtime, other)?;
    for round in 0..ROUNDS {
        let handle = receive(&mut back)?;
        let mut buffer = runtime.claim_buffer(handle).map_err(|_| 20u64)?;
        holds(is_filled(&buffer, round), 21)?;
        fill(&mut buffer, round + 1);
        send(&mut out, handle)?;
        receive(&mut back)?;
        let bytes = buffer.len();
        send(&mut out, buffer.pass(bytes).map_err(|_| 22u64)?)?;
    }
    receive(&mut back)?;
    keep(runtime)
}

/// What is wrong is told, and changes nothing.
fn refused(runtime: &Runtime<'_>) -> Checked {
    let ask = |input: &[u8], output: &mut [u8]| {
        runtime.call(SystemCall::Pool, 0, input, output).result().map(|_| ())
    };
    let free = PoolCall::Free { buffer: u32::MAX }.encode();
    holds(ask(&free, &mut []) == Err(Status::NotFound), 30)?;
    holds(ask(&[7; 24], &mut [0; 24]) == Err(Status::Invalid), 31)?;
    // A buffer whose place cannot be told is not taken.
    holds(ask(&PoolCall::Take.encode(), &mut [0; 8]) == Err(Status::Invalid), 32)?;
    let made_up = Buffer { pool: 0, index: u32::MAX, generation: 1, length: 1 };
    let claimed = runtime.claim_buffer(made_up).map(|_| ());
    holds(claimed == Err(Status::NotFound), 33)?;
    let long = Buffer { index: 0, length: u32::MAX, ..made_up };
    let elsewhere = Buffer { index: 0, pool: 1, ..made_up };
    for (number, wrong) in (34..).zip([made_up, long, elsewhere]) {
        let viewed = runtime.view_buffer(wrong).map(|_| ());
        holds(viewed == Err(Status::NotFound), number)?;
    }
    Ok(())
}

/// Ends with a buffer of its own, and with one that nobody claims.
fn keep(runtime: &Runtime<'_>) -> Checked {
    let own = runtime.take_buffer().map_err(|_| 40u64)?;
    core::mem::forget(own);
    let passed = runtime.take_buffer().map_err(|_| 41u64)?;
    passed.pass(1).map(|_| ()).map_err(|_| 42)
}
