//! The composer of a node: composites that somebody has planned, published as services that all
//! find and call by name. Each keeps its plan and is planned anew, as `nile-composer` has it.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use nile_abi::Status;
use nile_composer::{Synthesize, Synthesized};
use nile_interfaces::composer::{ComposerKernel, CompositeEntry, GoalEntry, PartEntry};
use nile_order::SortedMap;
use nile_registry::Layer;
use nile_stl::{CallError, CallResult, CompositeType, Start, Stl, service};
use nile_synthesis::Goal;

use crate::page::page;

/// Composites of one core.
const MOST: usize = 256;

/// The composites of a core, by name.
pub struct Composer {
    stl: Stl,
    composites: RefCell<SortedMap<String, Rc<Synthesized>>>,
}

impl Start for Composer {
    fn start(stl: &Stl) -> Composer {
        Composer { stl: stl.clone(), composites: RefCell::default() }
    }
}

#[service(on = manager, keywords(composer = 5, composition = 3, synthesis = 2))]
impl ComposerKernel for Composer {
    async fn publish(&self, name: String, goal: GoalEntry) -> CallResult<CompositeEntry> {
        self.check_new(&name)?;
        let composite = self.stl.synthesize(&name, Goal::try_from(goal)?).await?;
        let ty = CompositeType {
            doc: String::from("A composite that was planned."),
            subsystem: "composites".into(),
            capability: name.clone(),
            layer: Layer::High,
            keywords: [("composite".into(), 1)].into(),
        };
        composite.publish(ty).await?;
        let entry = entry(&name, &composite);
        self.composites.borrow_mut().insert(name, composite);
        Ok(entry)
    }

    async fn withdraw(&self, name: String) -> CallResult<bool> {
        let known = self.composites.borrow_mut().remove(&name);
        match known {
            Some(composite) => composite.withdraw().await.map(|()| true),
            None => Ok(false),
        }
    }

    fn list(&self, after: &str) -> Vec<CompositeEntry> {
        let composites = self.composites.borrow();
        let behind = composites.iter().filter(|(name, _)| name.as_str() > after);
        page(behind.map(|(name, composite)| entry(name, composite)))
    }
}

impl Composer {
    /// Whether one more has a place here; its plan may take long.
    fn check_new(&self, name: &str) -> CallResult<()> {
        let composites = self.composites.borrow();
        if composites.contains_key(name) {
            let message = format!("there is a composite {name} already; withdraw it first");
            return Err(CallError::new(Status::Exists, message));
        }
        if composites.keys().len() >= MOST {
            let message = format!("a core has {MOST} composites at most; withdraw one");
            return Err(CallError::new(Status::NoMemory, message));
        }
        Ok(())
    }
}

fn entry(name: &str, composite: &Synthesized) -> CompositeEntry {
    let contract = composite.contract();
    let parts = composite.parts().into_iter().map(|part| PartEntry {
        node: part.place.node.0,
        core: part.place.core.0,
        service: part.service,
        method: part.method,
    });
    CompositeEntry {
        name: name.into(),
        parts: parts.collect(),
        latency_ns: contract.latency_ns,
        per_second: (contract.per_second != u64::MAX).then_some(contract.per_second),
        plans: composite.plans(),
        calls: composite.calls(),
    }
}
