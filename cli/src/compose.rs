//! `nile compose`: which services lead from the values that there are to those that are wanted, in
//! the best way. The planner runs here, over what the services of the cluster say of themselves.
//! `published`: plans that nodes keep.

pub mod args;
mod published;

use std::collections::BTreeMap;

use nile_bosml::discovery;
use nile_gossip::Instance;
use nile_registry::Layer;
use nile_registry::composition::{Shape, Source, Wire};
use nile_synthesis::{Offer, Plan, Quality, synthesize};
use serde_json::{Value, json};

use crate::cluster::services;
use crate::cluster::session::Session;
use crate::failure::Failure;
use crate::peer::known::{self, Target};
use crate::table;
use args::Compose;

/// How long a call of a method takes of which nothing is known: so a plan has few parts.
const UNKNOWN_NS: u64 = 10_000;

/// Plans, and shows the plan; or what is published.
pub fn run(options: &Compose) -> Result<(), Failure> {
    let mut session = Session::open(&options.query.which, options.query.timeout)?;
    match options {
        Compose { publish: Some(name), .. } => return published::add(&mut session, name, options),
        Compose { withdraw: Some(name), .. } => return published::end(&mut session, name, options),
        Compose { published: true, .. } => return published::list(&mut session, options),
        _ => {}
    }
    let offers = offers(&mut session)?;
    let plan = synthesize("plan", &options.goal(), &offers);
    let plan = plan.map_err(|error| Failure::request(error.to_string()))?;
    match options.query.json {
        true => crate::print(&format!("{}\n", document(&plan)))?,
        false => crate::print(&text(&plan, &offers, options.explain))?,
    }
    Failure::unless_all_asked(&session.away())
}

/// The pure methods of the cluster that a service of the high layer may call: of its own and the
/// one beneath.
fn offers(session: &mut Session) -> Result<Vec<Offer>, Failure> {
    let mut asked: BTreeMap<String, (Target, Quality)> = BTreeMap::new();
    for (target, it) in known::instances(session.peer.known()) {
        if it.layer > Layer::Low {
            continue;
        }
        let quality = quality(it);
        // A call by name goes to some instance of it: the best that is known of any.
        let known = asked.entry(it.name.clone()).or_insert((target, quality));
        if quality.latency_ns < known.1.latency_ns {
            *known = (target, quality);
        }
    }
    let mut offers = Vec::new();
    for (service, (target, quality)) in asked {
        // One that has ended meanwhile offers nothing.
        let Ok(schema) = services::schema(session, target)? else { continue };
        let Ok(schema) = discovery::parse(&schema) else { continue };
        for method in schema.methods.iter().filter(|it| it.pure) {
            let method = method.clone().into_owned();
            offers.push(Offer { service: service.clone(), method, quality });
        }
    }
    Ok(offers)
}

/// How good an instance says that it is, or was found.
fn quality(it: &Instance) -> Quality {
    let number = |name: &str| {
        let attribute = it.attributes.iter().find(|it| it.name == name)?;
        attribute.value.parse::<u64>().ok()
    };
    let failures = number("qos_failures_ppm").and_then(|it| u32::try_from(it).ok());
    Quality {
        latency_ns: number("qos_latency_ns").unwrap_or(UNKNOWN_NS),
        per_second: number("qos_calls_per_second").unwrap_or(u64::MAX),
        failures_ppm: failures.unwrap_or(0),
    }
}

/// What each part takes, and from where; then what the whole gives.
fn wires<'p>(plan: &'p Plan<'_>) -> (Vec<&'p [Wire]>, &'p [Wire]) {
    match &plan.composition.shape {
        Shape::Network(it) => {
            (it.parts.iter().map(|(_, wires)| wires.as_slice()).collect(), &it.results)
        }
        _ => (Vec::new(), &[]),
    }
}

fn source(wire: &Wire) -> String {
    match &wire.from {
        Source::Input(name) => name.to_string(),
        Source::Output(part, name) => format!("{part}.{name}"),
    }
}

fn text(plan: &Plan<'_>, offers: &[Offer], explain: bool) -> String {
    let (parts, results) = wires(plan);
    let joined = |wires: &[Wire]| {
        let each = wires.iter().map(|wire| format!("{} = {}", wire.to, source(wire)));
        each.collect::<Vec<_>>().join(", ")
    };
    let mut rows = vec![["part", "begins", "ends", "takes"].map(String::from).to_vec()];
    for (step, wires) in plan.steps.iter().zip(parts) {
        let name = format!("{}.{}", step.offer.service, step.offer.method.name);
        let (begins, ends) = (micros(step.begins_ns), micros(step.ends_ns));
        rows.push(vec![name, begins, ends, joined(wires)]);
    }
    if !explain {
        rows.iter_mut().for_each(|row| drop(row.drain(1..3)));
    }
    let mut said = table::columns("", &rows);
    said += &format!("gives {}, after {}\n", joined(results), micros(plan.latency_ns));
    if explain {
        let least = match plan.per_second {
            u64::MAX => "a throughput that is not known".into(),
            calls => format!("{calls} calls in a second"),
        };
        let methods = offers.len();
        said += &format!("the best of {methods} pure methods; its slowest part has {least}\n");
    }
    said
}

fn micros(ns: u64) -> String {
    format!("{}.{:03} us", ns / 1000, ns % 1000)
}

fn document(plan: &Plan<'_>) -> Value {
    let (parts, results) = wires(plan);
    let object = |wires: &[Wire]| -> Value {
        let fields = wires.iter().map(|wire| (wire.to.to_string(), Value::from(source(wire))));
        Value::Object(fields.collect())
    };
    let step = |(step, wires): (&nile_synthesis::Step<'_>, &[Wire])| {
        json!({
            "service": step.offer.service,
            "method": step.offer.method.name,
            "begins_ns": step.begins_ns,
            "ends_ns": step.ends_ns,
            "takes": object(wires),
        })
    };
    let steps: Vec<Value> = plan.steps.iter().zip(parts).map(step).collect();
    json!({
        "steps": steps,
        "gives": object(results),
        "latency_ns": plan.latency_ns,
        "per_second": (plan.per_second != u64::MAX).then_some(plan.per_second),
    })
}
