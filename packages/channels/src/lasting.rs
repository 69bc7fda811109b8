//! Numbers, in their order, through a channel that outlives either package. One of the two ends in
//! the midst and begins anew where it was; the other one goes on, and every number comes once.
//!
//! The argument's last words are `FROM END BLIND GENERATION`: the first number that is still to
//! come, the step at which the package ends ([`NEVER`]: at none), whether it forgets what the last
//! peer has not taken (the control), and the generation of the last peer that it is to see. It
//! exits with [`ENDED`] and how far it is when it ends in the midst.

use nile_abi::{CoreId, Instant};
use nile_user::Runtime;

use super::{CELLS, Checked, FAILED, PATIENCE, holds, is, now, say};

/// What is added to how far a package is that ends in the midst.
pub const ENDED: u64 = 1000;

/// Numbers in all: more than there is room for.
pub const LASTING: u64 = 40;

/// The step at which no package ends.
pub const NEVER: u64 = 255;

/// The tag of the channel.
const LASTS: u32 = 3;

/// How long a sender waits before it looks again whether all is taken, in nanoseconds.
const LOOK: u64 = 50_000;

/// What a package is to do, and how far it is.
struct Course {
    next: u64,
    end: u64,
    blind: bool,
    generation: u64,
    step: u64,
}

impl Course {
    fn of<'a>(words: impl Iterator<Item = &'a str>) -> Option<Course> {
        let mut words = words.map(|word| word.parse().ok());
        let mut next = || words.next()?;
        let (next, end, blind, generation) = (next()?, next()?, next()?, next()?);
        Some(Course { next, end, blind: blind > 0u64, generation, step: 0 })
    }

    /// Whether the package ends before its next step.
    fn ends(&mut self) -> bool {
        self.step += 1;
        self.step > self.end
    }
}

/// How it ended: in the midst, or by a check that failed.
fn ended(course: &Course, checked: Checked<bool>) -> u64 {
    match checked {
        Ok(true) => 0,
        Ok(false) => ENDED + course.next,
        Err(number) => FAILED + number,
    }
}

/// Sends the numbers.
pub fn give<'a>(runtime: &Runtime<'_>, other: CoreId, words: impl Iterator<Item = &'a str>) -> u64 {
    let Some(mut course) = Course::of(words) else { return FAILED };
    let checked = send(runtime, other, &mut course);
    ended(&course, checked)
}

/// Whether it has come to its end.
fn send(runtime: &Runtime<'_>, other: CoreId, course: &mut Course) -> Checked<bool> {
    let until = Instant::from_nanos(now(runtime)? + PATIENCE);
    let mut out = runtime.lasting_sender(other, LASTS, CELLS);
    if course.ends() {
        return Ok(false);
    }
    let mut generation = u64::from(out.up(until).map_err(|_| 90u64)?);
    loop {
        if course.ends() {
            return Ok(false);
        }
        let down = match course.next {
            // Who has taken all may be gone.
            LASTING if out.untaken() == 0 => break,
            LASTING if !out.is_down() => {
                runtime.sleep_until(Instant::from_nanos(now(runtime)? + LOOK));
                // It sleeps as often as the other one is late.
                course.step -= 1;
                continue;
            }
            LASTING => Err(out.down()),
            number => out.send(&say(number)?),
        };
        match down {
            Ok(()) => course.next += 1,
            Err(down) => {
                holds(u64::from(down.generation) == generation, 91)?;
                course.next -= if course.blind { 0 } else { u64::from(down.untaken) };
                let next = u64::from(out.up(until).map_err(|_| 92u64)?);
                holds(next == generation + 1, 93)?;
                generation = next;
            }
        }
    }
    holds(generation == course.generation, 94)?;
    Ok(true)
}

/// Takes the numbers.
pub fn take<'a>(runtime: &Runtime<'_>, words: impl Iterator<Item = &'a str>) -> u64 {
    let Some(mut course) = Course::of(words) else { return FAILED };
    let checked = receive(runtime, &mut course);
    ended(&course, checked)
}

fn receive(runtime: &Runtime<'_>, course: &mut Course) -> Checked<bool> {
    let until = Instant::from_nanos(now(runtime)? + PATIENCE);
    let mut back = runtime.lasting_receiver(LASTS);
    if course.ends() {
        return Ok(false);
    }
    let mut generation = u64::from(back.up(until).map_err(|_| 95u64)?);
    while course.next < LASTING {
        if course.ends() {
            return Ok(false);
        }
        match back.receive() {
            Ok(message) => {
                holds(is(&message, course.next), 96)?;
                course.next += 1;
            }
            Err(down) => {
                holds(u64::from(down.generation) == generation, 97)?;
                let next = u64::from(back.up(until).map_err(|_| 98u64)?);
                holds(next == generation + 1, 99)?;
                generation = next;
            }
        }
    }
    holds(generation == course.generation, 100)?;
    Ok(true)
}
