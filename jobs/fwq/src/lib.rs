//! The fixed work quantum (FWQ): the same work again and again, and the time that each took. What
//! is more than the least is time in which the core did something else.
//!
//! `fwq QUANTA STEPS` has no input; each part of the output is the times of so many quanta of so
//! many steps, one a line, in cycles of the time-stamp counter. [`measure`] is also what a program
//! on Linux calls to do the same.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::format;
use alloc::vec;
use core::hint::black_box;

use nile_abi::call::System;
use nile_tasks::{Done, Halt, Outcome, Stages, Task, run};
use nile_user::cycles;

/// The most quanta that are measured: their times are in memory until the last has ended.
const MOST: usize = 1 << 20;

/// Quanta between two moments in which others on the core may have something done: some tenths of a
/// second.
const BATCH: usize = 100;

/// Does as many quanta of `steps` steps as there are places for their times.
pub fn measure(times: &mut [u32], steps: u32) {
    for time in times {
        let begun = cycles();
        black_box(quantum(black_box(steps)));
        *time = u32::try_from(cycles().wrapping_sub(begun)).unwrap_or(u32::MAX);
    }
}

/// Steps that each wait for the one before, in registers alone (xorshift).
fn quantum(steps: u32) -> u64 {
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..steps {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
    }
    word
}

struct Fwq;

impl Stages for Fwq {
    fn map(&self, _: &Task<'_>) -> Outcome<Done> {
        Err(Halt::code("`fwq` reads nothing: the job has no input"))
    }

    fn reduce(&self, task: &Task<'_>) -> Outcome<Done> {
        let number = |at: usize| task.arguments().get(at)?.parse().ok().filter(|it| *it > 0);
        let (Some(quanta @ 1..=MOST), Some(steps)) = (number(0), number(1)) else {
            let text = format!("`fwq QUANTA STEPS`: numbers, at most {MOST} quanta");
            return Err(Halt::code(text));
        };
        let steps = u32::try_from(steps).map_err(|_| Halt::code("too many steps for a quantum"))?;
        let mut times = vec![0; quanta];
        for batch in times.chunks_mut(BATCH) {
            measure(batch, steps);
            task.breathe()?;
        }
        let mut lines = times.iter().map(|time| format!("{time}\n")).peekable();
        while lines.peek().is_some() {
            let mut buffer = task.buffer()?;
            let mut filled = 0;
            while let Some(line) = lines.next_if(|line| filled + line.len() <= buffer.len()) {
                buffer[filled..filled + line.len()].copy_from_slice(line.as_bytes());
                filled += line.len();
            }
            if filled == 0 {
                return Err(Halt::space("no line fits a buffer"));
            }
            task.write(buffer, filled)?;
        }
        Ok(Done { records: quanta as u64, checksum: 0 })
    }
}

/// Measures until the job is over.
pub fn main(system: &dyn System, _: &[u8]) -> u64 {
    run(system, &Fwq)
}

#[cfg(test)]
mod tests {
    use nile_tasks::local::Local;

    use super::*;

    #[test]
    fn each_part_has_a_time_for_each_quantum_and_more_steps_take_longer() {
        let median = |steps: &str| {
            let job = Local::new(main).arguments(&["101", steps]).buffers(64, 4096).partitions(2);
            let mut times: alloc::vec::Vec<u32> =
                job.run().unwrap().text().lines().map(|line| line.parse().unwrap()).collect();
            assert_eq!(times.len(), 202);
            times.sort_unstable();
            times[101]
        };
        assert!(median("20000") > 4 * median("2000"));
    }

    #[test]
    fn what_is_no_number_of_quanta_is_refused() {
        for arguments in [&["0", "1"][..], &["1"], &["9999999", "1"], &["1", "x"]] {
            let error = Local::new(main).arguments(arguments).run().err().unwrap();
            assert!(error.contains("fwq QUANTA STEPS"), "{error}");
        }
    }
}
