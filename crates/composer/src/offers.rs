//! What there is to plan with: of each service the instance that is best, by what the registry
//! knows, and its pure methods, by what it says of itself.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use nile_bosml::discovery;
use nile_interfaces::registry::{Offered, RegistryClient};
use nile_registry::Caller as Binder;
use nile_stl::{CallResult, MethodNumber, Place, Stl};
use nile_synthesis::{Offer, Quality};

/// How long a call takes of which nothing is known: so a plan has few parts, and who was not called
/// yet is tried.
const UNKNOWN_NS: u64 = 10_000;

/// Offers, and who makes each.
pub struct Offers {
    pub all: Vec<Offer>,
    /// By the places of the offers.
    pub places: Vec<(Place, MethodNumber)>,
}

impl Offers {
    /// Asks the node's registry, and who is new for its schema.
    pub async fn ask(stl: &Stl, shunned: &[Place]) -> CallResult<Offers> {
        // The transport finds services for whoever calls it.
        let operator = stl.acting_as(Binder::Operator);
        // What was just found counts; that it is not heard changes little.
        let _ = operator.report_quality().await;
        let registry = RegistryClient::find(&operator).await?;
        let mut best: BTreeMap<String, (Place, Quality)> = BTreeMap::new();
        for offered in registry.offers_all().await? {
            let place = Place::from(offered.found);
            let may_call = stl.may_bind(&offered.name, offered.layer).is_ok();
            if !may_call || shunned.contains(&place) {
                continue;
            }
            let quality = quality(&offered);
            let known = best.entry(offered.name).or_insert((place, quality));
            if quality.latency_ns < known.1.latency_ns {
                *known = (place, quality);
            }
        }
        let mut offers = Offers { all: Vec::new(), places: Vec::new() };
        for (service, (place, quality)) in best {
            // One that has ended meanwhile offers nothing.
            let Ok(document) = operator.document_at(place).await else { continue };
            let Ok(schema) = discovery::parse(&document) else { continue };
            for (number, method) in schema.methods.iter().enumerate().filter(|(_, it)| it.pure) {
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

fn quality(offered: &Offered) -> Quality {
    let known = |value: u64, unknown: u64| if value == 0 { unknown } else { value };
    Quality {
        latency_ns: known(offered.latency_ns, UNKNOWN_NS),
        per_second: known(offered.per_second, u64::MAX),
        failures_ppm: offered.failures_ppm,
    }
}
