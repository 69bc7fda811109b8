//! What it costs that policies decide: tasks take turns in a ring, as in lat_ctx, or talk to each
//! other in crowds, as in hackbench, first by the default and then bound to each policy.
//!
//! A figure is hundredths of a nanosecond (of an instruction where instructions are counted) for a
//! turn. `ring-2000/fair` is that of a ring whose tasks work for some 2,000 instructions a turn.

use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::Future;
use core::hint::black_box;

use nile_interfaces::policy_manager::PolicyManagerClient;
use nile_interfaces::registry::{RegistryClient, Wanted};
use nile_kernel::{Core, Join};
use nile_platform::Machine;
use nile_services::fair;
use nile_stl::{CallResult, Stl};
use nile_sync::{Notify, yield_now};

use crate::arguments::Arguments;
use crate::conduct::{Findings, conduct, conducts};
use crate::policies::{OPERATOR, PATIENCE, RETRY};

/// Tasks of the ring.
const TASKS: u64 = 64;

/// Steps of work in a turn, each of about four instructions.
const WORK: [(&str, u64); 2] = [("ring", 0), ("ring-2000", 500)];

/// Senders of each group of the crowd, and as many receivers.
const SENDERS: u64 = 20;
const GROUPS: u64 = 5;

/// The policies, and what each is found by. The default is bound to nothing.
const POLICIES: [(&str, &str); 4] =
    [("default", ""), ("fifo", "batch"), ("fair", "share"), ("real_time", "realtime")];

/// Whose the tasks are.
const SUBJECT: &str = "ring";

/// Starts this core's part: only the conductor has one.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    nile_node::deploy(core);
    let turns = arguments.number("turns", 100).max(1);
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "policy-cost", move |findings| async move {
            if let Err(error) = measure(&core, turns, &findings).await {
                findings.check(false, format_args!("no measurement: {error}"));
            }
        });
    }
}

async fn measure<M: Machine>(core: &Core<M>, turns: u64, findings: &Findings) -> CallResult<()> {
    let stl = core.stl();
    stl.host().subject(SUBJECT);
    let manager = found(&stl).await?;
    for (policy, word) in POLICIES {
        if !word.is_empty() {
            let wanted = Wanted::of(&fair::TYPE).keyword(word);
            let bound = manager.bind(OPERATOR, SUBJECT.into(), wanted, Vec::new()).await?;
            findings.check(bound.name == policy, format_args!("{policy} is {}", bound.name));
        }
        for (name, work) in WORK {
            // Once to warm up.
            ring(core, 2, work).await;
            let took = ring(core, turns, work).await;
            findings.figure(format!("{name}/{policy}"), took * 100 / (turns * TASKS));
        }
        crowd(core, 1).await;
        let took = crowd(core, turns).await;
        findings.figure(format!("crowd/{policy}"), took * 100 / (turns * SENDERS * GROUPS));
    }
    manager.unbind(SUBJECT.into()).await?;
    Ok(())
}

/// The policy manager of this core, once all is published.
async fn found(stl: &Stl) -> CallResult<PolicyManagerClient> {
    let host = stl.host();
    let deadline = host.now() + PATIENCE;
    loop {
        let registry = RegistryClient::find(stl).await?;
        let is_there = registry.order(&fair::TYPE.name).await.is_ok_and(|all| all.len() == 4);
        match PolicyManagerClient::find(stl).await {
            Ok(manager) if is_there => return Ok(manager),
            Err(error) if host.now() > deadline => return Err(error),
            _ => host.sleep_until(host.now() + RETRY).await,
        }
    }
}

/// Starts tasks as the subject's.
fn spawn<M: Machine>(
    core: &Core<M>,
    tasks: impl Iterator<Item = impl Future<Output = ()> + 'static>,
) -> Vec<Join<()>> {
    let stl = core.stl();
    let host = stl.host();
    let before = host.act_as(host.subject(SUBJECT));
    let joins = tasks.map(|task| core.spawn(task)).collect();
    host.act_as(before);
    joins
}

/// How long tasks take that each have so many turns, one after the other.
async fn ring<M: Machine>(core: &Core<M>, turns: u64, work: u64) -> u64 {
    let start = core.now();
    let tasks = (0..TASKS).map(|_| async move {
        for _ in 0..turns {
            for step in 0..work {
                black_box(step);
            }
            yield_now().await;
        }
    });
    for task in spawn(core, tasks) {
        task.await;
    }
    core.now().since(start).as_nanos() as u64
}

/// What a sender has for the receivers of its group.
type Mail = Rc<(RefCell<u64>, Notify)>;

/// How long groups take in which each sender sends so many messages to the group's receivers.
async fn crowd<M: Machine>(core: &Core<M>, messages: u64) -> u64 {
    let start = core.now();
    let mut joins = Vec::new();
    for _ in 0..GROUPS {
        let mail: Mail = Rc::default();
        let senders = (0..SENDERS).map(|_| {
            let mail = mail.clone();
            async move {
                for _ in 0..messages {
                    *mail.0.borrow_mut() += 1;
                    mail.1.notify();
                    yield_now().await;
                }
            }
        });
        let sent = spawn(core, senders);
        let receivers = (0..SENDERS).map(|_| {
            let mail = mail.clone();
            async move {
                for _ in 0..messages {
                    let take = || {
                        let mut waiting = mail.0.borrow_mut();
                        *waiting = waiting.checked_sub(1)?;
                        Some(())
                    };
                    mail.1.until(take).await;
                }
            }
        });
        joins.extend(sent);
        joins.extend(spawn(core, receivers));
    }
    for join in joins {
        join.await;
    }
    core.now().since(start).as_nanos() as u64
}
