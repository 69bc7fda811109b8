//! Packages that stay. One has a worker core for itself, or shares it with others that an operator
//! puts there: nobody finds the core's worker meanwhile, so jobs go to others. Code and state are
//! apart: whatever becomes of the code, what the package keeps is there for the next incarnation
//! (`Runtime::keep`), of the same file or of another.

mod room;
mod server;

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::call::UserSlot;
use nile_abi::{CoreId, Status};
use nile_bosml::Bytes;
use nile_interfaces::packages::{PackageState, PackagesClient, PackagesKernel};
use nile_registry::Caller as Binder;
use nile_stl::node::Stay;
use nile_stl::{CallError, CallResult, Place, Start, Stl, service};

use crate::cluster;
use crate::job::cluster::whole;
use crate::worker::{Engine, plain};
use room::Room;
use server::{Code, Server};

/// How long a core may take to answer beside what a package may take to begin there.
const ANSWERS: Duration = Duration::from_secs(5);

/// The packages of this core. A clone has the same ones.
#[derive(Clone)]
pub struct Packages {
    stl: Stl,
    servers: Rc<RefCell<Vec<Rc<Server>>>>,
    room: Rc<Room>,
    /// The number of the last one.
    last: Rc<Cell<u32>>,
}

impl Start for Packages {
    fn start(stl: &Stl) -> Packages {
        let stl = stl.acting_as(Binder::Operator);
        let room = Rc::new(Room::new(&stl));
        Packages { stl, servers: Rc::default(), room, last: Rc::default() }
    }
}

#[service(on = worker, keywords(packages = 5, server = 3))]
impl PackagesKernel for Packages {
    async fn start(
        &self,
        source: &str,
        argument: Bytes<'_>,
        patience_ms: u32,
        shares: bool,
    ) -> CallResult<()> {
        let name = plain(source);
        has_room(&self.names(), name, shares)?;
        let code = self.code(source).await?;
        // Another one may have come meanwhile.
        has_room(&self.names(), name, shares)?;
        let server = self.enter(code, argument.0.into());
        // A caller that is gone leaves neither the core hidden from jobs nor a package paused.
        let patience = Duration::from_millis(patience_ms.into());
        whole(&self.stl, async move { server.begin(patience).await }).await
    }

    async fn replace(&self, name: &str, source: &str) -> CallResult<()> {
        let server = self.named(name)?;
        let other = plain(source);
        if name != other {
            let message = format!("the core has {name}, and {other} is another package");
            return Err(CallError::new(Status::Invalid, message));
        }
        let code = self.code(source).await?;
        whole(&self.stl, async move { server.replace(code).await }).await
    }

    async fn move_to(
        &self,
        name: &str,
        core: u16,
        patience_ms: u32,
        shares: bool,
    ) -> CallResult<()> {
        let server = self.named(name)?;
        let patience = Duration::from_millis(patience_ms.into());
        let there = self.other(CoreId(core), patience).await?;
        let theirs = there.list().await?.into_iter().map(|it| it.name);
        has_room(&theirs.collect::<Vec<_>>(), name, shares)?;
        let (packages, name) = (self.clone(), String::from(name));
        let moves = async move {
            let (code, argument) = server.stop().await;
            let told = Bytes(argument[..].into());
            let began = there.start(&code.source, told, patience_ms, shares).await;
            let Err(error) = began else { return Ok(()) };
            if matches!(error.status, Status::Dead | Status::Timeout) {
                // It may run there nevertheless.
                let _ = there.stop(&name).await;
            }
            let message = match packages.enter(code, argument).begin(patience).await {
                Ok(()) => format!("c{core}: {}; it runs here again", error.message),
                Err(here) => format!("c{core}: {}; nor here: {}", error.message, here.message),
            };
            Err(CallError::new(error.status, message))
        };
        whole(&self.stl, moves).await
    }

    async fn stop(&self, name: &str) -> CallResult<()> {
        self.named(name)?.stop().await;
        Ok(())
    }

    fn list(&self) -> CallResult<Vec<PackageState>> {
        Ok(self.servers().iter().map(|server| server.state()).collect())
    }
}

impl Packages {
    /// The packages that have the core.
    fn servers(&self) -> Vec<Rc<Server>> {
        let mut servers = self.servers.borrow_mut();
        servers.retain(|server| !server.is_over());
        servers.clone()
    }

    fn names(&self) -> Vec<String> {
        self.servers().iter().map(|server| server.name()).collect()
    }

    /// Notes a package that has yet to begin.
    fn enter(&self, code: Code, argument: Vec<u8>) -> Rc<Server> {
        self.last.set(self.last.get() + 1);
        let stay = Stay(self.last.get());
        let server = Rc::new(Server::new(&self.stl, &self.room, stay, code, argument));
        self.servers.borrow_mut().push(server.clone());
        server
    }

    /// The packages of another worker core of this node, which may take so long to begin one.
    async fn other(&self, core: CoreId, patience: Duration) -> CallResult<PackagesClient> {
        if core == self.stl.host().core() {
            let message = format!("it is on {core} already");
            return Err(CallError::new(Status::Exists, message));
        }
        let places = cluster::places(&self.stl, REGISTRATION.name()).await?;
        let is_it = |place: &Place| place.is_here() && place.core == core;
        let place = places.into_iter().map(|it| it.1).find(is_it);
        let none = || CallError::new(Status::NotFound, format!("{core} is no worker core here"));
        let stl = self.stl.with_patience(patience + ANSWERS);
        Ok(PackagesClient::at(&stl, place.ok_or_else(none)?))
    }

    fn named(&self, name: &str) -> CallResult<Rc<Server>> {
        let found = self.servers().into_iter().find(|server| server.name() == name);
        found.ok_or_else(|| {
            let message = match self.servers().is_empty() {
                true => String::from("no package has this core"),
                false => format!("the core has {}, and not {name}", self.names().join(" and ")),
            };
            CallError::new(Status::NotFound, message)
        })
    }

    /// The code of a package by its name, or by that of a dataset.
    async fn code(&self, source: &str) -> CallResult<Code> {
        let text = String::from(source);
        if !source.contains('/') {
            return Ok(Code { source: text, file: None });
        }
        let pool = self.stl.node()?.pool();
        let missing = || CallError::new(Status::NotFound, "this node has no pool: [pool] bytes");
        let pool = pool.ok_or_else(missing)?;
        let engine = self.stl.shared(|| Ok(Rc::new(Engine::new(&self.stl, pool))))?;
        let file = engine.file_named(source).await?;
        Ok(Code { source: text, file: Some(file) })
    }
}

/// Whether a core with these packages has room for another one.
fn has_room(names: &[String], name: &str, shares: bool) -> CallResult<()> {
    let refuse = |message: String| Err(CallError::new(Status::Exists, message));
    if names.iter().any(|it| it == name) {
        return refuse(format!("{name} is on this core already"));
    }
    let all = names.join(" and ");
    match names.len() {
        0 => Ok(()),
        UserSlot::COUNT => {
            let most = UserSlot::COUNT;
            refuse(format!("{all} have this core, and {most} is the most"))
        }
        _ if shares => Ok(()),
        count => {
            let has = if count == 1 { "has" } else { "have" };
            refuse(format!(
                "{all} {has} this core; --share runs {name} beside, or take another core"
            ))
        }
    }
}
