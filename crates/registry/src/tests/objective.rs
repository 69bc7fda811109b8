//! Queries that want the least of an attribute.

use proptest::prelude::*;

use super::*;

fn costing(cost: Option<i64>) -> NewInstance {
    let mut new = policy("it", 1, &[("any", 1)]);
    new.attributes.to_mut().extend(cost.map(|cost| Attribute::int("cost", cost)));
    new
}

fn registry(costs: &[Option<i64>]) -> (Registry, Vec<Handle>) {
    let mut registry = Registry::new();
    let ty = registry.register(scheduling()).unwrap();
    let mut handles = Vec::new();
    for (at, cost) in costs.iter().enumerate() {
        handles.push(registry.publish(ty, costing(*cost), core(at as u16)).unwrap());
    }
    (registry, handles)
}

fn find(registry: &Registry, random: u64) -> Handle {
    let query = Query::of(TypeQuery::Name("sched")).least("cost", random);
    registry.find(&query).unwrap().handle
}

#[test]
fn the_one_with_the_least_is_found() {
    let (registry, handles) = registry(&[Some(300), None, Some(100), Some(111)]);
    for random in [0, 7, u64::MAX, 1 << 63, 0x1234_5678_9abc_def0] {
        assert_eq!(find(&registry, random), handles[2]);
    }
    let none = Query::of(TypeQuery::Name("sched")).keywords(&["other"]).least("cost", 1);
    assert_eq!(registry.find(&none), Err(FindError::NoMatch), "it has no default");
}

#[test]
fn of_those_that_are_about_as_good_each_gets_its_share() {
    let (mut registry, handles) = registry(&[Some(100), Some(110), Some(105), Some(200)]);
    let mut random = 1u64;
    for subject in 0..300 {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let handle = find(&registry, random);
        let target = Target::Instance(handle.instance);
        registry.bind(Caller::Operator, Subject(subject), &target, &[]).unwrap();
    }
    let counts: Vec<_> = handles.iter().map(|it| registry.subjects(it.instance).count()).collect();
    assert!(counts[..3].iter().all(|count| (95..=105).contains(count)), "{counts:?}");
    assert_eq!(counts[3], 0);
}

#[test]
fn who_was_not_measured_is_tried() {
    let mut registry = Registry::new();
    let ty = registry.register(scheduling()).unwrap();
    let known = registry.publish(ty, policy("known", 1, &[]), core(1)).unwrap();
    let new = registry.publish(ty, policy("new", 1, &[]), core(2)).unwrap();
    registry.observe(known.instance, Some(Quality { latency_ns: 500, failures_ppm: 0 })).unwrap();
    let find = |registry: &Registry, random| {
        let query = Query::of(TypeQuery::Name("sched")).least("qos_latency_ns", random);
        registry.find(&query).unwrap().handle
    };
    assert!((0..16).any(|at| find(&registry, at << 28) == new));
    let slow = Quality { latency_ns: 5000, failures_ppm: 9 };
    registry.observe(new.instance, Some(slow)).unwrap();
    assert!((0..16).all(|at| find(&registry, at << 28) == known));
    let most = AttributeValue::Int(0);
    let no_failures =
        [Constraint { name: "qos_failures_ppm", relation: Relation::AtMost, value: &most }];
    let query = Query::of(TypeQuery::Name("sched")).constraints(&no_failures);
    assert_eq!(registry.find(&query).unwrap().handle, known);
    // What was not called lately may be better now.
    registry.observe(new.instance, None).unwrap();
    assert!((0..16).any(|at| find(&registry, at << 28) == new));
}

#[test]
fn what_was_measured_counts_and_not_what_was_declared() {
    let mut registry = Registry::new();
    let ty = registry.register(scheduling()).unwrap();
    let declaring = |latency| {
        let mut new = policy("it", 1, &[]);
        new.attributes.to_mut().push(Attribute::int(LATENCY, latency));
        new
    };
    let boasts = registry.publish(ty, declaring(10), core(1)).unwrap();
    let honest = registry.publish(ty, declaring(100), core(2)).unwrap();
    let find = |registry: &Registry| {
        let query = Query::of(TypeQuery::Name("sched")).least(LATENCY, 3);
        registry.find(&query).unwrap().handle
    };
    assert_eq!(find(&registry), boasts);
    let found = Quality { latency_ns: 1000, failures_ppm: 0 };
    registry.observe(boasts.instance, Some(found)).unwrap();
    assert_eq!(find(&registry), honest);
    let instance = registry.instance(boasts.instance).unwrap();
    assert_eq!((instance.number(LATENCY), instance.quality()), (Some(1000), Some(found)));
    registry.observe(boasts.instance, None).unwrap();
    assert_eq!(find(&registry), boasts);
}

proptest! {
    #[test]
    fn what_is_found_is_within_a_tenth_of_the_best(
        costs in proptest::collection::vec(proptest::option::of(0i64..40), 1..20),
        random: u64,
    ) {
        let (registry, handles) = registry(&costs);
        let found = find(&registry, random);
        let at = handles.iter().position(|it| *it == found).expect("it is one of them");
        match costs.iter().flatten().min() {
            None => prop_assert_eq!(costs[at], None),
            Some(best) => prop_assert!(costs[at].is_some_and(|it| it <= best + best / 10)),
        }
    }
}
