//! A composite that was planned, as a service that others find and call by its name.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;

use nile_abi::Status;
use nile_stl::{
    CallError, CallResult, Caller, CompositeType, Dispatched, Half, MethodNumber, Place, Service,
};

use crate::Synthesized;

impl Synthesized {
    /// Publishes it on this core as a service of its name with one method of its name, which those
    /// may call who may call each part now; later plans have no part that one of them may not.
    /// Fails as [`Stl::publish`](nile_stl::Stl::publish), or with `Invalid` (its name).
    pub async fn publish(self: &Rc<Self>, ty: CompositeType) -> CallResult<Place> {
        let described = self.composed(|composed| ty.described(composed))?;
        if let Some(method) = described.schema.methods.first() {
            self.open_to(method.callers);
        }
        let service = Rc::new(Published(self.clone()));
        self.stl().publish_described(described, |_| Half { service, asks_caller: true }).await
    }

    /// Ends the service. Fails with `NotFound` if it was not published.
    pub async fn withdraw(&self) -> CallResult<()> {
        self.stl().unpublish(self.name()).await
    }
}

struct Published(Rc<Synthesized>);

impl Service for Published {
    fn dispatch(&self, caller: &Caller, method: MethodNumber, arguments: &[u8]) -> Dispatched {
        if method != MethodNumber(0) {
            let message = format!("{} has no method of number {}", self.0.name(), method.0);
            return Dispatched::Done(Err(CallError::new(Status::NotFound, message)));
        }
        let (composite, deadline, arguments) =
            (self.0.clone(), caller.deadline, Vec::from(arguments));
        Dispatched::Later(Box::pin(async move { composite.call(deadline, &arguments).await }))
    }
}
