//! The name service: what the names of datasets mean (docs/names.md has the protocol). It is on the
//! managing core of every node. Of some nodes, the keepers, most have to agree on each change of a
//! name; any node has them do it, and asks them what a name means.
//!
//! * `travel`: what calls carry, and what the protocol makes of it.
//! * `keeper`: what this node keeps, if it is a keeper.
//! * `operations`: names read and changed; `sweep`: what stores have, held against that.
//! * `passing`: names that end with their use.

mod keeper;
mod operations;
mod passing;
mod sweep;
pub(crate) mod travel;

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{NodeId, Status};
use nile_bosml::{Blob, Bytes};
use nile_names::{Ask, Standing, Task};
use nile_registry::Caller as Binder;
use nile_stl::{CallError, CallResult, Caller, Start, Stl, service};
use nile_store::{Name as Known, RECORDS};
use nile_sync::Lock;

use crate::cluster;
use crate::job::cluster::Cluster;
use crate::missed::Missed;
use crate::sweeping::Sweeping;
use keeper::Hosted;
use nile_interfaces::name::records::{Meaning, NameAnswer, NameExpectation, NamePage};
use nile_interfaces::name::{KEEPS, NameKernel};
use passing::Passing;
use sweep::Undecided;

/// The names of datasets.
pub struct Name {
    shared: Rc<Shared>,
}

struct Shared {
    stl: Stl,
    cluster: Cluster,
    /// This node's part in keeping names, once somebody has asked for it.
    hosted: RefCell<Option<Rc<Hosted>>>,
    loading: Lock,
    sweeping: Sweeping,
    missed: Rc<Missed>,
    undecided: RefCell<Undecided>,
    passing: Passing,
    /// Draws numbers where the machine has none to give.
    drawn: Cell<u64>,
}

impl Start for Name {
    fn start(stl: &Stl) -> Name {
        let stl = stl.acting_as(Binder::Operator);
        let shared = Rc::new(Shared {
            cluster: Cluster::new(&stl),
            missed: Missed::of(&stl),
            stl,
            hosted: RefCell::default(),
            loading: Lock::default(),
            sweeping: Sweeping::default(),
            undecided: RefCell::default(),
            passing: Passing::default(),
            drawn: Cell::new(0),
        });
        let told = Rc::downgrade(&shared);
        let sweep = move || told.upgrade().iter().for_each(Shared::sweep_soon);
        shared.missed.on(sweep.clone());
        shared.stl.on_death(move |_, _| sweep());
        shared.sweep_soon();
        Name { shared }
    }
}

impl Shared {
    /// The nodes that keep names.
    fn keepers(&self) -> Vec<NodeId> {
        let member = cluster::member(&self.stl);
        member.map_or_else(|| Vec::from([self.cluster.node()]), |member| member.keepers)
    }

    /// A number that nobody has drawn before.
    fn draw(&self) -> u64 {
        let mut seed = [0; 8];
        if self.stl.node().is_ok_and(|node| node.entropy(&mut seed)) {
            return u64::from_le_bytes(seed);
        }
        self.drawn.set(self.drawn.get() + 1);
        let now = self.stl.host().now().as_nanos();
        (now << 16) ^ (u64::from(self.cluster.node().0) << 40) ^ self.drawn.get()
    }

    async fn sleep(&self, span: Duration) {
        self.stl.host().pause(span).await;
    }
}

/// That most of the keepers did not answer; `missing` are those that did not.
pub fn lacking(missing: &[NodeId]) -> CallError {
    let nodes: Vec<String> = missing.iter().map(|node| format!("{node}")).collect();
    let what = format!(
        "most of the nodes that keep the names of datasets have to answer; missing: {}",
        nodes.join(", ")
    );
    CallError::new(Status::Timeout, what)
}

/// A name that a dataset may have; those of records belong to stores.
fn named(name: &str) -> CallResult<Known> {
    let bad = || CallError::new(Status::Invalid, format!("{name:?}: not a name of a dataset"));
    let is_taken = name.starts_with(RECORDS) || name == keeper::CHARTER;
    Known::new(name).filter(|_| !is_taken).ok_or_else(bad)
}

#[service(on = manager, keywords(name = 5, dataset = 3, catalogue = 1))]
impl NameKernel for Name {
    async fn look(&self, caller: &Caller, name: &str) -> CallResult<NameAnswer> {
        let outcome = self.shared.operate(named(name)?, Task::Read, caller.deadline).await;
        Ok(travel::answer(outcome))
    }

    async fn change(
        &self,
        caller: &Caller,
        name: &str,
        change: u64,
        expected: NameExpectation,
        to: Meaning,
    ) -> CallResult<NameAnswer> {
        if change == 0 {
            let what = "a change has a number that is not zero";
            return Err(CallError::new(Status::Invalid, what));
        }
        let (expect, to) = (travel::expect(expected), travel::what(to));
        let task = Task::Change { id: change, expect, to };
        let outcome = self.shared.operate(named(name)?, task, caller.deadline).await;
        Ok(travel::answer(outcome))
    }

    async fn list(&self, caller: &Caller, after: &str) -> CallResult<NamePage> {
        let after = (!after.is_empty()).then(|| named(after)).transpose()?;
        self.shared.list(after, caller.deadline).await
    }

    async fn ask(&self, message: Bytes<'_>) -> CallResult<Blob> {
        let answer = self.shared.answer(Ask::decode(&message.0)?).await?;
        Ok(Blob(answer.encode()?))
    }

    fn sweep(&self) -> CallResult<()> {
        self.shared.sweep_soon();
        Ok(())
    }

    async fn standing(&self) -> CallResult<String> {
        let nodes = |nodes: Vec<NodeId>| {
            let nodes: Vec<String> = nodes.iter().map(|node| format!("{node}")).collect();
            nodes.join(", ")
        };
        Ok(match self.shared.standing().await? {
            Standing::In => String::from(KEEPS),
            Standing::Waiting(others) => {
                format!("it is new, and waits for all keepers: {}", nodes(others))
            }
            Standing::Returning(others) => {
                format!("it has begun anew, and waits for one of {}", nodes(others))
            }
            Standing::Behind(others) => {
                format!(
                    "its disk is an old copy, and counts when all keepers are in: {}",
                    nodes(others)
                )
            }
            Standing::Taking => String::from("its disk is new: it is given what the others have"),
            Standing::Lost(others) => {
                format!("its disk is new, and so are those of most keepers: {}", nodes(others))
            }
        })
    }
}
