//! Calls to other nodes, as the transport layer of any core makes them: through the network
//! service, wherever in the node that is.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;

use nile_abi::{Instant, Status};
use nile_bosml::Bytes;
use nile_registry::Caller as Binder;
use nile_stl::{CallError, CallResult, Gateway, LocalFuture, MethodNumber, Origin, Place, Stl};

use nile_interfaces::network::{Called, Identity, NetworkClient};

/// The way from a core to other nodes.
pub struct ByNetwork(Rc<Way>);

struct Way {
    stl: Stl,
    /// Where the network service is, once it was found.
    found: Cell<Option<Place>>,
}

impl ByNetwork {
    /// The way from the core of `stl`.
    pub fn new(stl: &Stl) -> ByNetwork {
        let stl = stl.acting_as(Binder::Operator);
        ByNetwork(Rc::new(Way { stl, found: Cell::new(None) }))
    }
}

impl Way {
    async fn network(&self) -> CallResult<Place> {
        if let Some(known) = self.found.get() {
            return Ok(known);
        }
        let place = NetworkClient::find(&self.stl).await?.place();
        let missing = || CallError::new(Status::NotFound, "this node has no network core");
        let place = place.filter(Place::is_here).ok_or_else(missing)?;
        self.found.set(Some(place));
        Ok(place)
    }
}

impl Gateway for ByNetwork {
    fn call(
        &self,
        place: Place,
        method: MethodNumber,
        arguments: &[u8],
        origin: Origin,
        deadline: Instant,
    ) -> LocalFuture<'static, CallResult<Vec<u8>>> {
        let (this, arguments) = (self.0.clone(), Vec::from(arguments));
        Box::pin(async move {
            let patience = deadline - this.stl.host().now();
            let stl = this.stl.with_patience(patience);
            let network = NetworkClient::at(&stl, this.network().await?);
            let to = Identity { node: place.node.0, generation: place.generation.0 };
            let called = Called {
                core: place.core.0,
                number: place.number.0,
                method: method.0,
                for_package: origin.is_package(),
            };
            let result = network.call(to, called, Bytes::from(&arguments[..])).await;
            if result.as_ref().is_err_and(|error| error.status == Status::Dead) {
                // It may be the network core that is gone.
                this.found.set(None);
            }
            match result? {
                Some(reply) => Ok(reply.0),
                None => Err(CallError::instance_gone()),
            }
        })
    }
}
