//! Plans against brute force, and carried out in virtual time.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

use nile_bosml::schema::{Callers, Method, Mode, Parameter, Service, Type};
use nile_registry::composition::{CallId, Plan as Progress, Reference, Slot, Slots, Step};
use nile_registry::{Layer, NewInstance, Place, Registry, ServiceType};
use proptest::prelude::*;

use crate::*;

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn value(name: &'static str) -> Parameter<'static> {
    Parameter::plain(name, Type::String)
}

fn offer(at: usize, takes: &[&'static str], gives: &[&'static str], latency_ns: u64) -> Offer {
    let all = |names: &[&'static str]| names.iter().map(|it| value(it)).collect::<Vec<_>>();
    let method = Method {
        name: "run".into(),
        doc: "".into(),
        mode: Mode::Kernel,
        callers: Callers::ALL,
        pure: true,
        parameters: all(takes).into(),
        reply: all(gives).into(),
    };
    let quality = Quality { latency_ns, per_second: u64::MAX, failures_ppm: 0 };
    Offer { service: format!("s{at}"), method, quality }
}

fn goal(given: &[&str], wanted: &[&str]) -> Goal {
    let all = |names: &[&str]| names.iter().map(|it| Value::of(*it)).collect();
    Goal { given: all(given), wanted: all(wanted), ..Goal::default() }
}

fn services(plan: &Plan<'_>) -> Vec<String> {
    plan.steps.iter().map(|it| it.offer.service.clone()).collect()
}

/// The services as a registry has them.
fn registry(offers: &[Offer]) -> Registry {
    let mut registry = Registry::new();
    for Offer { service, method, .. } in offers {
        let name = || service.clone().into();
        let profile =
            Service { name: name(), doc: "".into(), methods: vec![method.clone()].into() };
        let ty = ServiceType {
            name: name(),
            subsystem: "tests".into(),
            capability: name(),
            layer: Layer::High,
            extends: None,
            description: "".into(),
            profile,
            state: Vec::new().into(),
            attributes: Vec::new().into(),
            parameters: Vec::new().into(),
            default_instance: None,
        };
        let ty = registry.register(ty).unwrap();
        let new = NewInstance {
            name: name(),
            working: "".into(),
            attributes: Vec::new().into(),
            keywords: Vec::new().into(),
        };
        let place = Place { node: nile_abi::NodeId(1), core: nile_abi::CoreId(1) };
        registry.publish(ty, new, place).unwrap();
    }
    registry
}

/// Composes a plan and carries it out with calls that take as long as was said: when it is over.
fn carried_out(plan: &Plan<'_>, offers: &[Offer]) -> u64 {
    let composed = registry(offers).compose(&plan.composition).unwrap();
    let slots = |all: &[Parameter<'static>]| -> Slots<()> {
        all.iter().map(|it| (it.name.clone().into_owned(), Slot::Value(()))).collect()
    };
    let mut progress = Progress::new(&composed, &slots(composed.parameters())).unwrap();
    let mut calls: BTreeMap<(u64, CallId), &Offer> = BTreeMap::new();
    let mut now = 0;
    loop {
        match progress.step() {
            Step::Call(call) => {
                let Reference::Instance(name) = call.service else { panic!("not an instance") };
                let offer = offers.iter().find(|it| it.service == **name).unwrap();
                calls.insert((now + offer.quality.latency_ns, call.id), offer);
            }
            Step::Wait => {
                let ((end, id), offer) = calls.pop_first().expect("it waits for something");
                now = end;
                progress.finish(id, Ok(slots(&offer.method.reply))).unwrap();
            }
            Step::Done(reply) => {
                assert_eq!(reply.len(), composed.reply().len());
                return now;
            }
            Step::Failed(part, status) => panic!("{part}: {status}"),
        }
    }
}

/// The least time by any set of these methods, each of which is tried.
fn brute_force(offers: &[Offer], given: &[&str], wanted: &[&str]) -> Option<u64> {
    (0..1u32 << offers.len()).filter_map(|set| chained(offers, set, given, wanted)).min()
}

/// The time that the methods of a set take, in whatever order they can be called.
fn chained(offers: &[Offer], set: u32, given: &[&str], wanted: &[&str]) -> Option<u64> {
    let mut at: BTreeMap<&str, u64> = given.iter().map(|it| (*it, 0)).collect();
    loop {
        let before = at.clone();
        for (bit, offer) in offers.iter().enumerate().filter(|(bit, _)| set >> bit & 1 == 1) {
            let _ = bit;
            let inputs = offer.method.parameters.iter().map(|it| at.get(&*it.name).copied());
            let Some(begins) = inputs.collect::<Option<Vec<_>>>() else { continue };
            let end = begins.into_iter().max().unwrap_or(0) + offer.quality.latency_ns;
            for output in offer.method.reply.iter() {
                let known = at.entry(NAMES[index(&output.name)]).or_insert(end);
                *known = end.min(*known);
            }
        }
        if at == before {
            break;
        }
    }
    wanted.iter().map(|it| at.get(it).copied()).collect::<Option<Vec<_>>>()?.into_iter().max()
}

fn index(name: &str) -> usize {
    NAMES.iter().position(|it| *it == name).expect("a value is one of these")
}

#[test]
fn a_plan_goes_side_by_side_and_one_after_the_other() {
    let offers = [
        offer(0, &["a"], &["b"], 10),
        offer(1, &["a"], &["c"], 1),
        offer(2, &["b"], &["d"], 1),
        offer(3, &["c"], &["e"], 10),
        offer(4, &["a"], &["d"], 20),
    ];
    let plan = synthesize("all", &goal(&["a"], &["d", "e"]), &offers).unwrap();
    assert_eq!(plan.latency_ns, 11, "no chain waits for the other");
    assert_eq!(services(&plan).len(), 4);
    assert_eq!(carried_out(&plan, &offers), 11);
    // What is given is wanted, too.
    let plan = synthesize("same", &goal(&["a", "c"], &["a", "e"]), &offers).unwrap();
    assert_eq!((services(&plan), plan.latency_ns), (vec![String::from("s3")], 10));
    assert_eq!(carried_out(&plan, &offers), 10);
}

#[test]
fn only_pure_methods_are_called() {
    let mut offers = [offer(0, &["a"], &["b"], 1), offer(1, &["a"], &["b"], 9)];
    offers[0].method.pure = false;
    let plan = synthesize("it", &goal(&["a"], &["b"]), &offers).unwrap();
    assert_eq!(services(&plan), ["s1"]);
    offers[1].method.pure = false;
    let known = SynthesisError::Unknown("a".into(), Vec::new());
    assert_eq!(synthesize("it", &goal(&["a"], &["b"]), &offers), Err(known));
}

#[test]
fn values_meet_by_what_they_mean() {
    let mut offers = [offer(0, &["a"], &["value"], 1), offer(1, &["input"], &["value"], 1)];
    offers[0].method.reply.to_mut()[0].doc = "means b".into();
    offers[1].method.parameters.to_mut()[0].doc = "means b".into();
    offers[1].method.reply.to_mut()[0].doc = "means c".into();
    let plan = synthesize("it", &goal(&["a"], &["c"]), &offers).unwrap();
    assert_eq!(services(&plan), ["s0", "s1"]);
    assert_eq!(carried_out(&plan, &offers), 2);
    // Another type is another value.
    offers[1].method.parameters.to_mut()[0].ty = Type::Uint8;
    let error = synthesize("it", &goal(&["a"], &["c"]), &offers).unwrap_err();
    assert_eq!(error, SynthesisError::Unreachable("c".into()));
    let error = synthesize("it", &goal(&["a"], &["b"]), &offers).unwrap_err();
    assert_eq!(error, SynthesisError::Ambiguous("b".into()));
    let text = Value { meaning: "b".into(), ty: Some(Type::String) };
    let goal = Goal { wanted: vec![text], ..goal(&["a"], &[]) };
    assert_eq!(services(&synthesize("it", &goal, &offers).unwrap()), ["s0"]);
}

#[test]
fn limits_and_throughput_are_kept() {
    let mut offers = [offer(0, &["a"], &["b"], 1), offer(1, &["a"], &["b"], 9)];
    offers[0].quality.per_second = 10;
    offers[1].quality.per_second = 1000;
    let most = Goal { objective: Objective::Throughput, ..goal(&["a"], &["b"]) };
    let plan = synthesize("it", &most, &offers).unwrap();
    assert_eq!((services(&plan), plan.per_second), (vec![String::from("s1")], 1000));
    let quick = Goal { most_latency_ns: Some(5), ..most };
    assert_eq!(synthesize("it", &quick, &offers).unwrap().per_second, 10);
    let both = Goal { least_per_second: Some(11), ..quick };
    let error = synthesize("it", &both, &offers).unwrap_err();
    assert_eq!(error, SynthesisError::TooSlow { best_ns: 9, limit_ns: 5 });
    offers[0].quality.failures_ppm = 2;
    let sound = Goal { most_failures_ppm: Some(1), ..goal(&["a"], &["b"]) };
    assert_eq!(services(&synthesize("it", &sound, &offers).unwrap()), ["s1"]);
}

#[test]
fn what_cannot_be_is_refused() {
    let offers = [offer(0, &["a"], &["b"], 1)];
    let refused = |given: &[&str], wanted: &[&str]| {
        synthesize("it", &goal(given, wanted), &offers).unwrap_err()
    };
    assert_eq!(refused(&["a"], &[]), SynthesisError::NothingWanted);
    assert_eq!(refused(&["a", "a"], &["b"]), SynthesisError::Twice("a".into()));
    assert_eq!(refused(&[], &["b"]), SynthesisError::Unreachable("b".into()));
    let known = vec![String::from("a"), String::from("b")];
    assert_eq!(refused(&["x"], &["b"]), SynthesisError::Unknown("x".into(), known));
    let names: Vec<&'static str> = (0..70).map(|at| &*format!("v{at}").leak()).collect();
    let chain: Vec<_> = (1..70).map(|at| offer(at, &[names[at - 1]], &[names[at]], 1)).collect();
    let long = synthesize("it", &goal(&["v0"], &["v69"]), &chain);
    assert_eq!(long, Err(SynthesisError::TooManyParts(70)));
    let plan = synthesize("it", &goal(&["v0"], &["v63"]), &chain).unwrap();
    assert_eq!(carried_out(&plan, &chain), 63);
}

fn any_offers() -> impl Strategy<Value = Vec<Offer>> {
    let names = |most| proptest::collection::btree_set(0..NAMES.len(), 0..=most);
    let one = (names(3), proptest::collection::btree_set(0..NAMES.len(), 1..=2), 0u64..20);
    proptest::collection::vec(one, 1..=10).prop_map(|all| {
        let named = |set: BTreeSet<usize>| set.into_iter().map(|at| NAMES[at]).collect::<Vec<_>>();
        let each = |(at, (takes, gives, ns))| offer(at, &named(takes), &named(gives), ns);
        all.into_iter().enumerate().map(each).collect()
    })
}

proptest! {
    #[test]
    fn the_plan_is_as_good_as_brute_force(offers in any_offers()) {
        let known = |name: &&&str| {
            let mut all = offers.iter().flat_map(|it| {
                it.method.parameters.iter().chain(it.method.reply.iter())
            });
            all.any(|it| it.name == ***name)
        };
        let given: Vec<&str> = ["a", "b"].iter().filter(|it| known(it)).copied().collect();
        let wanted: Vec<&str> = ["g", "h"].iter().filter(|it| known(it)).copied().collect();
        prop_assume!(!wanted.is_empty());
        let plan = synthesize("it", &goal(&given, &wanted), &offers);
        let best = brute_force(&offers, &given, &wanted);
        prop_assert_eq!(plan.as_ref().ok().map(|it| it.latency_ns), best);
        if let Ok(plan) = plan
            && !plan.steps.is_empty()
        {
            prop_assert_eq!(carried_out(&plan, &offers), plan.latency_ns);
        }
    }
}

#[test]
fn a_thousand_services_are_planned_for() {
    // Layers of 100 values; each method leads from two of one to one of the next.
    let name = |layer: usize, at: usize| -> &'static str { format!("v{layer}_{at}").leak() };
    let mut random = 7u64;
    let mut draw = |most: usize| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (random >> 33) as usize % most
    };
    let mut offers = Vec::new();
    for layer in 0..4 {
        for at in 0..250 {
            let takes = [name(layer, draw(25)), name(layer, draw(25))];
            let takes = if takes[0] == takes[1] { &takes[..1] } else { &takes[..] };
            let gives = [name(layer + 1, at % 25)];
            offers.push(offer(offers.len(), takes, &gives, 1 + draw(1000) as u64));
        }
    }
    let given: Vec<_> = (0..25).map(|at| name(0, at)).collect();
    let plan = synthesize("it", &goal(&given, &[name(4, 3)]), &offers).unwrap();
    assert!(plan.steps.len() >= 4);
    assert_eq!(carried_out(&plan, &offers), plan.latency_ns);
}
