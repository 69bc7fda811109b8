//! What comes from other cores: calls to services here, the ends of calls made here, and the news
//! that a core is gone.

use alloc::boxed::Box;
use alloc::vec::Vec;

use nile_abi::{CoreId, Generation, Status};

use crate::frame::{CallId, Header, MAX_DATA};
use crate::host::{Host, Place};
use crate::stl::Local;
use crate::{CallError, CallResult, Caller, Dispatched, Stl};

/// How a core's incarnation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerEnd {
    /// As planned: a call that it had not answered it had not looked at, and ends with `Gone`.
    Left,
    /// By its own code, when it worked on this call of this core: that one ends with `Panicked`,
    /// the others with `Dead`.
    By(CallId),
    /// Otherwise: all end with `Dead`.
    Died,
}

/// A call of another core.
#[derive(Clone, Copy)]
struct Made {
    by: CoreId,
    generation: Generation,
    id: CallId,
}

impl Stl {
    /// Takes a frame that came from another core.
    pub fn deliver(&self, from: CoreId, header: &Header, data: &[u8]) {
        let host = &self.core.host;
        match *header {
            // An earlier incarnation of the other core has asked, and nobody there remembers: its
            // successor's calls may have the same numbers.
            Header::Request { caller, .. } | Header::Cancel { caller, .. }
                if caller != host.generation_of(from) => {}
            Header::Request { id, service, generation, caller, method, deadline, origin } => {
                let (node, core) = (Place::HERE, host.core());
                let place = Place { node, core, generation, number: service };
                let made = Made { by: from, generation: caller, id };
                let caller = Caller { core: from, origin, deadline };
                self.serve(place, made, |local| {
                    self.dispatch(local, origin, &caller, method, data)
                });
            }
            // An earlier incarnation of this core has asked.
            Header::Reply { caller, .. } if caller != host.generation() => {}
            Header::Reply { id, status: Status::Ok, .. } => {
                self.core.calls.end(id, Ok(data.to_vec()));
            }
            Header::Reply { id, status, .. } => {
                self.core.calls.end(id, Err(CallError::from_wire(status, data)));
            }
            Header::Cancel { id, .. } => self.core.serving.cancel((from, id)),
        }
    }

    fn serve(&self, place: Place, made: Made, dispatch: impl FnOnce(&Local) -> Dispatched) {
        let host = &self.core.host;
        let local = self.local(place).filter(|_| !self.core.is_withdrawn.get());
        let Some(local) = local else {
            let gone = CallError::instance_gone();
            return reply(&**host, made, Err(gone));
        };
        if self.core.serving.is_full() {
            let full = CallError::new(Status::Busy, "the core serves as many calls as it can");
            return reply(&**host, made, Err(full));
        }
        let begun = host.now();
        host.working_for(Some((made.by, made.id)));
        let dispatched = dispatch(&local);
        host.working_for(None);
        match dispatched {
            Dispatched::Done(result) => {
                reply(&**host, made, result);
                host.answered(host.now().since(begun));
            }
            Dispatched::Later(future) => {
                let served = self.core.serving.run(host, (made.by, made.id), future);
                let replier = host.clone();
                let before = host.act_as(local.subject);
                host.spawn(Box::pin(async move {
                    if let Some(result) = served.await {
                        reply(&*replier, made, result);
                        replier.answered(replier.now().since(begun));
                    }
                }));
                host.act_as(before);
            }
        }
    }

    /// What was sent to a core may not have come there, or never will, though the core lives: every
    /// call to it ends as `why` says.
    pub fn link_lost(&self, core: CoreId, why: Status) {
        let error = CallError::new(why, "the link to the core is lost");
        self.core.calls.end_all(core, Generation(u32::MAX), |_, _| error.clone());
    }

    /// A core's incarnation has ended. What it had called here is cancelled.
    pub fn peer_ended(&self, core: CoreId, generation: Generation, end: PeerEnd) {
        self.core.serving.cancel_all(core);
        self.core.calls.end_all(core, generation, |call, to| match end {
            // It was made when that one's end was known: nobody has looked at it.
            _ if to < generation => CallError::core_left(),
            PeerEnd::By(culprit) if culprit == call => {
                CallError::new(Status::Panicked, "the method ended its core, which restarts")
            }
            PeerEnd::Left => CallError::core_left(),
            _ => CallError::new(Status::Dead, "the core restarts"),
        });
        let mourners = self.core.mourners.borrow().clone();
        for told in mourners {
            told(core, generation);
        }
    }
}

/// Sends the end of a call. A caller that is gone has nobody to tell.
fn reply(host: &dyn Host, made: Made, result: CallResult<Vec<u8>>) {
    let Made { by, generation: caller, id } = made;
    let _ = match result {
        Ok(data) => host.send(by, &Header::Reply { id, caller, status: Status::Ok }, &data),
        Err(CallError { status, message }) => {
            let data = &message.as_bytes()[..message.len().min(MAX_DATA)];
            host.send(by, &Header::Reply { id, caller, status }, data)
        }
    };
}
