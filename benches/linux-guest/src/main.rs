//! What a Linux guest runs to be measured beside a NileOS guest: the only process there is, started
//! by the kernel as `/init`. It loads the modules of `/modules`, does what words on the kernel's
//! command line say, sends one document over the serial line, as a node sends its report, and
//! powers the machine off.
//!
//! * `nile.work=sort` ([`sort`]): makes records on the disk, sorts them, checks what came of it.
//!   With `nile.records=N`, `nile.threads=N` threads that sort, `nile.block=BYTES` that are read
//!   at once, `nile.io=direct|cached`: past Linux's page cache, or through it, and
//!   `nile.checks=yes|no`: whether each block has a checksum, as a dataset's have. With
//!   `nile.nodes=2`, two guests share the records, and `nile.node=1|2` says which one this is.
//! * `nile.work=fwq` ([`nile_fwq`]): the fixed work quantum on the last CPU, with
//!   `nile.quanta=N` and `nile.steps=N`. `nile.work=sort,fwq` does one after the other.
//! * `nile.work=switch` ([`switch`]): a token between two processes of the last CPU, with
//!   `nile.times=N` passes there and back in each of `nile.rounds=N`.
//! * `nile.work=hotplug` ([`hotplug`]): the last CPU and 512 MiB go and come back in each of
//!   `nile.rounds=N`; `movablecore=768M` keeps memory that can go.
//!
//! [`words`] reads the command line, [`system`] is what an init has to do, [`counts`] is what
//! Linux has counted, [`blocks`] is the disk, in pieces of one size, and [`peer`] the other guest.
#![forbid(unsafe_code)]

mod blocks;
mod counts;
mod hotplug;
mod peer;
mod sort;
mod switch;
mod system;
mod words;

use std::error::Error;
use std::fs;
use std::io::{Write, stdout};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use counts::Counts;
use words::Words;

/// What goes wrong here is shown, and ends the guest.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Begins a line that is a report (RFC 7464).
const REPORT_MARK: char = '\x1e';

fn main() {
    if std::env::args().nth(1).as_deref() == Some(switch::FOLLOWS) {
        return switch::follow();
    }
    let document = match work() {
        Ok(document) => document,
        Err(error) => json!({ "error": error.to_string() }),
    };
    println!("\n{REPORT_MARK}{document}");
    // The last words of a machine that is off are those that were written before.
    let _ = stdout().flush();
    let error = system::power_off();
    eprintln!("the machine cannot be powered off: {error}");
}

fn work() -> Outcome<Value> {
    system::say("loading modules");
    system::mount()?;
    system::load_modules()?;
    let line = fs::read_to_string("/proc/cmdline")?;
    let words = Words::new(&line);
    let mut document = json!({ "command_line": line.trim(), "kernel": system::kernel() });
    for work in words.text("work")?.split(',') {
        document[work] = match work {
            "sort" => sort::run(&words)?,
            "fwq" => fwq(&words)?,
            "switch" => switch::run(&words)?,
            "hotplug" => hotplug::run(&words)?,
            _ => {
                let known = "sort, fwq, switch or hotplug";
                return Err(format!("nile.work={work}: it is {known}").into());
            }
        };
    }
    Ok(document)
}

/// The fixed work quantum on the last CPU.
fn fwq(words: &Words<'_>) -> Outcome<Value> {
    system::say("measuring noise");
    let mut times = vec![0; words.number("quanta")?];
    let steps = words.number("steps")?.try_into()?;
    let cpu = system::cpus()? - 1;
    system::pin(&[cpu])?;
    // A tick that is to be stopped stops a little later.
    std::thread::sleep(Duration::from_millis(200));
    let before = Counts::now()?;
    nile_fwq::measure(&mut times, steps);
    let counts = Counts::now()?.since(&before);
    Ok(json!({
        "cpu": cpu,
        "times": times,
        "cycles_per_second": cycles_per_second(),
        "counts": counts.document(),
    }))
}

/// The rate of the time-stamp counter, by Linux's clock.
fn cycles_per_second() -> f64 {
    let (clock, cycles) = (Instant::now(), nile_user::cycles());
    std::thread::sleep(Duration::from_millis(200));
    let counted = nile_user::cycles() - cycles;
    counted as f64 / clock.elapsed().as_secs_f64()
}
