//! Every worker runs packages, one after the other and as fast as it can, for a while. When all is
//! quiet again the node has as much free memory and as many free tables as before: whatever
//! happened in between, restarts included. With `channels=1` the packages talk to each other, and
//! with `beside=1` each core has two at a time, which talk to each other.

use alloc::format;
use alloc::rc::Rc;
use core::time::Duration;

use nile_abi::{Instant, Status};
use nile_kernel::packages::NoServices;
use nile_kernel::{Core, PackageLimits, ServiceCalls};
use nile_package::Image;
use nile_platform::Machine;

use crate::arguments::Arguments;
use crate::churn::{REST, come_to_rest};
use crate::conduct::{conduct, conducts};

/// With whom the packages talk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Talk {
    None,
    Abroad,
    Beside,
}

/// How often it is looked whether a package has run.
const LOOK: Duration = Duration::from_millis(1);

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let span = Duration::from_micros(arguments.number("us", 20_000));
    let begin = Instant::START + Duration::from_millis(arguments.number("begin_ms", 300));
    let end = begin + span;
    let with_channels = arguments.number("channels", 0) == 1;
    let beside = arguments.number("beside", 0) == 1;
    let talk = match (with_channels, beside) {
        (false, _) => Talk::None,
        (true, false) => Talk::Abroad,
        (true, true) => Talk::Beside,
    };
    for place in 0..if beside { 2 } else { 1 } {
        churn(core.clone(), begin, end, talk, place);
    }
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "package-churn", move |findings| async move {
            let before = core.memory_statistics().await;
            let Some(before) = findings.expect(before, "no statistics") else { return };
            findings.check(core.now() < begin, format_args!("the node was slower than begin_ms"));
            core.sleep_until(end).await;
            let board = core.machine().board();
            let calls = || core.peers().map(|peer| board.record(peer).system_calls()).sum::<u64>();
            // A machine that is busy with others may not have come to it.
            while calls() == 0 && core.now() < end + REST {
                core.sleep(LOOK).await;
            }
            let after = come_to_rest(&core, before, end + REST).await;
            let Some(after) = findings.expect(after, "no statistics") else { return };
            findings.check(
                before == after,
                format_args!("memory was lost: {before:?} before, {after:?} after"),
            );
            let calls = calls();
            findings.check(calls > 0, format_args!("no package ran"));
            findings.figure("system_calls", calls);
        });
    }
}

/// Runs packages, one after the other.
fn churn<M: Machine>(churner: Core<M>, begin: Instant, end: Instant, talk: Talk, place: u64) {
    churner.clone().spawn(async move {
        churner.sleep_until(begin).await;
        let mut round = u64::from(churner.id().0) + place;
        // The text of what was shipped stays until a package comes that was not.
        let (mut text_stays, mut has_run) = (false, false);
        while churner.now() < end || text_stays || !has_run {
            round += 1;
            let is_shipped = churner.now() < end && round % 4 < 2;
            match once(&churner, round, talk, is_shipped).await {
                Ok(()) => (text_stays, has_run) = (is_shipped, true),
                Err(_) => churner.sleep(Duration::from_micros(100)).await,
            }
        }
    });
}

/// Runs one package, which grows meanwhile and now and then is stopped early.
async fn once<M: Machine>(
    core: &Core<M>,
    round: u64,
    talk: Talk,
    is_shipped: bool,
) -> Result<(), Status> {
    let limits = PackageLimits {
        memory_bytes: 16 << 20,
        stack_bytes: round % 7 * 4096 + 4096,
        arena_bytes: round % 3 * (3 << 19),
        ..PackageLimits::default()
    };
    let package = if talk != Talk::None {
        let image = core.find_package("channels").ok_or(Status::NotFound)?;
        let (own, cores) = (core.id().0, core.machine().board().cores() as u16);
        // The neighbour of an odd core has the number before, that of an even one the one after.
        let is_beside = talk == Talk::Beside;
        let other = if is_beside { own } else { (own ^ 1) % cores };
        let argument = format!("{own} {other} brief");
        let limits = PackageLimits { arena_bytes: 3 << 19, shares: is_beside, ..limits };
        let calls = ServiceCalls::new(&core.stl());
        core.run_package(image, argument.as_bytes(), limits, calls)?
    } else {
        let image = match core.find_package("hello").ok_or(Status::NotFound)? {
            Image::Elf(file) if is_shipped => Image::Shipped(Rc::from(file)),
            other => other,
        };
        core.run_package(image, b"churn", limits, NoServices)?
    };
    // What does not come in time comes to nothing; a limit that is reached is no fault.
    let grown = core.spawn({
        let package = package.clone();
        async move { package.grow(round % 5 * 4096).await }
    });
    if round.is_multiple_of(4) {
        package.stop();
    }
    package.ended().await;
    drop(grown);
    Ok(())
}
