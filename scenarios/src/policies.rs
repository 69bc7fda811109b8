//! Policies as services (Dhara, IV): scheduling policies at work; and instances of one type on
//! different cores, found by keywords and attributes, called by one typed client, ordered by their
//! priorities, bound with parameters that are checked. When one goes, what it was found by leads to
//! the default.

mod eviction;
pub mod scheduling;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Status;
use nile_interfaces::registry::{Asker, Binding, NamedValue, RegistryClient, Wanted};
use nile_kernel::Core;
use nile_platform::Machine;
use nile_registry::{Attribute, EXPELLED};
use nile_stl::{CallError, CallResult, Registration, Stl};

use crate::calls::serve;
use crate::conduct::{Findings, conduct, conducts};
use eviction::first_in::{self, FirstInClient};
use eviction::least_recent::{self, LeastRecentClient};
use eviction::most_recent;

/// The policies; each is on the core of its place in this list, as far as there are cores.
static POLICIES: [&Registration; 3] =
    [&first_in::REGISTRATION, &least_recent::REGISTRATION, &most_recent::REGISTRATION];

/// How long a policy may take to be published, and to be gone.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How long until what is not there yet is looked for again.
pub const RETRY: Duration = Duration::from_micros(200);

pub const OPERATOR: Asker = Asker::Operator;

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>) {
    serve(core);
    let owner = core.clone();
    core.spawn(async move {
        let cores = owner.peers().count();
        let here = |(place, _): &(usize, _)| place % cores == owner.id().index();
        for (_, policy) in POLICIES.iter().enumerate().filter(here) {
            if let Err(error) = publish(&owner, policy).await {
                owner.machine().log(format_args!("no {}: {error}", policy.name()));
            }
        }
    });
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "policies", move |findings| async move {
            let result = async {
                check(&core.stl(), &findings).await?;
                scheduling::check(&core, &findings).await
            };
            if let Err(error) = result.await {
                findings.check(false, format_args!("{error}"));
            }
        });
    }
}

/// Publishes a policy here; the registry may still be on its way.
pub async fn publish<M: Machine>(core: &Core<M>, policy: &'static Registration) -> CallResult<()> {
    let Some(make) = policy.kernel else { return Ok(()) };
    loop {
        match core.stl().publish(policy, make).await {
            Err(error) if error.status == Status::Dead => core.sleep(RETRY).await,
            result => return result.map(|_| ()),
        }
    }
}

async fn check(stl: &Stl, findings: &Findings) -> CallResult<()> {
    wait_for_all(stl).await?;
    check_found(stl, findings).await?;
    check_order(stl, findings).await?;
    check_bound(stl, findings).await?;
    // The one on this core goes.
    stl.unpublish(first_in::REGISTRATION.name()).await?;
    let found = which(stl, &wanted().keyword("sequential")).await?;
    findings.check(found == "most_recent", format_args!("{found} serves what is sequential"));
    let ordered = wanted().with(&Attribute::text("order", "arrival"));
    let gone = ordered.find::<LeastRecentClient>(stl).await.map(|_| ());
    expect(findings, gone, Status::NotFound, "no instance");
    Ok(())
}

fn wanted() -> Wanted {
    Wanted::of(&least_recent::TYPE)
}

/// Waits until every policy is published.
async fn wait_for_all(stl: &Stl) -> CallResult<()> {
    let host = stl.host();
    let deadline = host.now() + PATIENCE;
    let registry = RegistryClient::find(stl).await?;
    loop {
        let listed = registry.list_all().await?;
        let there = |policy: &&&Registration| listed.iter().any(|it| it.name == policy.name());
        if POLICIES.iter().filter(there).count() == POLICIES.len() {
            return Ok(());
        }
        if host.now() > deadline {
            return Err(CallError::new(Status::Timeout, "not all policies are published"));
        }
        host.sleep_until(host.now() + RETRY).await;
    }
}

/// Which policy is found, by what it does: every one takes another page of these first.
async fn which(stl: &Stl, wanted: &Wanted) -> CallResult<&'static str> {
    let policy: LeastRecentClient = wanted.find(stl).await?;
    for page in [1, 2, 3, 1, 2] {
        policy.touch(page).await?;
    }
    let mut left = Vec::new();
    for _ in 0..4 {
        left.push(policy.victim().await?);
    }
    match left.as_slice() {
        [3, 1, 2, 0] => Ok("least_recent"),
        [1, 2, 3, 0] => Ok("first_in"),
        [2, 1, 3, 0] => Ok("most_recent"),
        _ => Err(CallError::new(Status::Invalid, format!("no policy takes pages as {left:?}"))),
    }
}

async fn check_found(stl: &Stl, findings: &Findings) -> CallResult<()> {
    let order = |value| Attribute::text("order", value);
    for (wanted, name) in [
        (wanted().keyword("sequential"), "first_in"),
        (wanted().keyword("scan"), "most_recent"),
        (wanted().keyword("sequential").keyword("scan"), "first_in"),
        (wanted().keyword("sequential").keyword("scan").keyword("cyclic"), "most_recent"),
        (wanted().keyword("sequential").at_least("queue", 101), "most_recent"),
        (wanted().keyword("scan").at_most("queue", 100), "first_in"),
        (wanted().with(&order("use")), "most_recent"),
        (wanted().at_least("queue", 2001), "least_recent"),
        (wanted().keyword("random"), "least_recent"),
        (wanted().least("queue"), "first_in"),
        (wanted().keyword("scan").least("queue"), "most_recent"),
        (wanted().at_least("queue", 101).least("queue"), "most_recent"),
    ] {
        let found = which(stl, &wanted).await?;
        findings.check(found == name, format_args!("{found} is found by {wanted:?}"));
    }
    // Only those that keep buckets.
    let bucket = Wanted::of(&first_in::TYPE);
    for (wanted, name) in [
        (bucket.clone().keyword("cyclic"), "most_recent"),
        (bucket.clone().keyword("sequential"), "first_in"),
    ] {
        let found: FirstInClient = wanted.find(stl).await?;
        found.touch(1).await?;
        found.touch(2).await?;
        let first = found.victim().await?;
        found.victim().await?;
        let right = first == if name == "first_in" { 1 } else { 2 };
        findings.check(right, format_args!("page {first} leaves, of {name}"));
    }
    let unknown = bucket.keyword("locality").find::<FirstInClient>(stl).await.map(|_| ());
    expect(findings, unknown, Status::NotFound, "no instance");
    let many = wanted().keyword("scan").at_least("queue", 4097);
    let found = many.find::<LeastRecentClient>(stl).await.map(|_| ());
    expect(findings, found, Status::NotFound, "default");
    Ok(())
}

/// Highest first; who was told of later comes directly after who has the same priority.
async fn check_order(stl: &Stl, findings: &Findings) -> CallResult<()> {
    let registry = RegistryClient::find(stl).await?;
    let order = registry.order("eviction").await?;
    let names: Vec<_> = order.iter().map(|it| it.name.as_str()).collect();
    let listed = registry.list_all().await?;
    let mut low = listed
        .iter()
        .filter(|it| it.type_name == "eviction" || it.extends.iter().any(|it| it == "eviction"));
    let low = low.by_ref().map(|it| it.name.as_str()).filter(|name| *name != "least_recent");
    let expected: Vec<_> = ["least_recent"].into_iter().chain(low).collect();
    findings.check(names == expected && names.len() == 3, format_args!("the order is {names:?}"));
    let pages = |count| NamedValue::from(&Attribute::int("resident", count));
    let before = registry.share(OPERATOR, "eviction", Vec::new()).await?;
    registry.share(OPERATOR, "eviction", Vec::from([pages(64)])).await?;
    let after = registry.share(OPERATOR, "eviction", Vec::new()).await?;
    let kept = before == [pages(0)] && after == [pages(64)];
    findings.check(kept, format_args!("shared: {before:?}, then {after:?}"));
    Ok(())
}

/// What the registry of this node has an instance say of its expulsion, as soon as it says
/// anything; what the entry is if that takes too long.
pub async fn expelled(stl: &Stl, name: &str) -> CallResult<String> {
    let (host, registry) = (stl.host(), RegistryClient::find(stl).await?);
    let deadline = host.now() + PATIENCE;
    loop {
        let entry = registry.local_all().await?.into_iter().find(|it| it.name == name);
        let attributes = entry.iter().flat_map(|it| &it.attributes);
        if let Some(it) = attributes.clone().find(|it| it.name == EXPELLED) {
            return Ok(it.value.to_string());
        }
        if host.now() > deadline {
            return Err(CallError::new(Status::Timeout, format!("{name} is {entry:?}")));
        }
        host.sleep_until(host.now() + RETRY).await;
    }
}

/// What a subject is bound to, and what it was bound to before.
fn told(bound: &Binding) -> (&str, Option<&str>) {
    (&bound.name, bound.unbound.as_deref())
}

async fn check_bound(stl: &Stl, findings: &Findings) -> CallResult<()> {
    let registry = RegistryClient::find(stl).await?;
    let queue = |size| Vec::from([NamedValue::from(&Attribute::int("queue", size))]);
    let process = 7;
    let scans = wanted().keyword("scan");
    let bound = registry.bind(OPERATOR, process, scans, queue(4096)).await?;
    let right = bound.name == "most_recent" && bound.unbound.is_none();
    findings.check(right, format_args!("bound: {bound:?}"));
    let label = |text| NamedValue::written("label", text);
    for (parameters, why) in [
        (Vec::new(), "must be given"),
        (queue(0), "from 1 to 4096"),
        (Vec::from([NamedValue::written("queue", "long")]), "a whole number"),
        ([queue(5), Vec::from([label("much too long")])].concat(), "from 1 to 8"),
        ([queue(5), queue(6)].concat(), "twice"),
        ([queue(5), Vec::from([NamedValue::written("nice", "3")])].concat(), "nice"),
    ] {
        let refused = registry.bind(OPERATOR, process, wanted(), parameters).await;
        expect(findings, refused.map(|_| ()), Status::Invalid, why);
    }
    let labelled = [queue(5), Vec::from([label("8 bytes.")])].concat();
    let default = wanted().keyword("random");
    let bound = registry.bind(OPERATOR, process, default, labelled).await?;
    let right = told(&bound) == ("least_recent", Some("most_recent"));
    findings.check(right, format_args!("bound again: {bound:?}"));
    // Buckets take a parameter of their own, and are in the way of no pool.
    let threshold = NamedValue::from(&Attribute::int("threshold", 64));
    let with = [queue(5), Vec::from([threshold])].concat();
    let sequential = wanted().keyword("sequential");
    let bound = registry.bind(OPERATOR, process, sequential, with.clone()).await?;
    let right = told(&bound) == ("first_in", Some("least_recent"));
    findings.check(right, format_args!("bound to a bucket: {bound:?}"));
    let pool = wanted().keyword("random");
    let refused = registry.bind(OPERATOR, process, pool, with).await.map(|_| ());
    expect(findings, refused, Status::Invalid, "threshold");
    let unbound = registry.unbind(process, "eviction").await?;
    let again = registry.unbind(process, "eviction").await?;
    findings.check(unbound && !again, format_args!("unbound: {unbound}, then {again}"));
    Ok(())
}

/// Notes what does not fail with this status, and a message that says this.
pub fn expect(findings: &Findings, result: CallResult<()>, status: Status, says: &str) {
    let right = |error: &CallError| error.status == status && error.message.contains(says);
    let told = result.as_ref().is_err_and(right);
    findings.check(told, format_args!("not {status} with `{says}`, but {result:?}"));
}
