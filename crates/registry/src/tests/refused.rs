//! What is refused, each with its own error, and that it changes nothing.

use alloc::format;
use alloc::vec::Vec;

use super::*;
use crate::limits::*;

#[test]
fn a_type_comes_before_its_instances_and_goes_after_them() {
    let mut registry = Registry::new();
    let ty = registry.register(scheduling()).unwrap();
    let again = registry.register(scheduling());
    assert_eq!(again, Err(RegisterError::NameTaken("sched".into())));
    let same = ServiceType { name: "sched2".into(), ..scheduling() };
    let taken = ("process management".into(), "scheduling".into());
    assert_eq!(registry.register(same), Err(RegisterError::CapabilityTaken(taken.0, taken.1)));
    let handle = registry.publish(ty, policy("rt", 1, &[]), core(0)).unwrap();
    assert_eq!(registry.unregister(ty), Err(UnregisterError::HasInstances(1)));
    registry.unpublish(handle.instance).unwrap();
    assert_eq!(registry.unregister(ty).unwrap(), scheduling());
    assert_eq!(registry.unregister(ty), Err(UnregisterError::UnknownType));
    let late = registry.publish(ty, policy("rt", 1, &[]), core(0));
    assert_eq!(late, Err(PublishError::UnknownType));
    assert_eq!(registry.find(&Query::of(TypeQuery::Id(ty))), Err(FindError::UnknownType));
    assert_ne!(registry.register(scheduling()).unwrap(), ty, "its number is not used again");
}

#[test]
fn a_capability_can_be_in_several_layers() {
    let mut registry = Registry::new();
    let low = ServiceType { name: "low".into(), layer: Layer::Low, ..scheduling() };
    let low = registry.register(low).unwrap();
    let of = TypeQuery::Capability("process management", "scheduling");
    assert_eq!(registry.find_type(of), Some(low));
    let high = registry.register(scheduling()).unwrap();
    assert_eq!(registry.find_type(of), Some(high));
    let of = TypeQuery::CapabilityIn(Layer::Low, "process management", "scheduling");
    assert_eq!(registry.find_type(of), Some(low));
    assert_eq!(registry.types(Layer::Low).count(), 1);
}

#[test]
fn an_improper_instance_is_refused() {
    let mut registry = Registry::new();
    let ty = registry.register(scheduling()).unwrap();
    let mut refused = |new: NewInstance| registry.publish(ty, new, core(0)).unwrap_err();
    let missing = NewInstance { attributes: Vec::new().into(), ..policy("rt", 1, &[]) };
    let expected = AttributeError::Missing("global_priority".into());
    assert_eq!(refused(missing), PublishError::Attribute(expected));
    let expected = PublishError::KeywordTwice("a".into());
    assert_eq!(refused(policy("rt", 1, &[("a", 1), ("a", 2)])), expected);
    assert_eq!(refused(policy("rt", 1, &[("a", 0)])), PublishError::NoWeight("a".into()));
    assert_eq!(refused(policy("", 1, &[])), PublishError::BadName("".into()));
    let long = NewInstance { working: "x".repeat(MAX_TEXT + 1).into(), ..policy("rt", 1, &[]) };
    assert_eq!(refused(long), PublishError::TooLong);
    let keyword = |at| Keyword { word: format!("k{at}").into(), weight: 1 };
    let keywords = (0..=MAX_KEYWORDS).map(keyword).collect();
    let many = NewInstance { keywords, ..policy("rt", 1, &[]) };
    assert_eq!(refused(many), PublishError::TooManyKeywords);
    let handle = registry.publish(ty, policy("rt", 1, &[]), core(0)).unwrap();
    assert_eq!(handle.location.service, ServiceNumber(1), "what was refused took no number");
    let again = registry.publish(ty, policy("rt", 1, &[]), core(0));
    assert_eq!(again, Err(PublishError::Exists("rt".into(), core(0))));
    let there = registry.publish(ty, policy("rt", 1, &[]), core(1)).unwrap();
    let moved = registry.move_to(there.instance, core(0));
    assert_eq!(moved, Err(MoveError::Exists("rt".into(), core(0))));
}

#[test]
fn a_priority_is_a_number_even_if_the_type_does_not_say_so() {
    let mut registry = Registry::new();
    let free = ServiceType { attributes: Vec::new().into(), ..scheduling() };
    let ty = registry.register(free).unwrap();
    let attributes = [Attribute::text("global_priority", "high")].to_vec().into();
    let new = NewInstance { attributes, ..policy("rt", 1, &[]) };
    let expected = AttributeError::WrongKind("global_priority".into(), AttributeKind::Int);
    let refused = registry.publish(ty, new, core(0));
    assert_eq!(refused, Err(PublishError::Attribute(expected)));
}

#[test]
fn an_improper_query_is_refused() {
    let mut registry = Registry::new();
    registry.register(scheduling()).unwrap();
    let query = Query::of(TypeQuery::Name("sched"));
    assert_eq!(registry.find(&query), Err(FindError::NoMatch));
    let many = ["a"; MAX_QUERY_KEYWORDS + 1];
    assert_eq!(registry.find(&query.keywords(&many)), Err(FindError::TooManyKeywords));
    let value = AttributeValue::Text("x".into());
    let constraint = Constraint { name: "label", relation: Relation::AtLeast, value: &value };
    let constraints = [constraint; MAX_ATTRIBUTES + 1];
    let find = |constraints| registry.find(&query.constraints(constraints));
    assert_eq!(find(&constraints), Err(FindError::TooManyConstraints));
    assert_eq!(find(&constraints[..1]), Err(FindError::NoOrder("label".into())));
}

#[test]
fn service_numbers_run_out_and_are_not_given_twice() {
    let mut registry = Registry::new();
    let ty = registry.register(scheduling()).unwrap();
    for expected in 1..=u16::MAX {
        let handle = registry.publish(ty, policy("p", 1, &[("k", 1)]), core(0)).unwrap();
        assert_eq!(handle.location.service, ServiceNumber(expected));
        registry.unpublish(handle.instance).unwrap();
    }
    let more = registry.publish(ty, policy("p", 1, &[]), core(0));
    assert_eq!(more, Err(PublishError::NumbersExhausted));
}

#[test]
fn instances_bindings_and_watchers_are_bounded() {
    let mut registry = Registry::new();
    let ty = registry.register(scheduling()).unwrap();
    let publish = |registry: &mut Registry, at: usize| {
        registry.publish(ty, policy("p", 1, &[]), core(at as u16))
    };
    let first = publish(&mut registry, 0).unwrap();
    for at in 1..MAX_INSTANCES {
        publish(&mut registry, at).unwrap();
    }
    assert_eq!(publish(&mut registry, MAX_INSTANCES), Err(PublishError::TooManyInstances));

    let target = Target::Instance(first.instance);
    let mut bind = |subject| registry.bind(Caller::Operator, Subject(subject), &target, &[]);
    for subject in 0..MAX_BINDINGS as u64 {
        bind(subject).unwrap();
    }
    assert_eq!(bind(MAX_BINDINGS as u64), Err(BindError::TooManyBindings));
    assert!(bind(0).is_ok_and(|bound| bound.unbound.is_some()), "another for the same subject");

    assert_eq!(registry.watch(WatchFilter::All, 0), Err(WatchError::BadCapacity(0)));
    let too_long = MAX_WATCH_QUEUE + 1;
    assert_eq!(registry.watch(WatchFilter::All, too_long), Err(WatchError::BadCapacity(too_long)));
    for _ in 0..MAX_WATCHERS {
        registry.watch(WatchFilter::All, 1).unwrap();
    }
    assert_eq!(registry.watch(WatchFilter::All, 1), Err(WatchError::TooManyWatchers));
}
