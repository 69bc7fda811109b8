//! A package that checks the service transport layer from user mode: methods of user mode cost no
//! system call, those of the kernel cost one, errors come back with their reasons. Then it offers
//! a service, or calls the one that another core's package offers.
//!
//! Its argument is `core=N` and then `serve`, `call`, `attack` and the names of services, with
//! commas between, or the name of a scheduling policy, which it publishes. It exits with 0, or with
//! the number of the first check that failed; an attack, with [`ATTACKED`] and how many methods
//! have refused it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod attack;
pub mod counter;
mod policies;

use nile_abi::call::System;
use nile_abi::{CoreId, Status};
use nile_services::ackermann::{self, AckermannClient};
use nile_stl::CallResult;
use nile_user::{Runtime, Services, with_services};

use counter::CounterClient;

/// Calls in user mode.
const CALLS: u64 = 100;

/// What an attack exits with, besides how many methods have refused it.
pub const ATTACKED: u64 = 1000;

/// What the package whose service is called counts to.
pub const TOTAL: u64 = 30;

/// Runs the checks.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    let argument = core::str::from_utf8(argument).unwrap_or_default();
    let mut words = argument.split(' ');
    let core = words.next().and_then(|word| word.strip_prefix("core=")?.parse().ok());
    let Some(core) = core.map(CoreId) else { return 1 };
    let runtime = Runtime::new(system);
    with_services(&runtime, core, |services| {
        let installed = ackermann::REGISTRATION
            .user
            .map(|make| services.stl().install(&ackermann::REGISTRATION, make));
        if !matches!(installed, Some(Ok(_))) {
            return 2;
        }
        let checks: [fn(&Runtime<'_>, &Services) -> Option<()>; 4] =
            [in_user_mode, in_the_kernel, refused, elsewhere];
        for (number, check) in (10..).zip(checks) {
            if check(&runtime, services).is_none() {
                return number;
            }
        }
        match words.next() {
            Some("serve") => counter::serve(&runtime, services),
            Some("call") => call_the_other(services),
            Some("attack") => {
                let names = words.next().unwrap_or_default();
                let refused = services.block_on(attack::refused(services.stl(), names));
                refused.map_or(4, |count| ATTACKED + count)
            }
            Some(policy) => policies::serve(&runtime, services, policy),
            _ => 3,
        }
    })
}

fn holds(condition: bool) -> Option<()> {
    condition.then_some(())
}

/// Methods of user mode are called without a system call, by a client and by name.
fn in_user_mode(runtime: &Runtime<'_>, services: &Services) -> Option<()> {
    let before = runtime.system_calls();
    services.block_on(async {
        let ackermann = AckermannClient::find(services.stl()).await.ok()?;
        for _ in 0..CALLS {
            holds(ackermann.estimate(2, 3).await == Ok(9))?;
        }
        let arguments = [2u64.to_le_bytes(), 3u64.to_le_bytes()].concat();
        let reply = services.stl().invoke("ackermann", "estimate", &arguments).await;
        holds(reply.ok()? == 9u64.to_le_bytes())
    })?;
    holds(runtime.system_calls() == before)
}

/// Methods of the kernel are relayed by one system call each.
fn in_the_kernel(runtime: &Runtime<'_>, services: &Services) -> Option<()> {
    let before = runtime.system_calls();
    services.block_on(async {
        let ackermann = AckermannClient::find(services.stl()).await.ok()?;
        for _ in 0..3 {
            holds(ackermann.compute(2, 3).await == Ok(9))?;
        }
        Some(())
    })?;
    holds(runtime.system_calls() == before + 3)
}

/// Errors say why, wherever they come from.
fn refused(_: &Runtime<'_>, services: &Services) -> Option<()> {
    let stl = services.stl();
    services.block_on(async {
        let ackermann = AckermannClient::find(stl).await.ok()?;
        for result in [ackermann.compute(9, 9).await, ackermann.estimate(9, 9).await] {
            let error = result.err()?;
            holds(error.status == Status::Invalid && error.message.contains("m is 9"))?;
        }
        // The registry is two layers down: not for users.
        let error = stl.discover("registry").await.err()?;
        holds(error.status == Status::Denied && error.message.contains("high only"))?;
        let error = stl.invoke("nobody", "nothing", &[]).await.err()?;
        holds(error.status == Status::NotFound)?;
        let error = stl.invoke_at(CoreId::BOOT, "probe", "next", &[]).await.err()?;
        holds(error.status == Status::Denied)
    })
}

/// A service that is on other cores only, or on all, is called like any other.
fn elsewhere(_: &Runtime<'_>, services: &Services) -> Option<()> {
    let number = 41u64.to_le_bytes();
    let next = services.block_on(services.stl().invoke("probe", "next", &number));
    holds(next.ok()? == 42u64.to_le_bytes())
}

/// Calls the service that another core's package offers, once it does: user mode to user mode.
fn call_the_other(services: &Services) -> u64 {
    let counted: CallResult<u64> = services.block_on(async {
        let stl = services.stl();
        let host = stl.host();
        let mut last = 0;
        for _ in 0..TOTAL {
            last = loop {
                let counter = CounterClient::find(stl).await?;
                match counter.add(1).await {
                    Err(error) if error.status == Status::NotFound => {
                        let later = host.now() + core::time::Duration::from_micros(200);
                        host.sleep_until(later).await;
                    }
                    result => break result?,
                }
            };
        }
        Ok(last)
    });
    match counted {
        Ok(total) if total >= TOTAL => 0,
        Ok(_) => 20,
        Err(error) => 30 + u64::from(error.status.code()),
    }
}
