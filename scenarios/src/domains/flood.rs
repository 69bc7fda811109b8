//! A domain sends frames without end to another one: what its supervisor moves of them is charged
//! to it, and no more than its limit says. Without a limit, the control, it is as much as there is
//! room for.

use alloc::boxed::Box;
use alloc::format;
use core::time::Duration;

use nile_abi::MacAddress;
use nile_domain::{Command, Create, LimitChange, Limits, Name, Way};
use nile_platform::domains::{Bridge, LedgerWords, rfloop};
use nile_platform::interface::Traffic;
use nile_platform::{Attack, Interface, Machine, Manager};

use super::guest::Say;
use super::supervise::Running;
use super::tell;
use crate::conduct::Findings;

/// What the flooding domain may send: bytes a second, and at once.
const RATE: u64 = 4 << 10;
const BURST: u64 = 2 << 10;

/// How long the flood may take to end.
const LONG: Duration = Duration::from_secs(5);

/// An interface to nowhere.
pub struct Nowhere;

impl Interface for Nowhere {
    fn address(&self) -> MacAddress {
        MacAddress([2, 0, 0, 0, 1, 0])
    }

    fn max_frame(&self) -> usize {
        rfloop::MAX_FRAME
    }

    fn is_ready(&self) -> bool {
        false
    }

    fn receive(&self, _: usize, _: &mut dyn FnMut(&[u8])) -> usize {
        0
    }

    fn transmit(&self, fill: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> bool {
        let mut frame = [0; rfloop::MAX_FRAME];
        while fill(&mut frame).is_some() {}
        true
    }

    fn traffic(&self) -> Traffic {
        Traffic::default()
    }
}

/// A bridge between domains alone, which whoever has it turns by hand.
pub fn bridge<M: Machine>(running: &Running<M>, places: &[u8]) -> Option<impl Interface + use<M>> {
    let core = running.core.clone();
    let domains = core.machine().manager()?.domains()?;
    let ledger = LedgerWords(domains.ledger());
    let port = |slot: &u8| Some((domains.seat(*slot)?.frames(), ledger.toll(Way::Network, *slot)?));
    let ports: alloc::vec::Vec<_> = places.iter().map_while(port).collect();
    let clock = running.core.clone();
    Some(Bridge::new(Box::new(Nowhere), ports.into_iter(), 0, |_| (), move || clock.now()))
}

/// What came of a flood.
pub struct Flooded {
    /// Bytes that were moved, and that the limit allows, whether it holds or not.
    pub moved: u64,
    pub allowed: u64,
    /// Frames that were dropped.
    pub dropped: u64,
}

/// Has the domain in the first place flood the second one, perhaps with a limit. What it answers is
/// in `running`.
pub async fn flood<M: Machine>(
    running: &mut Running<M>,
    name: Name,
    is_limited: bool,
) -> Option<Flooded> {
    let bridge = bridge(running, &[1, 2])?;
    let rate = Some(if is_limited { RATE } else { 0 });
    let change = LimitChange { rate, burst: Some(BURST), weight: None };
    running.engine.supervisor.limit(name, Way::Network, change).ok()?;
    let before = running.ledger().carried(Way::Network, 1);
    running.answer = None;
    let mut cell = [0; 9];
    cell[0] = Attack::FloodFrames as u8;
    running.say(1, &Say::Attack.cell(&cell));
    let begun = running.core.now();
    let moves = |it: &Running<M>| {
        bridge.receive(rfloop::SLOTS as usize, &mut |_| ());
        it.answer.is_some()
    };
    running.until(LONG, moves).await;
    let micros = running.core.now().since(begun).as_micros() as u64;
    let carried = running.ledger().carried(Way::Network, 1);
    let none = LimitChange { rate: Some(0), ..LimitChange::default() };
    running.engine.supervisor.limit(name, Way::Network, none).ok()?;
    Some(Flooded {
        moved: carried.bytes - before.bytes,
        allowed: BURST + RATE * micros / 1_000_000,
        dropped: carried.dropped - before.dropped,
    })
}

/// Checks that a limit holds, and that without it there is something to hold.
pub async fn check<M: Machine>(running: &mut Running<M>, findings: &Findings, units: u32) {
    let [Some(red), Some(blue)] = [b"red".as_slice(), b"blue"].map(Name::new) else { return };
    let limits = Limits { cores: (1, 1), units: (1, units), priority: 0 };
    for name in [red, blue] {
        let create = Create { name, cores: 1, units, limits, device: None };
        let made = running.carry_out(&Command::Create(create)).await;
        findings.expect(made, &format!("{name}, before the flood"));
    }
    for is_limited in [true, false] {
        let how = if is_limited { "limited" } else { "unlimited" };
        let Some(Flooded { moved, allowed, dropped }) = flood(running, red, is_limited).await
        else {
            return findings.check(false, format_args!("no flood, {how}"));
        };
        findings.check(
            is_limited == (moved <= allowed) && moved > 0 && dropped > 0,
            format_args!("{how}: {moved} bytes are moved, {allowed} allowed, {dropped} dropped"),
        );
        findings.figure(format!("flood_{how}_bytes"), moved);
        let answer = tell(running, 2, &Say::Compute.cell(&[2, 3])).await;
        findings.check(answer == Some(9), format_args!("{how}: the flooded domain is gone"));
    }
    for name in [red, blue] {
        let ended = running.carry_out(&Command::Destroy { name, force: false }).await;
        findings.expect(ended, &format!("the end of {name}"));
    }
}
