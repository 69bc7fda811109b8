//! A job over lines whose code is not as it should be: tests see with it what the authors of such
//! jobs get to see. Each line says what happens when it is mapped, or, behind `reduce`, when it is
//! reduced: `slow MS ANY` (it computes for so many milliseconds), `loop` (for ever), `panic TEXT`,
//! `greedy WHAT` (it takes that for ever, see
//! [`Greed`]), `input TEXT` and `code TEXT` (it fails in these words). Any other line is fine. The
//! output has each line and how often it was there.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::call::System;
use nile_greedy::Greed;
use nile_tasks::{Emitter, Halt, Lines, MapReduce, Outcome, Values, map_reduce};
use nile_user::compute;

struct Unsteady<'s> {
    system: &'s dyn System,
}

impl Unsteady<'_> {
    /// Does what the text says.
    fn act(&self, text: &[u8]) -> Outcome {
        let text = core::str::from_utf8(text).unwrap_or_default();
        let (act, rest) = text.split_once(' ').unwrap_or((text, ""));
        match act {
            "slow" => {
                let span = rest
                    .split(' ')
                    .next()
                    .unwrap_or_default()
                    .parse()
                    .map_err(|_| Halt::code("`slow MS`, a number"))?;
                compute(self.system, Some(Duration::from_millis(span)));
            }
            "loop" => compute(self.system, None),
            "greedy" => {
                let greed = Greed::named(rest).ok_or_else(|| Halt::code("`greedy WHAT`"))?;
                greed.act(self.system, || {})
            }
            "panic" => panic!("{rest}"),
            "input" => return Err(Halt::input(rest)),
            "code" => return Err(Halt::code(rest)),
            _ => {}
        }
        Ok(())
    }
}

impl MapReduce for Unsteady<'_> {
    fn map(&self, line: &[u8], out: &mut Emitter<'_, '_>) -> Outcome {
        self.act(line)?;
        out.emit(line, &1u64.to_le_bytes())
    }

    fn combine(&self, _: &[u8], total: &mut Vec<u8>, value: &[u8]) -> bool {
        *total = Vec::from((number(total) + number(value)).to_le_bytes());
        true
    }

    fn reduce(&self, line: &[u8], values: &mut Values<'_, '_>, out: &mut Lines<'_, '_>) -> Outcome {
        self.act(line.strip_prefix(b"reduce ").unwrap_or_default())?;
        let mut total = 0;
        while let Some(value) = values.next()? {
            total += number(value);
        }
        out.line(&[line, total.to_string().as_bytes()])
    }
}

fn number(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The package's main function.
pub fn main(system: &dyn System, _: &[u8]) -> u64 {
    map_reduce(system, &Unsteady { system })
}
