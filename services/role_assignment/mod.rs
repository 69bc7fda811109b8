//! The optimisers that say which core is for what, as services (NileOS paper, V): the managing core
//! publishes an instance of `role_assignment` for each. `[roles] policy` names the one that the
//! core manager asks; anybody may ask any of them what it would do.

use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;

use nile_abi::Status;
use nile_interfaces::core_manager::CoreRole;
use nile_interfaces::role_assignment::{
    Assignment, AssignmentEntry, CoreShape, RoleAssignmentKernel, RolesOfCore,
};
use nile_registry::{Attribute, AttributeValue, Caller as Binder};
use nile_roles::{ALL, Core, Optimiser, PerRole, Problem, choose, optimisers};
use nile_stl::{CallError, CallResult, Half, Start, Stl, service};

use crate::instance;

/// The one that finds the best wherever cores are equal.
pub struct Usual;

impl Start for Usual {
    fn start(_: &Stl) -> Usual {
        Usual
    }
}

#[service(on = manager, keywords(role = 5, assignment = 5, exact = 3))]
impl RoleAssignmentKernel for Usual {
    fn describe(&self) -> CallResult<AssignmentEntry> {
        Ok(describe(&optimisers::Exact))
    }

    fn choose(
        &self,
        cores: Vec<CoreShape>,
        demand: Vec<u64>,
        budget: u32,
        seed: u64,
    ) -> CallResult<Assignment> {
        assign(&optimisers::Exact, &cores, &demand, budget, seed)
    }
}

/// One of the optimisers.
struct Published(&'static dyn Optimiser);

impl RoleAssignmentKernel for Published {
    fn describe(&self) -> CallResult<AssignmentEntry> {
        Ok(describe(self.0))
    }

    fn choose(
        &self,
        cores: Vec<CoreShape>,
        demand: Vec<u64>,
        budget: u32,
        seed: u64,
    ) -> CallResult<Assignment> {
        assign(self.0, &cores, &demand, budget, seed)
    }
}

fn describe(optimiser: &dyn Optimiser) -> AssignmentEntry {
    AssignmentEntry { name: optimiser.name().into(), decides: optimiser.explain().into() }
}

fn assign(
    optimiser: &dyn Optimiser,
    cores: &[CoreShape],
    demand: &[u64],
    budget: u32,
    seed: u64,
) -> CallResult<Assignment> {
    let lengths = || CallError::new(Status::Invalid, "speeds and demand are one for each role");
    let core = |it: &CoreShape| {
        let speed = PerRole::try_from(&it.speed[..]).map_err(|_| lengths())?;
        Ok(Core {
            now: CoreRole::set(&it.now),
            keeps: CoreRole::set(&it.keeps),
            may: CoreRole::set(&it.may),
            speed,
            change: it.change,
        })
    };
    let cores: Vec<Core> = cores.iter().map(core).collect::<CallResult<_>>()?;
    let demand = PerRole::try_from(demand).map_err(|_| lengths())?;
    let problem = Problem::new(cores, &demand)
        .map_err(|unfit| CallError::new(Status::Invalid, format!("{unfit}")))?;
    let answer = choose(optimiser, &problem, budget, seed);
    Ok(Assignment {
        cores: answer.roles.iter().map(|it| RolesOfCore { roles: CoreRole::all_of(*it) }).collect(),
        cost: answer.cost.0,
        stays: answer.stays.0,
        judged: answer.evaluations,
    })
}

/// The names of all that are published.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    ALL.iter().map(|optimiser| optimiser.name())
}

/// Publishes an instance for each optimiser; what could not be is logged.
pub async fn publish_all(stl: &Stl) {
    let own = stl.acting_as(Binder::Operator);
    for optimiser in ALL {
        if let Err(error) = publish(&own, optimiser).await {
            let name = optimiser.name();
            own.host().log(format_args!("roles by {name} are not published: {error}"));
        }
    }
}

async fn publish(stl: &Stl, optimiser: &'static dyn Optimiser) -> CallResult<()> {
    let name = optimiser.name();
    let is_exact = name == optimisers::Exact.name();
    let attributes = [Attribute::new("exact", AttributeValue::Bool(is_exact))];
    let keywords = [("role", 5), ("assignment", 5)];
    let make = move |_: &Stl| Half::of::<dyn RoleAssignmentKernel>(Rc::new(Published(optimiser)));
    instance::publish(stl, &REGISTRATION, name, keywords, attributes, make).await
}
