//! Instances are chosen by how they were found to serve: of two, one of which is slow, queries for
//! the least latency find the quick one; when it becomes slow, they find the other. A composite
//! that is planned for a goal is planned anew when a part becomes slow, takes fewer calls than
//! promised, fails, or goes: no call of it is lost. So is one that the composer has published.

mod parts;

use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Status};
use nile_bosml::{Encode, Writer};
use nile_composer::{Synthesize, Synthesized};
use nile_interfaces::composer::{ComposerClient, GoalEntry};
use nile_interfaces::registry::Wanted;
use nile_kernel::Core;
use nile_platform::Machine;
use nile_registry::LATENCY;
use nile_stl::{CallError, CallResult, Registration, Stl, all};
use nile_synthesis::{Goal, Value};

use crate::calls::serve;
use crate::conduct::{Findings, conduct, conducts};
use parts::mill::{self, MillClient};
use parts::oven;

/// How long a part may take to be published.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long until what is not there yet is looked for again.
const RETRY: Duration = Duration::from_micros(200);

/// How long a quick call takes, and a slow one. A busy host makes a quick one longer.
const QUICK_US: u64 = 200;
const SLOW_US: u64 = 100_000;

/// How long a call takes of a mill that grinds for one after the other, and of one that does for
/// all at once; and who calls them.
const ALONE_US: u64 = 5_000;
const BESIDE_US: u64 = 10_000;
const CALLERS: u32 = 32;

/// So many calls in a second the second one can take, and the first cannot.
const PER_SECOND: u64 = 1_000;

/// Each mill is called so often at least until it counts as known how quick it is.
const LEAST_ROUNDS: u32 = 4;

/// The cores with mills.
const MILLS: [CoreId; 2] = [CoreId(1), CoreId(2)];

/// Starts this core's part; of a node with fewer than three cores nothing is asked.
pub fn start<M: Machine>(core: &Core<M>) {
    serve(core);
    let owner = core.clone();
    let of: Option<&Registration> = match core.id() {
        id if MILLS.contains(&id) => Some(&mill::REGISTRATION),
        CoreId::BOOT => Some(&oven::REGISTRATION),
        _ => None,
    };
    core.spawn(async move {
        let Some((part, make)) = of.and_then(|of| Some((of, of.kernel?))) else { return };
        if let Err(error) = owner.stl().publish(part, make).await {
            owner.machine().log(format_args!("no {}: {error}", part.name()));
        }
    });
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "quality", move |findings| async move {
            let stl = core.stl();
            if core.peers().count() <= MILLS.len() {
                return;
            }
            if let Err(error) = check(&stl, &findings).await {
                findings.check(false, format_args!("{error}"));
            }
        });
    }
}

async fn check(stl: &Stl, findings: &Findings) -> CallResult<()> {
    let mills = [mill_on(stl, MILLS[0]).await?, mill_on(stl, MILLS[1]).await?];
    check_pace(stl, &mills, findings).await?;
    check_choice(stl, &mills, findings).await?;
    check_published(stl, &mills, findings).await?;
    check_promise(stl, &mills, findings).await
}

/// The mill on one core, once it is published.
async fn mill_on(stl: &Stl, core: CoreId) -> CallResult<MillClient> {
    let host = stl.host();
    let deadline = host.now() + PATIENCE;
    loop {
        match MillClient::find_at(stl, core).await {
            Err(CallError { status: Status::NotFound, .. }) if host.now() < deadline => {
                host.sleep_until(host.now() + RETRY).await;
            }
            result => return result,
        }
    }
}

/// Queries for the least latency find who is quick.
async fn check_choice(stl: &Stl, mills: &[MillClient; 2], findings: &Findings) -> CallResult<()> {
    for (quick, slow) in [(0, 1), (1, 0)] {
        mills[quick].set(QUICK_US, false).await?;
        mills[slow].set(SLOW_US, false).await?;
        show(stl, mills, MILLS[quick], findings).await?;
    }
    Ok(())
}

/// Has the mills grind until queries find the quick one.
async fn show(
    stl: &Stl,
    mills: &[MillClient; 2],
    quick: CoreId,
    findings: &Findings,
) -> CallResult<()> {
    let deadline = stl.host().now() + PATIENCE;
    // It shows after a few calls; how late a busy host makes them, nobody knows. Of two that nobody
    // has called, the one that is found may be the quick one by chance.
    let mut rounds = 0;
    while rounds < LEAST_ROUNDS || !finds(stl, quick).await? {
        rounds += 1;
        for mill in mills {
            let flour = mill.grind("rye").await?;
            findings.check(flour == "rye flour", format_args!("{flour}"));
        }
        if stl.host().now() > deadline {
            findings.check(false, format_args!("{quick} is not found"));
            return Ok(());
        }
    }
    Ok(())
}

/// A composite that promises so many calls in a second is planned anew when they wait for a part
/// that takes fewer; one that promises none keeps its plan.
async fn check_pace(stl: &Stl, mills: &[MillClient; 2], findings: &Findings) -> CallResult<()> {
    mills[0].line_up(ALONE_US).await?;
    mills[1].set(BESIDE_US, false).await?;
    show(stl, mills, MILLS[0], findings).await?;
    let goal = Goal { most_latency_ns: Some(PATIENCE.as_nanos() as u64), ..goal() };
    let easy = stl.synthesize("easy", goal.clone()).await?;
    let brisk = Goal { least_per_second: Some(PER_SECOND), ..goal };
    let brisk = stl.synthesize("brisk", brisk).await?;
    for bread in [&easy, &brisk] {
        is_at(bread, MILLS[0], "the quicker one", findings);
    }
    for _ in 0..3 {
        bakes(stl, &easy, CALLERS, findings).await;
    }
    is_at(&easy, MILLS[0], "nothing is promised", findings);
    let deadline = stl.host().now() + PATIENCE;
    while mill_of(&brisk) == Some(MILLS[0]) && stl.host().now() < deadline {
        bakes(stl, &brisk, CALLERS, findings).await;
    }
    is_at(&brisk, MILLS[1], "one after the other", findings);
    Ok(())
}

/// A composite that the composer has published is called by its name, planned anew when a part
/// fails, and ended.
async fn check_published(
    stl: &Stl,
    mills: &[MillClient; 2],
    findings: &Findings,
) -> CallResult<()> {
    let composer = ComposerClient::find(stl).await?;
    let goal = GoalEntry::from(&goal());
    let made = composer.publish("bakery".into(), goal.clone()).await?;
    let places: Vec<_> = made.parts.iter().map(|part| (&*part.service, part.core)).collect();
    let expected = [("mill", MILLS[1].0), ("oven", CoreId::BOOT.0)];
    findings.check(places == expected, format_args!("the bakery has {places:?}"));
    let bread = || async { stl.invoke("bakery", "bakery", &encoded("rye")?).await };
    let baked = encoded("rye flour bread")?;
    for fails in [false, true] {
        mills[1].set(QUICK_US, fails).await?;
        let reply = bread().await?;
        findings.check(reply == baked, format_args!("the bakery gives {reply:?}"));
    }
    let all = composer.list_all().await?;
    let calls =
        |plans| all.iter().any(|it| (&*it.name, it.plans, it.calls) == ("bakery", plans, 2));
    findings.check(all.len() == 1 && calls(2), format_args!("the composer has {all:?}"));
    for (name, goal, status) in [
        ("bakery", goal.clone(), Status::Exists),
        ("mill", goal.clone(), Status::Exists),
        ("registry", goal.clone(), Status::Denied),
        ("", goal, Status::Invalid),
        ("nothing", GoalEntry::default(), Status::Invalid),
    ] {
        let refused = composer.publish(name.into(), goal).await.map_err(|error| error.status);
        let is_refused = refused.as_ref().is_err_and(|known| *known == status);
        findings.check(is_refused, format_args!("`{name}` is not {status}: {refused:?}"));
    }
    for was_there in [true, false] {
        let ended = composer.withdraw("bakery".into()).await?;
        findings.check(ended == was_there, format_args!("ended: {ended}"));
    }
    let gone = bread().await.map_err(|error| error.status);
    findings.check(gone == Err(Status::NotFound), format_args!("the bakery is gone: {gone:?}"));
    mills[1].set(QUICK_US, false).await?;
    Ok(())
}

fn goal() -> Goal {
    let (given, wanted) = ([Value::of("grain")].into(), [Value::of("bread")].into());
    Goal { given, wanted, ..Goal::default() }
}

/// Whether the mill of a core is the one that queries find.
async fn finds(stl: &Stl, core: CoreId) -> CallResult<bool> {
    let wanted = Wanted {
        type_name: String::from("mill"),
        keywords: [].into(),
        conditions: [].into(),
        least: Some(LATENCY.into()),
    };
    // Of about equal ones each would be found.
    for _ in 0..16 {
        if wanted.find::<MillClient>(stl).await?.core() != Some(core) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A composite is planned by what is known, and anew when a part becomes slow, fails, or goes.
async fn check_promise(stl: &Stl, mills: &[MillClient; 2], findings: &Findings) -> CallResult<()> {
    let goal = goal();
    // The second mill is the quick one; what a busy host has made of it meanwhile is forgotten.
    show(stl, mills, MILLS[1], findings).await?;
    let bread = stl.synthesize("baker", goal.clone()).await?;
    is_at(&bread, MILLS[1], "quick", findings);
    bakes(stl, &bread, 8, findings).await;
    is_at(&bread, MILLS[1], "called", findings);

    mills[0].set(QUICK_US, false).await?;
    mills[1].set(SLOW_US, false).await?;
    let deadline = stl.host().now() + PATIENCE;
    while mill_of(&bread) != Some(MILLS[0]) && stl.host().now() < deadline {
        // Others use the first one, so that it is known that it has become quick.
        mills[0].grind("oat").await?;
        bakes(stl, &bread, 1, findings).await;
    }
    is_at(&bread, MILLS[0], "the other slow", findings);

    mills[0].set(QUICK_US, true).await?;
    bakes(stl, &bread, 8, findings).await;
    is_at(&bread, MILLS[1], "the other broken", findings);

    mills[0].set(QUICK_US, false).await?;
    mills[1].leave().await?;
    bakes(stl, &bread, 8, findings).await;
    is_at(&bread, MILLS[0], "the other gone", findings);

    findings.check(bread.plans() >= 4, format_args!("{} plans", bread.plans()));
    mills[0].leave().await?;
    let ended = bread.call(stl.deadline(), &encoded("rye")?).await.map_err(|error| error.status);
    findings.check(ended == Err(Status::Dead), format_args!("nobody bakes: {ended:?}"));
    let refused = stl.synthesize("baker", goal).await.err().map(|error| error.status);
    findings.check(refused == Some(Status::NotFound), format_args!("planned: {refused:?}"));
    Ok(())
}

fn encoded(text: &str) -> CallResult<Vec<u8>> {
    let mut out = Writer::new();
    text.encode(&mut out);
    Ok(out.into_bytes()?)
}

/// So many calls at once, all of which end right.
async fn bakes(stl: &Stl, bread: &Rc<Synthesized>, calls: u32, findings: &Findings) {
    let one = |_| async {
        let reply = bread.call(stl.deadline(), &encoded("rye")?).await?;
        Ok::<_, CallError>(reply == encoded("rye flour bread")?)
    };
    for ended in all((0..calls).map(one)).await {
        findings.check(ended == Ok(true), format_args!("baked: {ended:?}"));
    }
}

/// The core of the mill that a composite has.
fn mill_of(bread: &Synthesized) -> Option<CoreId> {
    Some(bread.parts().iter().find(|part| part.service == "mill")?.place.core)
}

fn is_at(bread: &Synthesized, core: CoreId, when: &str, findings: &Findings) {
    let at = mill_of(bread);
    findings.check(at == Some(core), format_args!("{when}: the mill is on {at:?}, not {core}"));
}
