//! What is plugged into the switch, by name. A cable with a name stays when who was plugged in
//! goes away, with its faults, its side of a partition and its counts: a node that restarts finds
//! it as it was. The cables of peers, who are many and have one name, go with them.

use nile_abi::{MacAddress, NodeId};
use nile_switch::{Link, PortId, Switch};

use super::control::LinkStatus;
use super::fault::Fault;
use crate::nearest::suggestion;

/// The name that many may have at once: programs that look at the cluster or call its services.
pub const PEER: &str = "peer";

/// The most cables.
const LIMIT: usize = 4096;

/// The switch and its cables.
pub struct Cables {
    /// The switch.
    pub switch: Switch,
    /// In the order of ports.
    cables: Vec<Option<Cable>>,
    /// What a new cable is like.
    link: Link,
}

struct Cable {
    name: String,
    port: PortId,
    up: bool,
    side: Option<usize>,
}

impl Cables {
    /// No cables, on a switch whose faults are drawn from `seed`.
    pub fn new(seed: u64) -> Cables {
        Cables { switch: Switch::new(seed), cables: Vec::new(), link: Link::PERFECT }
    }

    /// Plugs in who is called `name`. Who was plugged in under this name, unless it is a peer's,
    /// has to be unplugged before.
    pub fn plug(&mut self, name: &str) -> Result<PortId, String> {
        let known = self.iter().find(|cable| cable.name == name && name != PEER);
        if let Some(port) = known.map(|cable| cable.port) {
            self.set_up(port, true);
            return Ok(port);
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !(1..=64).contains(&name.len()) || !name.chars().all(plain) {
            let begin: String = name.chars().take(64).collect();
            return Err(format!("{begin:?} is no name for a link; write it as n1, or n1.2"));
        }
        if self.iter().count() >= LIMIT {
            return Err(format!("there are {LIMIT} links; there cannot be more"));
        }
        let port = self.switch.attach();
        self.switch.set_link(port, self.link);
        if let Some(address) = address(name) {
            self.switch.own(port, address);
        }
        if self.cables.len() <= port.index() {
            self.cables.resize_with(port.index() + 1, || None);
        }
        let cable = Cable { name: name.into(), port, up: true, side: None };
        self.cables[port.index()] = Some(cable);
        Ok(port)
    }

    /// Pulls the cable out of who is behind `port`.
    pub fn unplug(&mut self, port: PortId) {
        match self.cables.get_mut(port.index()) {
            Some(place) if place.as_ref().is_some_and(|cable| cable.name == PEER) => {
                *place = None;
                self.switch.detach(port);
            }
            _ => self.set_up(port, false),
        }
    }

    /// The port of the cable `name`.
    pub fn port(&self, name: &str) -> Option<PortId> {
        self.iter().find(|cable| cable.name == name).map(|cable| cable.port)
    }

    /// Sets a fault of the cables that `link` names, or of all and those to come.
    pub fn set_fault(&mut self, fault: Fault, link: Option<&str>) -> Result<(), String> {
        let ports = match link {
            Some(name) => self.named(name)?,
            None => {
                fault.apply(&mut self.link);
                self.iter().map(|cable| cable.port).collect()
            }
        };
        for port in ports {
            let mut link = self.switch.link(port);
            fault.apply(&mut link);
            self.switch.set_link(port, link);
        }
        Ok(())
    }

    /// Parts the cables named in different `sides`. Nothing changes if a name is unknown, or one
    /// cable on two sides.
    pub fn partition(&mut self, sides: &[Vec<String>]) -> Result<(), String> {
        let ports = |side: &Vec<String>| -> Result<Vec<PortId>, String> {
            Ok(side.iter().map(|name| self.named(name)).collect::<Result<Vec<_>, _>>()?.concat())
        };
        let sides: Vec<Vec<PortId>> = sides.iter().map(ports).collect::<Result<_, _>>()?;
        let sides_of = |port| sides.iter().filter(|side| side.contains(&port)).count();
        if let Some(cable) = self.iter().find(|cable| sides_of(cable.port) > 1) {
            return Err(format!("link `{}` is on two sides; name it on one", cable.name));
        }
        for cable in self.cables.iter_mut().flatten() {
            cable.side = sides.iter().rposition(|side| side.contains(&cable.port));
        }
        self.switch.partition(&sides.iter().map(Vec::as_slice).collect::<Vec<_>>());
        Ok(())
    }

    /// Ends the partition.
    pub fn heal(&mut self) {
        self.cables.iter_mut().flatten().for_each(|cable| cable.side = None);
        self.switch.heal();
    }

    /// Every cable, in the order of names.
    pub fn statuses(&self) -> Vec<LinkStatus> {
        let status = |cable: &Cable| LinkStatus {
            name: cable.name.clone(),
            up: cable.up,
            side: cable.side,
            faults: Fault::of(&self.switch.link(cable.port)),
            counts: self.switch.counts(cable.port),
        };
        let mut statuses: Vec<LinkStatus> = self.iter().map(status).collect();
        statuses.sort_by(|one, other| one.name.cmp(&other.name));
        statuses
    }

    /// The ports of `name` and of every `name.…`.
    fn named(&self, name: &str) -> Result<Vec<PortId>, String> {
        let part = |cable: &&Cable| {
            let rest = cable.name.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let ports: Vec<PortId> = self.iter().filter(part).map(|cable| cable.port).collect();
        let names = self.iter().map(|cable| cable.name.as_str());
        match ports.is_empty() {
            true => Err(format!("no link `{name}`; {}", suggestion(name, names))),
            false => Ok(ports),
        }
    }

    fn set_up(&mut self, port: PortId, up: bool) {
        if let Some(Some(cable)) = self.cables.get_mut(port.index()) {
            cable.up = up;
            self.switch.plug(port, up);
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Cable> + Clone {
        self.cables.iter().flatten()
    }
}

/// The address that belongs to the cable `name`: `n3` is node 3's first interface, `n3.1` the one
/// after it.
fn address(name: &str) -> Option<MacAddress> {
    let (node, interface) = name.split_once('.').unwrap_or((name, "0"));
    let node = node.strip_prefix('n')?.parse().ok()?;
    Some(MacAddress::local(NodeId(node), interface.parse().ok()?))
}
