//! The thread that has frames exchanged, and wakes those that wait for what they bring. While
//! another thread can go on it only looks what has come; else the package waits in its call.

use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Instant;
use nile_bosml::Bytes;
use nile_interfaces::frames::{pack, unpack};
use nile_net::OWN_PORTS;
use nile_stl::CallResult;

use super::own::{Own, keep_lease};
use super::rules::Kept;
use super::{Network, Way, shown};
use crate::Services;

/// How long it waits for frames before it looks whether anybody calls the package.
const LOOK: Duration = Duration::from_millis(20);

/// How often what is shown is brought up to date.
const SHOWN: Duration = Duration::from_millis(100);

/// How long a connection of an earlier incarnation waits for a listener.
const UNCLAIMED: Duration = Duration::from_secs(5);

/// Starts it. The filter has its rules before anything comes.
pub fn start<'s>(network: &Network<'s>, services: &Services) -> CallResult<()> {
    let (stl, network) = (services.stl().clone(), network.clone());
    let shown = shown::Shown::of(&stl)?;
    let Way::Own(own) = &network.0.way else { return Ok(()) };
    let now = stl.host().now();
    let mut stack = own.stack.borrow_mut();
    let runtime = network.0.runtime.clone();
    let rules = Kept::open(&runtime, shown.clone(), (&mut stack, now), &own.rules);
    drop(stack);
    runtime.clone().spawn(move |runtime| {
        let host = stl.host();
        let Way::Own(own) = &network.0.way else { return };
        let mut pump = Pump { network: &network, own, rules, left: None, looked: host.now() };
        let mut update = pump.looked;
        loop {
            if let Err(failure) = pump.exchange(|| host.now()) {
                *network.0.failure.borrow_mut() = Some(failure);
                network.0.changed.wake_all(runtime);
                return;
            }
            let now = network.0.now.get();
            pump.sort(now);
            if now >= update {
                let name = || network.0.name.clone();
                shown.update(now, &own.stack.borrow(), |_| name(), |_| name());
                update = now + SHOWN;
            }
            network.0.changed.wake_all(runtime);
            pump.look(now);
            runtime.yield_now();
        }
    });
    Ok(())
}

struct Pump<'a, 's> {
    network: &'a Network<'s>,
    own: &'a Own<'s>,
    rules: Kept<'s>,
    /// What the last batch had no room for.
    left: Option<Vec<u8>>,
    /// When it was looked last whether anybody calls.
    looked: Instant,
}

impl Pump<'_, '_> {
    /// Has what is to go sent, and what has come given to the stack. Waits for the first of that,
    /// if there is nothing else to do.
    fn exchange(&mut self, time: impl Fn() -> Instant) -> CallResult<()> {
        let inner = &self.network.0;
        let mut batch = Vec::new();
        let mut due = LOOK;
        {
            let mut stack = self.own.stack.borrow_mut();
            let now = inner.now.get();
            stack.turn(now);
            while let Some(frame) = self.left.take().or_else(|| stack.transmit()) {
                if !pack(&mut batch, &frame) {
                    self.left = Some(frame);
                    break;
                }
            }
            let first = [stack.next_due(now), inner.runtime.next_sleeper()];
            for at in first.into_iter().flatten() {
                due = due.min(at.since(now));
            }
        }
        if self.left.is_some() || inner.runtime.has_ready() {
            due = Duration::ZERO;
        }
        let batch = Bytes(batch[..].into());
        let came = self.own.frames.exchange(self.own.ticket, batch, due.as_micros() as u32);
        let came = inner.runtime.block_on(came)?;
        let now = time();
        inner.now.set(now);
        let mut stack = self.own.stack.borrow_mut();
        self.rules.apply(now, &mut stack);
        unpack(&came.frames.0).for_each(|frame| stack.receive(now, frame));
        keep_lease(&stack, self.own.lease, now);
        Ok(())
    }

    /// Gives connections that have come about to their listeners.
    fn sort(&self, now: Instant) {
        let inner = self.own;
        let mut backlogs = inner.backlogs.borrow_mut();
        let mut unclaimed = inner.unclaimed.borrow_mut();
        while let Some(stream) = inner.stack.borrow_mut().next_fresh() {
            let port = stream.peer().local;
            match backlogs.get_mut(&port) {
                Some(backlog) => backlog.push_back(stream),
                // Whoever has opened it is no more.
                None if OWN_PORTS.contains(&port) => stream.abort(),
                None => unclaimed.push((now, stream)),
            }
        }
        for (_, stream) in unclaimed.extract_if(.., |it| now.since(it.0) > UNCLAIMED) {
            stream.abort();
        }
    }

    /// Looks for calls to the package and for threads whose time has come: not each time, as it
    /// takes a system call.
    fn look(&mut self, now: Instant) {
        let runtime = &self.network.0.runtime;
        let is_due = runtime.next_sleeper().is_some_and(|at| at <= now);
        if is_due || now.since(self.looked) >= LOOK {
            runtime.look(now);
            self.looked = now;
        }
    }
}
