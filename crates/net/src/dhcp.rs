//! Takes an address from whoever lends one on the link (RFC 2131), and prolongs it. smoltcp's codec
//! is used, not its socket: that cannot go on with a lease which an earlier incarnation has taken.

use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::time::Duration;

use nile_abi::{Instant, MacAddress};
use smoltcp::wire::{DhcpMessageType, DhcpPacket, DhcpRepr, EthernetAddress};

use crate::lease::Lease;
use crate::siphash;

/// How long a first message has to be answered; each that follows, twice as long.
const FIRST: Duration = Duration::from_secs(1);

/// How often that doubles at most, and how often an offer is asked for.
const DOUBLES: u32 = 4;
const TRIES: u32 = 4;

/// How long nobody is asked after an address that was lent is somebody's (RFC 2131, 3.1).
const DECLINED: Duration = Duration::from_secs(10);

/// How soon a server is asked again to prolong a lease, at the earliest.
const AGAIN: Duration = Duration::from_secs(60);

/// How long a lease is whose server does not say it, and at least.
const USUAL: u32 = 120;
const LEAST: u32 = 30;

/// What a server is asked to say: the mask, the gateway, the resolver.
const WANTED: &[u8] = &[1, 3, 6];

/// Bytes of the longest answer that is taken.
const LONGEST: u16 = 1432;

/// A message that is to be sent.
#[derive(PartialEq, Eq, Debug)]
pub struct Message {
    /// The own address, or none.
    pub from: Ipv4Addr,
    /// The server, or everybody.
    pub to: Ipv4Addr,
    /// What it says.
    pub bytes: Vec<u8>,
}

enum State {
    /// Asks who lends an address.
    Asks { tries: u32, at: Instant },
    /// Asks for the address that a server has offered.
    Requests { server: Ipv4Addr, address: Ipv4Addr, tries: u32, at: Instant },
    /// Has one, and asks to prolong it then.
    Has { lease: Lease, at: Instant },
}

/// A client of one interface.
pub struct Client {
    mac: MacAddress,
    secret: [u64; 2],
    /// How many numbers were drawn, and the last one.
    drawn: u64,
    number: u32,
    state: State,
    /// An address that is given back, and whose it was.
    declines: Option<(Ipv4Addr, Ipv4Addr)>,
}

impl Client {
    /// One that goes on with the lease that is kept. `secret`: two numbers that nobody can predict.
    pub fn new(mac: MacAddress, secret: [u64; 2], kept: Option<Lease>, now: Instant) -> Client {
        let state = match kept {
            Some(lease) => State::Has { lease, at: lease.renew.max(now) },
            None => State::Asks { tries: 0, at: now },
        };
        // Another incarnation has drawn others.
        Client { mac, secret, drawn: now.as_nanos(), number: 0, state, declines: None }
    }

    /// What it has.
    pub fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Has { lease, .. } => Some(lease),
            _ => None,
        }
    }

    /// Somebody has the address that is lent: gives it back, and asks for another one later.
    pub fn decline(&mut self, now: Instant) {
        if let State::Has { lease, .. } = &self.state {
            self.declines = Some((lease.address, lease.server));
            self.state = State::Asks { tries: 0, at: now + DECLINED };
        }
    }

    /// When it has something to do.
    pub fn next_due(&self) -> Instant {
        if self.declines.is_some() {
            return Instant::START;
        }
        match &self.state {
            State::Asks { at, .. } | State::Requests { at, .. } => *at,
            State::Has { lease, at } => (*at).min(lease.until),
        }
    }

    /// What is to be sent now.
    pub fn next(&mut self, now: Instant) -> Option<Message> {
        if now < self.next_due() {
            return None;
        }
        if let Some(declined) = self.declines.take() {
            let (from, to) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
            let bytes = self.message(DhcpMessageType::Decline, from, Some(declined));
            return Some(Message { from, to, bytes });
        }
        match &mut self.state {
            State::Has { lease, .. } if lease.until <= now => {
                self.state = State::Asks { tries: 0, at: now };
            }
            State::Requests { tries: TRIES, .. } => {
                self.state = State::Asks { tries: 0, at: now };
            }
            _ => {}
        }
        if !matches!(self.state, State::Requests { .. }) {
            self.drawn += 1;
            self.number = siphash::hash(self.secret, [self.drawn, 0]) as u32;
        }
        let (from, to) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST);
        match &mut self.state {
            State::Asks { tries, at } => {
                *at = now + FIRST * (1 << *tries);
                *tries = (*tries + 1).min(DOUBLES);
                let bytes = self.message(DhcpMessageType::Discover, from, None);
                Some(Message { from, to, bytes })
            }
            State::Requests { server, address, tries, at } => {
                *at = now + FIRST * (1 << *tries);
                *tries += 1;
                let wanted = Some((*address, *server));
                let bytes = self.message(DhcpMessageType::Request, from, wanted);
                Some(Message { from, to, bytes })
            }
            State::Has { lease, at } => {
                let (is_late, from) = (now >= lease.rebind, lease.address);
                let end = if is_late { lease.until } else { lease.rebind };
                *at = (now + (end.since(now) / 2).max(AGAIN)).min(end);
                let to = if is_late { to } else { lease.server };
                let bytes = self.message(DhcpMessageType::Request, from, None);
                Some(Message { from, to, bytes })
            }
        }
    }

    /// A message; with the address that is wanted, and of which server.
    fn message(
        &self,
        message_type: DhcpMessageType,
        own: Ipv4Addr,
        wanted: Option<(Ipv4Addr, Ipv4Addr)>,
    ) -> Vec<u8> {
        let (none, mac) = (Ipv4Addr::UNSPECIFIED, EthernetAddress(self.mac.0));
        let message = DhcpRepr {
            message_type,
            transaction_id: self.number,
            secs: 0,
            client_hardware_address: mac,
            client_ip: own,
            your_ip: none,
            server_ip: none,
            router: None,
            subnet_mask: None,
            relay_agent_ip: none,
            broadcast: false,
            requested_ip: wanted.map(|it| it.0),
            client_identifier: Some(mac),
            server_identifier: wanted.map(|it| it.1),
            parameter_request_list: (message_type != DhcpMessageType::Decline).then_some(WANTED),
            dns_servers: None,
            max_size: Some(LONGEST),
            lease_duration: None,
            renew_duration: None,
            rebind_duration: None,
            additional_options: &[],
        };
        let mut bytes = vec![0; message.buffer_len()];
        let emitted = message.emit(&mut DhcpPacket::new_unchecked(&mut bytes[..]));
        emitted.expect("it is as long as it says itself");
        bytes
    }

    /// Takes what a server says: any bytes.
    pub fn receive(&mut self, now: Instant, message: &[u8]) {
        let Ok(packet) = DhcpPacket::new_checked(message) else { return };
        let Ok(said) = DhcpRepr::parse(&packet) else { return };
        let is_ours = said.client_hardware_address.0 == self.mac.0;
        if !is_ours || said.transaction_id != self.number {
            return;
        }
        let Some(by) = said.server_identifier.filter(is_host) else { return };
        match (&self.state, said.message_type) {
            (State::Asks { .. }, DhcpMessageType::Offer) if is_host(&said.your_ip) => {
                let address = said.your_ip;
                self.state = State::Requests { server: by, address, tries: 0, at: now };
            }
            (State::Requests { server, address, .. }, DhcpMessageType::Ack)
                if *server == by && *address == said.your_ip =>
            {
                self.take(now, by, &said);
            }
            (State::Has { .. }, DhcpMessageType::Ack) => self.take(now, by, &said),
            (State::Requests { server, .. }, DhcpMessageType::Nak) if *server == by => {
                self.state = State::Asks { tries: 1, at: now + FIRST };
            }
            (State::Has { .. }, DhcpMessageType::Nak) => {
                self.state = State::Asks { tries: 0, at: now };
            }
            _ => {}
        }
    }

    /// Has what a server has lent, if it makes sense.
    fn take(&mut self, now: Instant, server: Ipv4Addr, said: &DhcpRepr<'_>) {
        let Some(mask) = said.subnet_mask.map(|it| it.to_bits()) else { return };
        let prefix = mask.leading_ones();
        let is_mask = mask.checked_shl(prefix).unwrap_or(0) == 0 && (8..=30).contains(&prefix);
        if !is_mask || !is_host(&said.your_ip) {
            return;
        }
        let seconds = said.lease_duration.unwrap_or(USUAL).max(LEAST);
        let told = (said.renew_duration, said.rebind_duration);
        let (renew, rebind) = match told {
            (Some(renew), Some(rebind)) if renew < rebind && rebind < seconds => (renew, rebind),
            _ => (seconds / 2, seconds - seconds / 8),
        };
        let after = |seconds: u32| now + Duration::from_secs(seconds.into());
        let lease = Lease {
            address: said.your_ip,
            prefix: prefix as u8,
            gateway: said.router.filter(is_host),
            resolver: said.dns_servers.iter().flatten().copied().find(is_host),
            server,
            renew: after(renew),
            rebind: after(rebind),
            until: after(seconds),
        };
        self.state = State::Has { lease, at: lease.renew };
    }
}

/// Whether an interface can have an address.
fn is_host(address: &Ipv4Addr) -> bool {
    let first = address.octets()[0];
    (1..224).contains(&first) && first != 127
}
