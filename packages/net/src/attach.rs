//! How a package comes to its channels: it calls, and is told their tags.

use alloc::collections::VecDeque;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};

use nile_abi::{CoreId, Status};
use nile_interfaces::net::{NetChannels, NetUser};
use nile_stl::{CallError, CallResult, Caller, Start, Stl, service};
use nile_sync::Notify;
use nile_user::Services;

/// Packages that may wait for their channels.
const MOST_WAITING: usize = 64;

/// Who has called and has no channels yet.
#[derive(Default)]
pub struct Door {
    waiting: RefCell<VecDeque<(CoreId, NetChannels)>>,
    comes: Notify,
    tag: Cell<u32>,
}

impl Door {
    /// That of this package.
    pub fn of(stl: &Stl) -> CallResult<Rc<Door>> {
        stl.shared(|| Ok(Rc::default()))
    }

    /// The next one, as soon as there is one: its core and the tags.
    pub async fn next(&self) -> (CoreId, NetChannels) {
        self.comes.until(|| self.waiting.borrow_mut().pop_front()).await
    }
}

/// Publishes the service.
pub fn publish(services: &Services) -> CallResult<()> {
    let none = || CallError::new(Status::Invalid, "the service has no half of user mode");
    services.publish(&REGISTRATION, REGISTRATION.user.ok_or_else(none)?)
}

/// The service.
pub struct Net {
    stl: Stl,
}

impl Start for Net {
    fn start(stl: &Stl) -> Net {
        Net { stl: stl.clone() }
    }
}

#[service(on = worker, keywords(net = 5, sockets = 3, streams = 3))]
impl NetUser for Net {
    fn ready(&self) -> CallResult<()> {
        Ok(())
    }

    async fn attach(&self, caller: &Caller) -> CallResult<NetChannels> {
        let core = caller.own_core()?;
        let door = Door::of(&self.stl)?;
        if door.waiting.borrow().len() >= MOST_WAITING {
            return Err(CallError::new(Status::Busy, "many packages begin at once: call again"));
        }
        // Others than those of an earlier incarnation, which packages may not know to be gone.
        let tag = match door.tag.get() {
            0 => (self.stl.host().now().as_nanos() / 1000) as u32 & !1,
            last => last.wrapping_add(2),
        };
        door.tag.set(tag.max(2));
        let channels = NetChannels { down: tag, up: tag | 1 };
        door.waiting.borrow_mut().push_back((core, channels));
        door.comes.notify();
        Ok(channels)
    }
}
