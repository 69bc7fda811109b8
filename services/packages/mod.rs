//! Packages that stay. One has a worker core for itself: nobody finds the core's worker meanwhile,
//! so jobs go to others. Code and state are apart: whatever becomes of the code, what the package
//! keeps is there for the next incarnation (`Runtime::keep`), of the same file or of another.

mod server;

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::time::Duration;

use nile_abi::Status;
use nile_bosml::Bytes;
use nile_interfaces::packages::{PackageState, PackagesKernel};
use nile_registry::Caller as Binder;
use nile_stl::{CallError, CallResult, Start, Stl, service};

use crate::job::cluster::whole;
use crate::worker::Engine;
use server::{Code, Server};

/// The package of this core.
pub struct Packages {
    stl: Stl,
    server: RefCell<Option<Rc<Server>>>,
}

impl Start for Packages {
    fn start(stl: &Stl) -> Packages {
        Packages { stl: stl.acting_as(Binder::Operator), server: RefCell::default() }
    }
}

#[service(on = worker, keywords(packages = 5, server = 3))]
impl PackagesKernel for Packages {
    async fn start(&self, source: &str, argument: Bytes<'_>, patience_ms: u32) -> CallResult<()> {
        if let Some(server) = self.server() {
            let message = format!("{} has this core; stop it, or take another", server.name());
            return Err(CallError::new(Status::Exists, message));
        }
        let code = self.code(source).await?;
        let server = Rc::new(Server::new(&self.stl, code, Vec::from(argument.0)));
        if self.server().is_some() {
            return Err(CallError::new(Status::Exists, "another package has got this core"));
        }
        *self.server.borrow_mut() = Some(server.clone());
        // A caller that is gone leaves neither the core hidden from jobs nor a package paused.
        let patience = Duration::from_millis(patience_ms.into());
        whole(&self.stl, async move { server.begin(patience).await }).await
    }

    async fn replace(&self, source: &str) -> CallResult<()> {
        let server = self.here()?;
        let code = self.code(source).await?;
        whole(&self.stl, async move { server.replace(code).await }).await
    }

    async fn stop(&self) -> CallResult<()> {
        self.here()?.stop().await;
        Ok(())
    }

    fn state(&self) -> CallResult<Option<PackageState>> {
        Ok(self.server().map(|server| server.state()))
    }
}

impl Packages {
    /// The package that has the core.
    fn server(&self) -> Option<Rc<Server>> {
        self.server.borrow().clone().filter(|server| !server.is_over())
    }

    fn here(&self) -> CallResult<Rc<Server>> {
        let none = || CallError::new(Status::NotFound, "no package has this core for itself");
        self.server().ok_or_else(none)
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
