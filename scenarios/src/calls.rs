//! Calls to services: on the same core, on another one, by name and by a bound client, with right
//! and wrong arguments, from a service to another.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Status};
use nile_bosml::{Bytes, discovery};
use nile_kernel::Core;
use nile_platform::Machine;
use nile_services::ackermann::AckermannClient;
use nile_stl::{CallError, CallResult, Stl};

use crate::conduct::{Findings, conduct, conducts};
use crate::probe::{self, ProbeClient};

/// How long a core may take to publish its services.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long until a registry that restarts is told again.
const RETRY: Duration = Duration::from_millis(1);

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>) {
    serve(core);
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "calls", move |findings| async move {
            let stl = core.stl();
            for peer in core.peers() {
                if let Err(error) = check_core(&stl, peer, &findings).await {
                    findings.check(false, format_args!("core {peer}: {error}"));
                }
            }
            if let Err(error) = check_names(&stl, &findings).await {
                findings.check(false, format_args!("by name: {error}"));
            }
        });
    }
}

/// Starts the default services and the probe.
pub fn serve<M: Machine>(core: &Core<M>) {
    let defaults = nile_node::deploy(core);
    let owner = core.clone();
    core.spawn(async move {
        defaults.await;
        let Some(make) = probe::REGISTRATION.kernel else { return };
        loop {
            match owner.stl().publish(&probe::REGISTRATION, make).await {
                // The managing core restarts, and with it the registry.
                Err(error) if error.status == Status::Dead => owner.sleep(RETRY).await,
                Err(error) => return owner.machine().log(format_args!("no probe: {error}")),
                Ok(_) => return,
            }
        }
    });
}

/// The probe on one core, once it is published.
pub async fn probe_on(stl: &Stl, core: CoreId) -> CallResult<ProbeClient> {
    let host = stl.host();
    let deadline = host.now() + PATIENCE;
    loop {
        match ProbeClient::find_at(stl, core).await {
            Err(CallError { status: Status::NotFound | Status::Dead, .. })
                if host.now() < deadline =>
            {
                host.sleep_until(host.now() + Duration::from_micros(200)).await;
            }
            result => return result,
        }
    }
}

async fn check_core(stl: &Stl, core: CoreId, findings: &Findings) -> CallResult<()> {
    let probe = probe_on(stl, core).await?;
    findings.check(probe.core() == Some(core), format_args!("the probe of {core} is elsewhere"));
    for length in [0, 1, 16, 17, 64, 1000, 60_000] {
        let sent: Vec<u8> = (0..length).map(|place| (place * 7) as u8).collect();
        let back = probe.echo(Bytes::from(&*sent)).await?;
        findings.check(back.0 == sent, format_args!("{core} echoes {length} bytes wrongly"));
    }
    let too_much = alloc::vec![0; 70_000];
    let error = probe.echo(Bytes::from(&*too_much)).await.err();
    let refused = error.is_some_and(|error| error.status == Status::Invalid);
    // On the same core nothing is encoded, and nothing is too long.
    let local = core == stl.host().core();
    findings.check(refused != local, format_args!("{core} takes 70,000 bytes"));
    let own = u64::from(stl.host().core().0);
    let sum = probe.r#move(1, 20, 300, "four").await?;
    findings.check(sum == 325 + own, format_args!("{core} adds up to {sum}"));
    let error = probe.r#move(1, 1, 0, "").await.err();
    let told = error.is_some_and(|error| error.status == Status::Exists);
    findings.check(told, format_args!("{core} does not tell its own error"));
    findings.check(probe.relay(2, 3).await? == 9, format_args!("{core} relays wrongly"));
    let error = probe.relay(9, 9).await.err();
    let named = error.is_some_and(|it| it.status == Status::Invalid && it.message.contains('m'));
    findings.check(named, format_args!("{core}: a parameter out of range is not named"));
    let skipped = probe.skip_a_layer().await.err();
    let told = skipped
        .is_some_and(|error| error.status == Status::Denied && error.message.contains("skips"));
    findings.check(told, format_args!("{core}: a service skips a layer and is not told"));
    let slow = stl.with_patience(Duration::from_micros(300));
    let error = probe_on(&slow, core).await?.wait(5_000_000).await.err();
    let late = error.is_some_and(|error| error.status == Status::Timeout);
    findings.check(late != local, format_args!("{core}: a deadline passes without effect"));
    // The callee is told: it does not go on for nobody.
    let host = stl.host();
    let soon = host.now() + PATIENCE;
    while probe.waiting().await? != 0 && host.now() < soon {
        host.sleep_until(host.now() + Duration::from_micros(100)).await;
    }
    let left = probe.waiting().await?;
    findings.check(left == 0, format_args!("{core}: {left} calls go on that nobody waits for"));
    Ok(())
}

async fn check_names(stl: &Stl, findings: &Findings) -> CallResult<()> {
    let arguments = encoded(2, 3);
    let last = CoreId(stl.host().cores() as u16 - 1);
    for reply in [
        stl.invoke("ackermann", "compute", &arguments).await?,
        stl.invoke_at(last, "ackermann", "compute", &arguments).await?,
    ] {
        findings.check(reply == 9u64.to_le_bytes(), format_args!("ackermann says {reply:?}"));
    }
    let document = stl.discover("ackermann").await?;
    let schema = discovery::parse(&document)?;
    let names: Vec<_> = schema.methods.iter().map(|method| &*method.name).collect();
    findings.check(names == ["compute", "estimate"], format_args!("methods: {names:?}"));
    let typed = AckermannClient::find_at(stl, last).await?;
    findings.check(typed.compute(3, 3).await? == 61, format_args!("the bound client is wrong"));
    let document = stl.discover(probe::REGISTRATION.name()).await?;
    let schema = discovery::parse(&document)?;
    let moves = schema.method("move").map(|(_, method)| &*method.parameters[0].name);
    findings.check(moves == Some("type"), format_args!("the probe's move takes {moves:?}"));
    for (service, method, arguments, expected) in [
        ("nobody", "compute", &*arguments, Status::NotFound),
        ("ackermann", "nothing", &*arguments, Status::NotFound),
        ("ackermann", "compute", &arguments[..15], Status::Invalid),
        ("ackermann", "compute", &[0; 17], Status::Invalid),
        ("ackermann", "compute", &encoded(4, 0), Status::Invalid),
        ("ackermann", "estimate", &*arguments, Status::Denied),
    ] {
        for result in [
            stl.invoke(service, method, arguments).await,
            stl.invoke_at(last, service, method, arguments).await,
        ] {
            let got = result.map_err(|error| error.status);
            let as_expected = got == Err(expected);
            let call = format!("{service}.{method} {arguments:?}");
            findings.check(as_expected, format_args!("{call}: {got:?}, not {expected}"));
        }
    }
    Ok(())
}

fn encoded(m: u64, n: u64) -> Vec<u8> {
    [m.to_le_bytes(), n.to_le_bytes()].concat()
}
