//! Types that extend types.

use alloc::boxed::Box;

use super::*;

/// Pages are replaced, by whatever policy.
fn replacement() -> ServiceType {
    ServiceType { default_instance: Some("recent".into()), ..plain("replacement") }
}

/// A type without rules.
fn plain(name: &'static str) -> ServiceType {
    ServiceType {
        attributes: Vec::new().into(),
        parameters: Vec::new().into(),
        ..other(name, Layer::High)
    }
}

fn extending(name: &'static str, parent: &ServiceType) -> ServiceType {
    ServiceType { extends: Some(Parent::Owned(Box::new(parent.clone()))), ..plain(name) }
}

struct Family {
    registry: Registry,
    all: TypeId,
    pool: TypeId,
    bucket: TypeId,
    recent: Handle,
    first_in: Handle,
}

/// As Dhara tells page replacements apart (IV.B): one pool for all, or a bucket for each.
fn family() -> Family {
    let mut registry = Registry::new();
    let all = registry.register(replacement()).unwrap();
    let pool = registry.register(extending("pool", &replacement())).unwrap();
    let bucket = ServiceType {
        attributes: [rule("queue", AttributeKind::Int, true)].to_vec().into(),
        parameters: [rule("pages", AttributeKind::Int, true)].to_vec().into(),
        ..extending("bucket", &replacement())
    };
    let bucket = registry.register(bucket).unwrap();
    let recent = registry.publish(pool, policy("recent", 20, &[("random", 3)]), core(1)).unwrap();
    let mut first_in = policy("first_in", 20, &[("sequential", 5), ("random", 1)]);
    first_in.attributes.to_mut().push(Attribute::int("queue", 100));
    let first_in = registry.publish(bucket, first_in, core(2)).unwrap();
    Family { registry, all, pool, bucket, recent, first_in }
}

#[test]
fn a_query_for_the_parent_finds_instances_of_its_children() {
    let Family { registry, all, pool, bucket, recent, first_in } = family();
    let find = |ty, words: &[&str]| {
        let found = registry.find(&Query::of(TypeQuery::Id(ty)).keywords(words));
        found.map(|it| (it.ty, it.handle, it.by))
    };
    assert_eq!(find(all, &["sequential"]), Ok((bucket, first_in, Match::Keywords(5))));
    assert_eq!(find(all, &["random"]), Ok((pool, recent, Match::Keywords(3))));
    assert_eq!(find(all, &["other"]), Ok((pool, recent, Match::Default)));
    assert_eq!(find(all, &[]), Ok((pool, recent, Match::Unranked)));
    assert_eq!(find(bucket, &["random"]), Ok((bucket, first_in, Match::Keywords(1))));
    assert_eq!(find(bucket, &["other"]), Err(FindError::NoMatch), "its default is nobody there");
    let near = Query::of(TypeQuery::Id(all)).prefer(core(2));
    assert_eq!(registry.find(&near).unwrap().handle, first_in);
    let order: Vec<_> = registry.by_priority(all).map(|(ty, it)| (ty, it.handle())).collect();
    assert_eq!(order, [(pool, recent), (bucket, first_in)], "they share one order");
    assert_eq!(registry.by_priority(bucket).count(), 1);
}

#[test]
fn a_subject_is_bound_to_one_of_the_whole_family() {
    let Family { mut registry, all, pool, bucket, recent, first_in } = family();
    let (subject, pages) = (Subject(7), [Attribute::int("pages", 9)]);
    let mut bind = |to: Handle, with: &[Attribute]| {
        registry.bind(Caller::Operator, subject, &Target::Instance(to.instance), with)
    };
    assert_eq!(bind(recent, &[]).unwrap().unbound, None);
    let missing = AttributeError::Missing("pages".into());
    assert_eq!(bind(first_in, &[]), Err(BindError::Parameter(missing)));
    let unbound = bind(first_in, &pages).unwrap().unbound.unwrap();
    assert_eq!((unbound.ty, unbound.handle), (pool, recent));
    assert_eq!(registry.binding(subject, all).unwrap().0, first_in);
    assert_eq!(registry.binding(subject, pool), None);
    assert_eq!(registry.unbind(subject, pool), None, "it has none of these bound");
    let gone = registry.unpublish(first_in.instance).unwrap();
    assert_eq!(gone.unbound[0].ty, bucket);
    assert_eq!(registry.binding(subject, all), None);
}

#[test]
fn who_watches_the_parent_hears_of_children() {
    let Family { mut registry, all, pool, bucket, recent, .. } = family();
    let watch = |registry: &mut Registry, ty| registry.watch(WatchFilter::Type(ty), 9).unwrap();
    let [all, bucket] = [all, bucket].map(|ty| watch(&mut registry, ty));
    registry.unpublish(recent.instance).unwrap();
    let told = registry.next_event(all).unwrap();
    assert!(matches!(told, Some(Event::Unpublish { ty, .. }) if ty == pool));
    assert_eq!(registry.next_event(bucket), Ok(None));
}

#[test]
fn improper_extensions_are_refused() {
    let mut registry = Registry::new();
    // Neither can be the first, so nothing extends itself.
    let circle = extending("a", &extending("b", &plain("a")));
    let unknown = |name: &str| Err(RegisterError::UnknownParent(name.into()));
    assert_eq!(registry.register(circle), unknown("b"));
    assert_eq!(registry.register(extending("a", &plain("a"))), unknown("a"));
    let parent = other("parent", Layer::High);
    let ty = registry.register(parent.clone()).unwrap();
    let low = ServiceType { layer: Layer::Low, ..extending("low", &parent) };
    assert_eq!(registry.register(low), Err(RegisterError::OtherLayer("parent".into())));
    let twice = ServiceType { attributes: parent.attributes.clone(), ..extending("c", &parent) };
    let error = AttributeError::Twice("global_priority".into());
    assert_eq!(registry.register(twice), Err(RegisterError::Attribute(error)));
    let child = registry.register(extending("child", &parent)).unwrap();
    assert_eq!(registry.unregister(ty), Err(UnregisterError::IsExtended(1)));
    let missing = NewInstance { attributes: Vec::new().into(), ..policy("it", 1, &[]) };
    let error = AttributeError::Missing("global_priority".into());
    let refused = registry.publish(child, missing, core(1));
    assert_eq!(refused, Err(PublishError::Attribute(error)), "its parent wants it");
    registry.unregister(child).unwrap();
    registry.unregister(ty).unwrap();
}

#[test]
fn a_type_extends_so_many_at_most() {
    let mut registry = Registry::new();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    let mut last = plain("first");
    registry.register(last.clone()).unwrap();
    for (at, name) in names.into_iter().enumerate() {
        let ty = extending(name, &last);
        let registered = registry.register(ty.clone());
        if at < crate::limits::MAX_ANCESTORS {
            registered.unwrap();
            last = ty;
        } else {
            assert_eq!(registered, Err(RegisterError::TooDeep));
        }
    }
}
