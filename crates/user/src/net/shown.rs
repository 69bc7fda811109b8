//! What is told of the connections to whoever asks: `nile net list`.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::cell::RefCell;

use nile_abi::Status;
use nile_interfaces::sockets::{Connection, Listener, MOST_LISTED, SocketsUser};
use nile_stl::{CallError, CallResult, Start, Stl, service};

use super::Network;
use crate::Services;

/// Publishes the service that tells of them.
pub fn publish(services: &Services, network: &Network<'_>) -> CallResult<()> {
    Shown::of(services.stl())?.update(network);
    let none = || CallError::new(Status::Invalid, "the service has no half of user mode");
    services.publish(&REGISTRATION, REGISTRATION.user.ok_or_else(none)?)?;
    services.serve();
    Ok(())
}

/// The connections as they were a moment ago.
#[derive(Default)]
pub struct Shown {
    listeners: RefCell<Vec<Listener>>,
    connections: RefCell<Vec<Connection>>,
}

impl Shown {
    /// What the package shows.
    pub fn of(stl: &Stl) -> CallResult<Rc<Shown>> {
        stl.shared(|| Ok(Rc::default()))
    }

    /// Shows how it stands.
    pub fn update(&self, network: &Network<'_>) {
        let (name, stack) = (&network.0.name, network.0.stack.borrow());
        let address = stack.address();
        let counts = stack.counts().tcp;
        let listener = |port: &u16| Listener {
            at: format!("{address}:{port}"),
            package: name.clone(),
            accepted: counts.accepted,
            resumed: counts.resumed,
            half_open: stack.half_open() as u32,
        };
        *self.listeners.borrow_mut() = stack.listeners().iter().map(listener).collect();
        let connection = |it: nile_net::Connection| Connection {
            number: it.serial,
            local: format!("{address}:{}", it.peer.local),
            remote: format!("{}:{}", it.peer.address, it.peer.port),
            state: it.phase.name().to_string(),
            received: it.received,
            acknowledged: it.acknowledged,
            in_flight: it.in_flight,
        };
        let mut connections: Vec<Connection> = stack.connections().map(connection).collect();
        connections.sort_by_key(|it| it.number);
        *self.connections.borrow_mut() = connections;
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
    async fn listeners(&self) -> CallResult<Vec<Listener>> {
        Ok(Shown::of(&self.stl)?.listeners.borrow().clone())
    }

    async fn connections(&self, after: u64) -> CallResult<Vec<Connection>> {
        let shown = Shown::of(&self.stl)?;
        let all = shown.connections.borrow();
        Ok(all.iter().filter(|it| it.number > after).take(MOST_LISTED).cloned().collect())
    }
}
