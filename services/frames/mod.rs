//! Frames for the package that serves this node's network (docs/network.md): what comes of IPv4,
//! ARP and IPv6 waits here for it, like in a device's ring, and what it sends goes out on the
//! core's line. The service outlives the package: what comes while that begins anew waits a while.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::ethernet::HEADER_BYTES;
use nile_abi::ip::{ARP, Addresses, IPV4, IPV6, Wide};
use nile_abi::{CoreId, Instant, MacAddress, Status, Window};
use nile_bosml::{Blob, Bytes};
use nile_interfaces::frames::{Attachment, FrameBatch, FrameCounts, FramesKernel, pack, unpack};
use nile_interfaces::packages::{PackagePhase, PackageState, PackagesClient};
use nile_registry::Caller as Binder;
use nile_stl::{CallError, CallResult, Caller, Start, Stl, service};
use nile_sync::Notify;

use crate::cluster;
use crate::line::{Line, Protocol};

/// Frames that may wait, each way.
const MOST_WAITING: usize = 512;

/// How long a frame may wait for the package.
const FRESH: Duration = Duration::from_secs(3);

/// The frames of this core's line.
pub struct Frames {
    stl: Stl,
    port: RefCell<Option<Rc<Port>>>,
}

/// Where frames wait.
struct Port {
    line: Rc<Line>,
    holder: Cell<Option<Holder>>,
    /// What the package is called that has the frames.
    name: RefCell<String>,
    inbound: RefCell<VecDeque<(Instant, Vec<u8>)>>,
    outbound: RefCell<VecDeque<Vec<u8>>>,
    /// Something has come, or the holder is another one.
    changes: Notify,
    counts: Cell<FrameCounts>,
}

/// Who has the frames.
#[derive(Clone, Copy)]
struct Holder {
    core: CoreId,
    ticket: u64,
}

impl Start for Frames {
    fn start(stl: &Stl) -> Frames {
        Frames { stl: stl.acting_as(Binder::Operator), port: RefCell::default() }
    }
}

#[service(on = network, keywords(frames = 5, network = 3, ethernet = 2))]
impl FramesKernel for Frames {
    async fn attach(&self, caller: &Caller) -> CallResult<Attachment> {
        let core = caller.own_core()?;
        let port = self.port()?;
        // Calls do not say which package of a core makes them: the kernel lets no other one attach,
        // and one does so when it begins.
        let own = self.packages_of(core).await?.into_iter().min_by_key(|it| it.since_us);
        let Some(own) = own else {
            let message = "frames are for packages that stay and whose manifest says `uses \
                           frames`";
            return Err(CallError::new(Status::Denied, message));
        };
        if let Some(holder) = port.holder.get().filter(|it| it.core != core) {
            let there = self.packages_of(holder.core).await?;
            let name = port.name.borrow();
            if there.iter().any(|it| it.name == *name) {
                let message = format!("{name} on {} has them", holder.core);
                return Err(CallError::new(Status::Exists, message));
            }
        }
        let node = self.stl.node()?;
        let mut drawn = [[0; 8]; 3];
        // What is not random on a machine without a source is at least not said before.
        if !drawn.iter_mut().all(|it| node.entropy(it)) {
            let now = self.stl.host().now().as_nanos();
            drawn = [now, now.rotate_left(21), now.rotate_left(42)].map(u64::to_le_bytes);
        }
        let [ticket, seed, salt] = drawn.map(u64::from_le_bytes);
        port.holder.set(Some(Holder { core, ticket }));
        *port.name.borrow_mut() = own.name;
        port.changes.notify();
        let interface = port.line.interface();
        let [a, b, c, d, e, f] = interface.address().0;
        let own = cluster::node(&self.stl);
        let member = cluster::member(&self.stl);
        let addresses = member.as_ref().map_or(Addresses::USUAL, |it| it.addresses);
        let leases = member.as_ref().is_some_and(|it| it.leases);
        let wide = member.as_ref().map_or(Wide::None, |it| it.wide);
        let own_wide = match wide {
            Wide::From(all) => all.address_of(own).map(|it| (it.to_bits(), all.prefix())),
            Wide::None | Wide::Advertised => None,
        };
        let (wide_bits, wide_prefix) = own_wide.unwrap_or_default();
        let rules = member.map_or_else(String::new, |it| String::from(&*it.rules));
        Ok(Attachment {
            ticket,
            node: own.0,
            address: addresses.address_of(own).map_or(0, |it| it.to_bits()),
            prefix: addresses.prefix(),
            gateway: addresses.gateway().to_bits(),
            leases,
            wide_high: (wide_bits >> 64) as u64,
            wide_low: wide_bits as u64,
            wide_prefix,
            advertised: wide == Wide::Advertised,
            rules,
            mac: u64::from_be_bytes([0, 0, a, b, c, d, e, f]),
            max_frame: u32::try_from(interface.max_frame()).unwrap_or(u32::MAX),
            seed,
            salt,
        })
    }

    async fn exchange(
        &self,
        caller: &Caller,
        ticket: u64,
        frames: Bytes<'_>,
        patience_us: u32,
    ) -> CallResult<FrameBatch> {
        let core = caller.own_core()?;
        let port = self.port()?;
        let denied = || CallError::new(Status::Denied, "another incarnation has the frames");
        let holds = |port: &Port| {
            port.holder.get().is_some_and(|it| (it.core, it.ticket) == (core, ticket))
        };
        if !holds(&port) {
            return Err(denied());
        }
        port.send(&frames.0);
        let host = self.stl.host();
        let until = host.now() + Duration::from_micros(patience_us.into());
        let comes = port.changes.until(|| {
            let has_come = !port.inbound.borrow().is_empty();
            (has_come || !holds(&port)).then_some(())
        });
        if patience_us > 0 {
            nile_sync::first(comes, host.sleep_until(until)).await;
        }
        if !holds(&port) {
            return Err(denied());
        }
        Ok(FrameBatch { frames: Blob(port.take(host.now())) })
    }

    fn counts(&self) -> CallResult<FrameCounts> {
        Ok(self.port.borrow().as_ref().map(|port| port.counts.get()).unwrap_or_default())
    }
}

impl Frames {
    /// The port of this core's line; it is attached when a package first asks.
    fn port(&self) -> CallResult<Rc<Port>> {
        if let Some(port) = &*self.port.borrow() {
            return Ok(port.clone());
        }
        let port = Rc::new(Port {
            line: Line::of(&self.stl)?,
            holder: Cell::default(),
            name: RefCell::default(),
            inbound: RefCell::default(),
            outbound: RefCell::default(),
            changes: Notify::default(),
            counts: Cell::default(),
        });
        port.line.attach(IPV4, &port);
        port.line.attach(ARP, &port);
        port.line.attach(IPV6, &port);
        *self.port.borrow_mut() = Some(port.clone());
        Ok(port)
    }

    /// The packages on a core of this node that may have frames.
    async fn packages_of(&self, core: CoreId) -> CallResult<Vec<PackageState>> {
        let places = cluster::places(&self.stl, "packages").await?;
        let is_it = |place: &nile_stl::Place| place.is_here() && place.core == core;
        let place = places.into_iter().map(|it| it.1).find(is_it);
        let Some(place) = place else { return Ok(Vec::new()) };
        let mut packages = PackagesClient::at(&self.stl, place).list().await?;
        packages.retain(may_have);
        Ok(packages)
    }
}

impl Port {
    fn count(&self, change: impl FnOnce(&mut FrameCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// Has frames of the package sent.
    fn send(&self, batch: &[u8]) {
        if batch.is_empty() {
            return;
        }
        let interface = self.line.interface();
        let (own, most) = (interface.address(), interface.max_frame());
        for frame in unpack(batch) {
            let mut outbound = self.outbound.borrow_mut();
            match may_send(frame, own, most) && outbound.len() < MOST_WAITING {
                true => outbound.push_back(frame.into()),
                false => self.count(|it| it.refused += 1),
            }
        }
        self.line.flush();
    }

    /// What has come, as much as one call carries.
    fn take(&self, now: Instant) -> Vec<u8> {
        let mut batch = Vec::new();
        let mut inbound = self.inbound.borrow_mut();
        while let Some((at, frame)) = inbound.front() {
            if now.since(*at) > FRESH {
                self.count(|it| it.dropped += 1);
            } else if pack(&mut batch, frame) {
                self.count(|it| it.received += 1);
            } else {
                break;
            }
            inbound.pop_front();
        }
        batch
    }
}

/// Whether a package that stays may have frames, or none that does: an operator has given it its
/// core, and it says itself what for.
fn may_have(package: &PackageState) -> bool {
    package.uses_frames && package.state == PackagePhase::Runs
}

/// Whether a package may send a frame: what is of other protocols is the kernel's to send, and what
/// says to come from another interface is nobody's.
fn may_send(frame: &[u8], own: MacAddress, most: usize) -> bool {
    let Some((header, _)) = frame.split_first_chunk::<HEADER_BYTES>() else { return false };
    let kind = u16::from_be_bytes([header[12], header[13]]);
    matches!(kind, IPV4 | ARP | IPV6) && frame.len() <= most && header[6..12] == own.0
}

impl Protocol for Port {
    fn receive(&self, now: Instant, frame: &[u8]) {
        let mut inbound = self.inbound.borrow_mut();
        match inbound.len() < MOST_WAITING {
            true => inbound.push_back((now, frame.into())),
            false => self.count(|it| it.dropped += 1),
        }
    }

    fn turn(self: Rc<Self>, _: Instant) {
        if !self.inbound.borrow().is_empty() {
            self.changes.notify();
        }
    }

    fn transmit(&self, _: Instant, frame: &mut [u8]) -> Option<usize> {
        let next = self.outbound.borrow_mut().pop_front()?;
        frame.get_mut(..next.len())?.copy_from_slice(&next);
        self.count(|it| it.sent += 1);
        Some(next.len())
    }

    fn next_due(&self, _: Instant) -> Option<Window> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn frames_are_for_packages_that_stay_and_say_so() {
        let package = |uses_frames, state| PackageState {
            name: "web".into(),
            source: "web".into(),
            state,
            number: 1,
            begun: 1,
            since_us: 0,
            former: None,
            said: String::new(),
            uses_frames,
            memory_bytes: 0,
            busy_us: 0,
            system_calls: 0,
        };
        assert!(may_have(&package(true, PackagePhase::Runs)));
        assert!(!may_have(&package(false, PackagePhase::Runs)));
        assert!(!may_have(&package(true, PackagePhase::Ends)));
    }

    #[test]
    fn only_frames_of_ip_from_the_own_address_are_sent() {
        const OWN: MacAddress = MacAddress([2, 0, 0, 0, 1, 0]);
        const MOST: usize = 1514;
        let frame = |from: MacAddress, kind: u16, bytes: usize| {
            let mut frame = vec![0xff; bytes];
            frame[6..12].copy_from_slice(&from.0);
            frame[12..14].copy_from_slice(&kind.to_be_bytes());
            frame
        };
        for kind in [IPV4, ARP, IPV6] {
            assert!(may_send(&frame(OWN, kind, MOST), OWN, MOST));
            assert!(may_send(&frame(OWN, kind, HEADER_BYTES), OWN, MOST));
            assert!(!may_send(&frame(OWN, kind, MOST + 1), OWN, MOST));
            assert!(!may_send(&frame(MacAddress([2, 0, 0, 0, 2, 0]), kind, 60), OWN, MOST));
        }
        for kind in [nile_abi::ethernet::CALLS, nile_abi::ethernet::BULK, 0x8100, 0] {
            assert!(!may_send(&frame(OWN, kind, 60), OWN, MOST));
        }
        assert!(!may_send(&frame(OWN, IPV4, 60)[..13], OWN, MOST) && !may_send(&[], OWN, MOST));
    }
}
