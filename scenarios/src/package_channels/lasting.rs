//! `package-lasting`: numbers go through a channel from one package to another. One of the two
//! ends after a step, whichever that is, and begins anew on its core; the other one goes on, sees
//! which generation is down and that the next one is up, and each number comes once. With
//! `every=1` after each step, else after every few; with `control=1` the sender does not send again
//! what nobody has taken.

use alloc::string::String;

use super::*;
use nile_channels::{ENDED, LASTING, NEVER};

/// Where a lasting end's course is in what a worker is asked.
const FROM: u32 = 36;
const END: u32 = 44;
const GENERATION: u32 = 52;
const BLIND: u64 = 1 << 35;

/// Steps from one end to the next where not after each.
const FEW: usize = 9;

/// What the package is told of its course.
pub(super) fn words(number: u64) -> String {
    let part = |bit: u32| number >> bit & 0xff;
    let blind = u64::from(number & BLIND > 0);
    format!("{} {} {blind} {}", part(FROM), part(END), part(GENERATION))
}

/// Starts the conductor's part.
pub(super) fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let beside = arguments.number("beside", 0) > 0;
    let stride = if arguments.number("every", 0) > 0 { 1 } else { FEW };
    let blind = if arguments.number("control", 0) > 0 { BLIND } else { 0 };
    let core = core.clone();
    conduct(&core.clone(), "package-lasting", move |findings| async move {
        let Some(pair) = workers(&core, &findings, beside) else { return };
        if let Err(status) = check(&core, &findings, pair, stride, blind).await {
            findings.check(false, format_args!("no talk with a worker: {status}"));
        }
    });
}

async fn check<M: Machine>(
    core: &Core<M>,
    findings: &Findings,
    [first, second]: [CoreId; 2],
    stride: usize,
    blind: u64,
) -> Result<(), Status> {
    let (first, second) = (Party::of(core, first).await?, Party::of(core, second).await?);
    // The first run of all may leave something that is made only once.
    once(findings, (&first, GIVE), (&second, TAKE), NEVER, blind).await?;
    core.sleep(Duration::from_millis(50)).await;
    let before = core.memory_statistics().await?;
    let mut ends = 0;
    // The last step is the one before the last number.
    for step in (0..=LASTING).step_by(stride) {
        once(findings, (&first, GIVE), (&second, TAKE), step, blind).await?;
        once(findings, (&second, TAKE), (&first, GIVE), step, blind).await?;
        ends += 2;
    }
    let after = come_to_rest(core, before, core.now() + REST).await?;
    findings.check(
        before == after,
        format_args!("memory was lost: {before:?} before, {after:?} after"),
    );
    findings.figure("ends", ends);
    Ok(())
}

/// The first of two ends after a step, if at all, and begins anew.
async fn once<M: Machine>(
    findings: &Findings,
    (ends, act): (&Party<M>, u64),
    (stays, other): (&Party<M>, u64),
    step: u64,
    blind: u64,
) -> Result<(), Status> {
    let from = |number: u64| number << FROM;
    // What ends before it has a peer is none.
    let seen = if step == 0 || step == NEVER { 1 } else { 2 };
    let goes_on = other | NEVER << END | seen << GENERATION | blind;
    stays.begin(goes_on, ends.core, 0).await?;
    ends.begin(act | step << END | 1 << GENERATION | blind, stays.core, 0).await?;
    if step != NEVER {
        let code = ends.talk.listen().await?;
        let far = code.checked_sub(ENDED).filter(|far| *far <= LASTING);
        let far = findings.expect(far.ok_or(code), "it has not ended after its step");
        let Some(far) = far else { return Ok(()) };
        // What its peer has seen of it is the next one's second peer at most.
        let again = act | from(far) | NEVER << END | 1 << GENERATION | blind;
        ends.begin(again, stays.core, 0).await?;
    }
    let (ended, stayed) = (ends.talk.listen().await?, stays.talk.listen().await?);
    findings.check(
        (ended, stayed) == (0, 0),
        format_args!(
            "{} exits with {ended} after step {step}, {} with {stayed}",
            ACTS[act as usize], ACTS[other as usize]
        ),
    );
    Ok(())
}
