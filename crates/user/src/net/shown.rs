//! What is told of the connections to whoever asks: `nile net list`.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use nile_abi::{Instant, Status};
use nile_interfaces::sockets::{
    Address, Connection, FilterState, Listener, MOST_LISTED, SocketsUser,
};
use nile_net::Stack;
use nile_net::filter::{RuleError, Rules};
use nile_net::own::LINK_BITS;
use nile_stl::{CallError, CallResult, Start, Stl, service};
use nile_sync::Notify;

use crate::Services;

/// Publishes the service that tells of connections: those that [`Shown::update`] shows.
pub fn publish(services: &Services) -> CallResult<()> {
    let none = || CallError::new(Status::Invalid, "the service has no half of user mode");
    services.publish(&REGISTRATION, REGISTRATION.user.ok_or_else(none)?)?;
    services.serve();
    Ok(())
}

/// The connections as they were a moment ago.
#[derive(Default)]
pub struct Shown {
    address: RefCell<Address>,
    listeners: RefCell<Vec<Listener>>,
    connections: RefCell<Vec<Connection>>,
    pub(super) filter: RefCell<FilterState>,
    /// Rules that are to hold, and that they do.
    pub(super) wanted: RefCell<Option<Rules>>,
    pub(super) applied: Notify,
}

impl Shown {
    /// What the package shows.
    pub fn of(stl: &Stl) -> CallResult<Rc<Shown>> {
        stl.shared(|| Ok(Rc::default()))
    }

    /// Shows how it stands: a port's package is what `listener` says, a connection's what `owner`
    /// says of its number.
    pub fn update(
        &self,
        now: Instant,
        stack: &Stack<'_>,
        listener: impl Fn(u16) -> String,
        owner: impl Fn(u64) -> String,
    ) {
        *self.address.borrow_mut() = address_of(now, stack);
        let (address, own) = (stack.address(), stack.own());
        let counts = stack.counts().tcp;
        let listening = |port: &u16| Listener {
            at: format!("{address}:{port}"),
            package: listener(*port),
            accepted: counts.accepted,
            resumed: counts.resumed,
            half_open: stack.half_open() as u32,
        };
        *self.listeners.borrow_mut() = stack.listeners().iter().map(listening).collect();
        let connection = |it: nile_net::Connection| Connection {
            number: it.serial,
            package: owner(it.serial),
            local: SocketAddr::new(own.to(it.peer.address), it.peer.local).to_string(),
            remote: it.peer.remote().to_string(),
            state: it.phase.name().to_string(),
            received: it.received,
            acknowledged: it.acknowledged,
            in_flight: it.in_flight,
        };
        let mut connections: Vec<Connection> = stack.connections().map(connection).collect();
        connections.sort_by_key(|it| it.number);
        *self.connections.borrow_mut() = connections;
        let (filter, counts) = (stack.filter(), stack.filter().counts());
        let mut shown = self.filter.borrow_mut();
        shown.connections = filter.connections() as u32;
        (shown.allowed, shown.denied) = (counts.allowed, counts.denied);
        shown.crowded = counts.crowded;
    }
}

/// How it stands with the address of a stack.
fn address_of(now: Instant, stack: &Stack<'_>) -> Address {
    let (settings, lease) = (stack.settings(), stack.lease());
    let text = |it: Option<Ipv4Addr>| it.map_or_else(String::new, |it| it.to_string());
    let at = match settings.address.is_unspecified() {
        true => String::new(),
        false => format!("{}/{}", settings.address, settings.prefix),
    };
    let own = stack.own();
    let of_ipv6 = |it: Ipv6Addr, prefix| (!it.is_unspecified()).then(|| format!("{it}/{prefix}"));
    let v6 = [of_ipv6(own.link, LINK_BITS), of_ipv6(own.wide, own.prefix)];
    Address {
        at,
        v6: v6.into_iter().flatten().collect::<Vec<_>>().join(" "),
        router: stack.router().map_or_else(String::new, |it| it.to_string()),
        gateway: text(settings.gateway),
        resolver: text(settings.resolver),
        server: text(lease.map(|it| it.server)),
        left_s: lease.map_or(0, |it| it.until.since(now).as_secs()),
    }
}

/// The service.
pub struct Sockets {
    stl: Stl,
}

impl Start for Sockets {
    fn start(stl: &Stl) -> Sockets {
        Sockets { stl: stl.clone() }
    }
}

#[service(on = worker, keywords(sockets = 5, network = 3, connections = 3, tcp = 2))]
impl SocketsUser for Sockets {
    async fn address(&self) -> CallResult<Address> {
        Ok(Shown::of(&self.stl)?.address.borrow().clone())
    }

    async fn listeners(&self) -> CallResult<Vec<Listener>> {
        Ok(Shown::of(&self.stl)?.listeners.borrow().clone())
    }

    async fn connections(&self, after: u64) -> CallResult<Vec<Connection>> {
        let shown = Shown::of(&self.stl)?;
        let all = shown.connections.borrow();
        Ok(all.iter().filter(|it| it.number > after).take(MOST_LISTED).cloned().collect())
    }

    async fn filter(&self) -> CallResult<FilterState> {
        Ok(Shown::of(&self.stl)?.filter.borrow().clone())
    }

    async fn set_filter(&self, rules: &str) -> CallResult<()> {
        let wrong = |error: RuleError| CallError::new(Status::Invalid, format!("{error}"));
        let rules = rules.parse().map_err(wrong)?;
        let shown = Shown::of(&self.stl)?;
        *shown.wanted.borrow_mut() = Some(rules);
        shown.applied.until(|| shown.wanted.borrow().is_none().then_some(())).await;
        Ok(())
    }
}
