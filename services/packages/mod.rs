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

use nile_abi::Status;
use nile_abi::call::UserSlot;
use nile_bosml::Bytes;
use nile_interfaces::packages::{PackageState, PackagesKernel};
use nile_registry::Caller as Binder;
use nile_stl::node::Stay;
use nile_stl::{CallError, CallResult, Start, Stl, service};

use crate::job::cluster::whole;
use crate::worker::{Engine, plain};
use room::Room;
use server::{Code, Server};

/// The packages of this core.
pub struct Packages {
    stl: Stl,
    servers: RefCell<Vec<Rc<Server>>>,
    room: Rc<Room>,
    /// The number of the last one.
    last: Cell<u32>,
}

impl Start for Packages {
    fn start(stl: &Stl) -> Packages {
        let stl = stl.acting_as(Binder::Operator);
        let room = Rc::new(Room::new(&stl));
        Packages { stl, servers: RefCell::default(), room, last: Cell::new(0) }
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
        self.has_room(name, shares)?;
        let code = self.code(source).await?;
        // Another one may have come meanwhile.
        self.has_room(name, shares)?;
        self.last.set(self.last.get() + 1);
        let (stay, argument) = (Stay(self.last.get()), Vec::from(argument.0));
        let server = Rc::new(Server::new(&self.stl, &self.room, stay, code, argument));
        self.servers.borrow_mut().push(server.clone());
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

    fn names(&self) -> String {
        let names: Vec<String> = self.servers().iter().map(|server| server.name()).collect();
        names.join(" and ")
    }

    /// Whether another package may come, of this name.
    fn has_room(&self, name: &str, shares: bool) -> CallResult<()> {
        let servers = self.servers();
        let refuse = |message: String| Err(CallError::new(Status::Exists, message));
        if servers.iter().any(|server| server.name() == name) {
            return refuse(format!("{name} is on this core already"));
        }
        match servers.len() {
            0 => Ok(()),
            UserSlot::COUNT => {
                let most = UserSlot::COUNT;
                refuse(format!("{} have this core, and {most} is the most", self.names()))
            }
            _ if shares => Ok(()),
            count => {
                let has = if count == 1 { "has" } else { "have" };
                refuse(format!(
                    "{} {has} this core; --share runs {name} beside, or take another core",
                    self.names()
                ))
            }
        }
    }

    fn named(&self, name: &str) -> CallResult<Rc<Server>> {
        let found = self.servers().into_iter().find(|server| server.name() == name);
        found.ok_or_else(|| {
            let message = match self.servers().is_empty() {
                true => String::from("no package has this core"),
                false => format!("the core has {}, and not {name}", self.names()),
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
