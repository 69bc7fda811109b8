//! A token that two processes on one CPU pass each other through pipes, as `lat_ctx` of lmbench has
//! it: each waits until it has it, so that the CPU is the other's with every pass. What writing and
//! reading take without another process is measured beside it, and taken off for the switch alone.

use std::env;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe, stdin, stdout};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::words::Words;
use crate::{Outcome, system};

/// The argument of the process that follows.
pub const FOLLOWS: &str = "follows";

/// Passes that only warm up.
const WARM: usize = 100;

/// The token: `lat_ctx` passes an `int`.
type Token = [u8; 4];

/// Passes the token `times` there and back, for each of the rounds; the middle round's times.
pub fn run(words: &Words<'_>) -> Outcome<Value> {
    system::say("measuring switches");
    let (rounds, times) = (words.number("rounds")?, words.number("times")?);
    // Who is started stays on this CPU, too.
    system::pin(&[system::cpus()? - 1])?;
    let mut follower = Command::new(env::current_exe()?)
        .arg(FOLLOWS)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (mut there, mut back) = (follower.stdin.take(), follower.stdout.take());
    let (there, back) = there.as_mut().zip(back.as_mut()).ok_or("the follower has no pipes")?;
    let (mut own, mut pipes) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        own.push(alone(times)?);
        pipes.push(half(times, || pass(there, back))?);
    }
    follower.kill()?;
    follower.wait()?;
    let (pass, alone) = (middle(pipes), middle(own));
    Ok(json!({ "pass_ns": pass, "switch_ns": pass - alone }))
}

/// Gives back what comes, until nothing comes any more.
pub fn follow() {
    let mut token = Token::default();
    let (mut from, mut to) = (stdin().lock(), stdout().lock());
    while from.read_exact(&mut token).is_ok() {
        // Standard output waits for a whole line.
        if to.write_all(&token).and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

fn pass(there: &mut impl Write, back: &mut impl Read) -> Outcome<()> {
    let mut token = Token::default();
    there.write_all(&token)?;
    Ok(back.read_exact(&mut token)?)
}

/// What writing a token into a pipe and reading it from there take in one process.
fn alone(times: usize) -> Outcome<f64> {
    let (mut from, mut to): (PipeReader, PipeWriter) = pipe()?;
    Ok(2.0 * half(times, || pass(&mut to, &mut from))?)
}

/// Half the nanoseconds that one of so many takes.
fn half(times: usize, mut each: impl FnMut() -> Outcome<()>) -> Outcome<f64> {
    for _ in 0..WARM {
        each()?;
    }
    let begun = Instant::now();
    for _ in 0..times {
        each()?;
    }
    Ok(begun.elapsed().as_nanos() as f64 / (2 * times) as f64)
}

fn middle(mut times: Vec<f64>) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}
