//! What there is to plan with: of each service the instance that is best for the goal, by what the
//! registry knows, and its pure methods, by what it says of itself.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use nile_bosml::discovery;
use nile_bosml::schema::{Callers, Method};
use nile_interfaces::registry::{Offered, RegistryClient};
use nile_registry::Caller as Binder;
use nile_stl::{CallResult, MethodNumber, Place, Stl};
use nile_synthesis::{Goal, Objective, Offer, Quality};

/// How long a call takes of which nothing is known: so a plan has few parts, and who was not called
/// yet is tried.
const UNKNOWN_NS: u64 = 10_000;

/// Offers, and who makes each.
pub struct Offers {
    pub all: Vec<Offer>,
    /// By the places of the offers.
    pub places: Vec<(Place, MethodNumber)>,
}

/// What a composite has found of instances, and is itself.
#[derive(Default)]
pub struct Found {
    /// Whose calls failed: they are in no plan.
    pub shunned: Vec<Place>,
    /// Who takes so many calls in a second at most.
    pub slow: Vec<(Place, u64)>,
    /// Who calls the composite: nobody calls by it what they may not call themselves.
    pub callers: Callers,
}

impl Offers {
    /// Asks the node's registry, and who is new for its schema.
    pub async fn ask(stl: &Stl, goal: &Goal, found: &Found) -> CallResult<Offers> {
        // The transport finds services for whoever calls it.
        let operator = stl.acting_as(Binder::Operator);
        // What was just found counts; that it is not heard changes little.
        let _ = operator.report_quality().await;
        let registry = RegistryClient::find(&operator).await?;
        let mut best: BTreeMap<String, (Place, Quality)> = BTreeMap::new();
        for offered in registry.offers_all().await? {
            let place = Place::from(offered.found);
            let may_call = stl.may_bind(&offered.name, offered.layer).is_ok();
            if !may_call || found.shunned.contains(&place) {
                continue;
            }
            let mut quality = quality(&offered);
            for (_, most) in found.slow.iter().filter(|(it, _)| *it == place) {
                quality.per_second = quality.per_second.min(*most);
            }
            let known = best.entry(offered.name).or_insert((place, quality));
            if rank(goal, &quality) < rank(goal, &known.1) {
                *known = (place, quality);
            }
        }
        let mut offers = Offers { all: Vec::new(), places: Vec::new() };
        for (service, (place, quality)) in best {
            // One that has ended meanwhile offers nothing.
            let Ok(document) = operator.document_at(place).await else { continue };
            let Ok(schema) = discovery::parse(&document) else { continue };
            let fits = |(_, it): &(usize, &Method<'_>)| {
                it.pure && it.callers.and(found.callers) == found.callers
            };
            for (number, method) in schema.methods.iter().enumerate().filter(fits) {
                let method = method.clone().into_owned();
                offers.all.push(Offer { service: service.clone(), method, quality });
                offers.places.push((place, MethodNumber(number as u16)));
            }
        }
        Ok(offers)
    }

    /// Who makes an offer.
    pub fn place_of(&self, offer: &Offer) -> Option<(Place, MethodNumber)> {
        let at = self.all.iter().position(|it| core::ptr::eq(it, offer))?;
        self.places.get(at).copied()
    }
}

/// Where an instance stands among those of its name, the best one first: whoever is good enough,
/// and of those who is best in what the goal wants.
fn rank(goal: &Goal, of: &Quality) -> (bool, u64, u64) {
    let least = goal.least_per_second.unwrap_or(0);
    let most_failures = goal.most_failures_ppm.unwrap_or(u32::MAX);
    let is_bad = of.per_second < least || of.failures_ppm > most_failures;
    match goal.objective {
        Objective::Latency => (is_bad, of.latency_ns, 0),
        Objective::Throughput => (is_bad, u64::MAX - of.per_second, of.latency_ns),
    }
}

fn quality(offered: &Offered) -> Quality {
    Quality {
        latency_ns: offered.latency_ns.unwrap_or(UNKNOWN_NS),
        per_second: offered.per_second.unwrap_or(u64::MAX),
        failures_ppm: offered.failures_ppm,
    }
}
