//! What the papers and the design say, one example each.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::vec::Vec;

use nile_abi::Generation;
use proptest::prelude::*;

use super::*;
use crate::limits::MAX_TEXT;

/// Three policies of one type, each on a core of its own.
fn three() -> (Registry, TypeId, [Handle; 3]) {
    let mut registry = Registry::new();
    let ty = registry.register(scheduling()).unwrap();
    let policies = [
        policy("rt", 30, &[("realtime", 9), ("latency", 5)]),
        policy("fair", 20, &[("interactive", 7), ("latency", 4)]),
        policy("fifo", 10, &[("batch", 8), ("throughput", 6)]),
    ];
    let mut on = 0;
    let handles = policies.map(|policy| {
        on += 1;
        registry.publish(ty, policy, core(on)).unwrap()
    });
    (registry, ty, handles)
}

const SCHED: TypeQuery<'static> = TypeQuery::Capability("process management", "scheduling");

#[test]
fn the_greatest_sum_of_weights_is_found() {
    let (registry, ty, [rt, fair, _]) = three();
    let find = |words: &[&str]| registry.find(&Query::of(SCHED).keywords(words)).unwrap();
    let found = find(&["latency"]);
    assert_eq!(found, Found { ty, handle: rt, by: Match::Keywords(5) });
    let found = find(&["interactive", "latency"]);
    assert_eq!(found, Found { ty, handle: fair, by: Match::Keywords(11) });
    // A word that stands there twice counts once, and an unknown one not at all.
    let found = find(&["interactive", "latency", "latency", "cheap"]);
    assert_eq!(found.by, Match::Keywords(11));
}

#[test]
fn what_matches_nothing_goes_to_the_default() {
    let (mut registry, _, [_, fair, fifo]) = three();
    let query = Query::of(SCHED).keywords(&["cheap"]);
    let found = registry.find(&query).unwrap();
    assert_eq!((found.handle, found.by), (fair, Match::Default));
    let ten = AttributeValue::Int(10);
    let constraint =
        Constraint { name: "global_priority", relation: Relation::AtMost, value: &ten };
    let constrained = query.constraints(core::slice::from_ref(&constraint));
    assert_eq!(registry.find(&constrained), Err(FindError::NoMatch));
    let any = Query { keywords: &[], ..constrained };
    assert_eq!(registry.find(&any).unwrap().handle, fifo);
    registry.unpublish(fair.instance).unwrap();
    assert_eq!(registry.find(&query), Err(FindError::NoMatch));
}

#[test]
fn ties_go_to_the_preferred_core_and_else_to_the_oldest() {
    let mut registry = Registry::new();
    let ty = registry.register(scheduling()).unwrap();
    let on: Vec<_> = (0..200)
        .map(|at| registry.publish(ty, policy("fair", 1, &[("a", 2)]), core(at)).unwrap())
        .collect();
    let a = Query::of(TypeQuery::Name("sched")).keywords(&["a"]);
    assert_eq!(registry.find(&a).unwrap().handle, on[0]);
    assert_eq!(registry.find(&a.prefer(core(77))).unwrap().handle, on[77]);
    assert_eq!(registry.find(&a.prefer(core(500))).unwrap().handle, on[0]);
    let b = a.keywords(&["b"]).prefer(core(78));
    assert_eq!(registry.find(&b).unwrap().handle, on[78], "the default is on every core");
    assert_eq!(registry.find_named("fair", Some(core(9))).unwrap().handle, on[9]);
    assert_eq!(registry.find_named("fair", None).unwrap().handle, on[0]);
    let elsewhere = |at: u16| Place { node: NodeId(7), core: CoreId(at) };
    let there = registry.publish(ty, policy("fair", 1, &[("a", 2)]), elsewhere(3)).unwrap();
    for query in [Query::of(TypeQuery::Name("sched")), a, b] {
        let found = registry.find(&query.prefer(elsewhere(1))).unwrap();
        assert_eq!(found.handle, there, "the same node goes before the oldest");
        assert_eq!(registry.find(&query.prefer(core(500))).unwrap().handle, on[0]);
    }
    assert_eq!(registry.find_named("fair", Some(elsewhere(1))).unwrap().handle, there);
    let unknown = registry.find_named("fare", None);
    assert_eq!(unknown, Err(FindError::UnknownName("fare".into())));
}

#[test]
fn what_is_gone_is_not_found_when_rows_are_numbered_anew() {
    let mut registry = Registry::new();
    let ty = registry.register(scheduling()).unwrap();
    let words = [("a", 1), ("b", 2), ("c", 3)];
    let publish = |registry: &mut Registry, at: u16| {
        let policy = policy("p", 1, &words[usize::from(at) % 3..][..1]);
        registry.publish(ty, policy, core(at)).unwrap()
    };
    let mut there: Vec<_> = (0..300).map(|at| publish(&mut registry, at)).collect();
    let compare = |registry: &Registry, there: &[Handle]| {
        for (at, (word, _)) in words.iter().enumerate() {
            let has = |it: &&Handle| usize::from(it.location.core.0) % 3 == at;
            let oldest = there.iter().find(has).copied();
            let query = [*word];
            let query = Query::of(TypeQuery::Id(ty)).keywords(&query);
            assert_eq!(registry.find(&query).ok().map(|it| it.handle), oldest);
        }
    };
    // From both ends and the middle, until one is left.
    for at in (0..299u16).rev() {
        let gone = there.remove(usize::from(at * 7 % (at + 2)));
        registry.unpublish(gone.instance).unwrap();
        compare(&registry, &there);
    }
    there.extend((300..400).map(|at| publish(&mut registry, at)));
    compare(&registry, &there);
    assert_eq!(registry.instances(ty).map(Instance::handle).collect::<Vec<_>>(), there);
}

#[test]
fn a_taken_priority_is_lowered_and_placed_directly_after() {
    let (mut registry, ty, [rt, fair, fifo]) = three();
    let late = registry.publish(ty, policy("late", 20, &[]), core(1)).unwrap();
    let later = registry.publish(ty, policy("later", 20, &[]), core(1)).unwrap();
    let order: Vec<_> = registry.by_priority(ty).map(|(_, it)| it.handle()).collect();
    assert_eq!(order, [rt, fair, late, later, fifo]);
    let got = registry.instance(later.instance).unwrap().priority();
    assert_eq!(got, Some(Priority { global: 20, lowered: 2 }));
}

proptest! {
    #[test]
    fn repeated_priorities_keep_their_order(wanted in proptest::collection::vec(-3i64..4, 1..200)) {
        let mut registry = Registry::new();
        let ty = registry.register(scheduling()).unwrap();
        let mut expected = Vec::new();
        for priority in wanted {
            // The place is the instance's number, so that one name serves for all.
            let place = core(expected.len() as u16);
            let handle = registry.publish(ty, policy("p", priority, &[]), place).unwrap();
            expected.push((priority, handle));
        }
        // Stable: equal ones stay in the order in which they came.
        expected.sort_by_key(|(priority, _)| core::cmp::Reverse(*priority));
        let order: Vec<_> = registry.by_priority(ty).map(|(_, it)| it.handle()).collect();
        prop_assert_eq!(order, expected.iter().map(|(_, it)| *it).collect::<Vec<_>>());
        let got: Vec<_> = registry.by_priority(ty).filter_map(|(_, it)| it.priority()).collect();
        prop_assert!(got.is_sorted_by(|higher, lower| higher > lower), "no two are equal");
    }
}

#[test]
fn binding_again_unbinds_first() {
    let (mut registry, ty, [rt, fair, _]) = three();
    let (task, user) = (Subject(7), Caller::User);
    let parameters = [Attribute::int("local_priority", 3)];
    let query = Query::of(SCHED).keywords(&["realtime"]);
    let bound = registry.bind(user, task, &Target::Query(query), &parameters).unwrap();
    assert_eq!(bound, Bound { unbound: None, ty, handle: rt });
    assert_eq!(registry.binding(task, ty), Some((rt, &parameters[..])));

    let bound = registry.bind(user, task, &Target::Instance(fair.instance), &[]).unwrap();
    let was = Unbound { subject: task, ty, handle: rt, parameters: parameters.clone().into() };
    assert_eq!(bound, Bound { unbound: Some(was), ty, handle: fair });
    assert_eq!(registry.subjects(rt.instance).count(), 0);
    assert_eq!(registry.subjects(fair.instance).collect::<Vec<_>>(), [task]);

    let gone = registry.unpublish(fair.instance).unwrap();
    assert_eq!(gone.unbound.iter().map(|it| it.subject).collect::<Vec<_>>(), [task]);
    assert_eq!(registry.binding(task, ty), None);
    assert_eq!(registry.unbind(task, ty), None);
}

#[test]
fn a_refused_bind_unbinds_nothing() {
    let (mut registry, ty, [rt, fair, _]) = three();
    let task = Subject(7);
    let to = |handle: Handle| Target::Instance(handle.instance);
    registry.bind(Caller::User, task, &to(rt), &[]).unwrap();
    let wrong = [Attribute::text("local_priority", "high")];
    let error = registry.bind(Caller::User, task, &to(fair), &wrong).unwrap_err();
    let expected = AttributeError::WrongKind("local_priority".into(), AttributeKind::Int);
    assert_eq!(error, BindError::Parameter(expected));
    let unknown = [Attribute::int("nice", 3)];
    let error = registry.bind(Caller::User, task, &to(fair), &unknown).unwrap_err();
    let said = format!("{error}");
    assert!(
        said.contains("no attribute `nice`") && said.ends_with("there is local_priority"),
        "{said}"
    );
    let low = Caller::Service(Layer::Low);
    let error = registry.bind(low, task, &to(fair), &[]).unwrap_err();
    assert_eq!(error, BindError::Layer(LayerError { caller: low, layer: Layer::High }));
    assert_eq!(registry.binding(task, ty).unwrap().0, rt);
}

#[test]
fn a_layer_is_not_skipped_but_by_the_operator() {
    let mut registry = Registry::new();
    let handles = Layer::ALL.map(|layer| {
        let ty = registry.register(other(layer.name(), layer)).unwrap();
        registry.publish(ty, policy(layer.name(), 1, &[]), core(0)).unwrap()
    });
    let mut bind = |caller, at: usize| {
        registry.bind(caller, Subject(1), &Target::Instance(handles[at].instance), &[])
    };
    let high = Caller::Service(Layer::High);
    assert!(bind(high, 0).is_ok() && bind(high, 1).is_ok());
    let error = bind(high, 2).unwrap_err();
    assert_eq!(error, BindError::Layer(LayerError { caller: high, layer: Layer::Micro }));
    assert!(bind(Caller::User, 1).is_err());
    assert!(bind(Caller::Operator, 2).is_ok());
}

#[test]
fn a_moved_instance_has_a_new_generation_and_a_gone_one_is_dead() {
    let (mut registry, ty, [rt, ..]) = three();
    registry.bind(Caller::User, Subject(1), &Target::Instance(rt.instance), &[]).unwrap();
    let Moved { from, to } = registry.move_to(rt.instance, core(9)).unwrap();
    assert_eq!((from, to.generation), (rt, Generation(2)));
    assert_eq!((to.location.place(), to.location.service), (core(9), rt.location.service));
    assert_eq!(registry.state_of(rt), HandleState::Moved(to));
    assert_eq!(registry.state_of(to), HandleState::Live);
    assert_eq!(registry.binding(Subject(1), ty).unwrap().0, to, "it is still bound");
    assert_eq!(registry.find_named("rt", None).unwrap().handle, to);
    assert_eq!(registry.move_to(rt.instance, core(9)), Err(MoveError::AlreadyThere(core(9))));

    registry.unpublish(rt.instance).unwrap();
    assert_eq!(registry.state_of(to), HandleState::Dead);
    assert_eq!(registry.unpublish(rt.instance), Err(UnknownInstance));
    assert_eq!(registry.move_to(rt.instance, core(1)), Err(MoveError::UnknownInstance));
    let again = registry.publish(ty, policy("rt", 30, &[]), core(9)).unwrap();
    assert_eq!(registry.state_of(to), HandleState::Dead, "its successor is somebody else");
    assert!(again.instance != rt.instance && again.location.service != rt.location.service);
}

#[test]
fn a_dead_core_takes_its_instances_with_it() {
    let (mut registry, ty, [rt, fair, _]) = three();
    let timer = registry.register(other("timer", Layer::Low)).unwrap();
    let tick = registry.publish(timer, policy("tick", 1, &[]), core(1)).unwrap();
    let watcher = registry.watch(WatchFilter::All, 8).unwrap();
    let gone = registry.remove_core(core(1));
    assert_eq!(gone.iter().map(|it| it.handle).collect::<Vec<_>>(), [rt, tick]);
    let told: Vec<_> = core::iter::from_fn(|| registry.next_event(watcher).unwrap()).collect();
    let dead = |ty, name: &str, handle| Event::Unpublish { ty, name: name.into(), handle };
    assert_eq!(told, [dead(ty, "rt", rt), dead(timer, "tick", tick)]);
    assert_eq!(registry.state_of(fair), HandleState::Live);
    assert_eq!(registry.instance_count(), 2);
}

#[test]
fn watchers_are_told_in_order_and_what_they_missed() {
    let (mut registry, ty, [rt, ..]) = three();
    let timer = registry.register(other("timer", Layer::Low)).unwrap();
    let watcher = registry.watch(WatchFilter::Type(ty), 2).unwrap();
    let Moved { from, to } = registry.move_to(rt.instance, core(8)).unwrap();
    registry.publish(timer, policy("tick", 1, &[]), core(1)).unwrap();
    registry.unpublish(rt.instance).unwrap();
    for at in 0..3 {
        registry.publish(ty, policy("more", 1, &[]), core(at)).unwrap();
    }
    let mut next = || registry.next_event(watcher).unwrap();
    let name = || "rt".into();
    assert_eq!(next(), Some(Event::Move { ty, name: name(), from, to }));
    assert_eq!(next(), Some(Event::Unpublish { ty, name: name(), handle: to }));
    assert_eq!(next(), Some(Event::Missed(3)));
    assert_eq!(next(), None);
    let handle = registry.publish(ty, policy("new", 1, &[]), core(1)).unwrap();
    let event = registry.next_event(watcher).unwrap();
    assert_eq!(event, Some(Event::Publish { ty, name: "new".into(), handle }));
    registry.unwatch(watcher).unwrap();
    assert_eq!(registry.next_event(watcher), Err(WatchError::UnknownWatcher));
}

#[test]
fn an_expelled_policy_says_so_until_it_is_published_anew() {
    let (mut registry, ty, [rt, ..]) = three();
    let watcher = registry.watch(WatchFilter::Type(ty), 8).unwrap();
    let why = |registry: &Registry, id| {
        let attributes = registry.instance(id).unwrap().attributes();
        attributes.iter().find(|it| it.name == EXPELLED).map(|it| it.value.clone())
    };
    let before = registry.instance(rt.instance).unwrap().attributes().to_vec();
    let long = "é".repeat(MAX_TEXT);
    for (said, kept) in [("n1.c2: it lied", "n1.c2: it lied"), (&long, &long[..MAX_TEXT])] {
        registry.expel(rt.instance, said).unwrap();
        let kept = AttributeValue::Text(kept.to_owned().into());
        assert_eq!(why(&registry, rt.instance), Some(kept));
        let event = registry.next_event(watcher).unwrap();
        assert_eq!(event, Some(Event::Expel { ty, name: "rt".into(), handle: rt }));
    }
    let attributes = registry.instance(rt.instance).unwrap().attributes();
    assert_eq!(attributes[..before.len()], before, "the others are as they were");
    registry.unpublish(rt.instance).unwrap();
    assert_eq!(registry.expel(rt.instance, "it is gone"), Err(UnknownInstance));
    let again = registry.publish(ty, policy("rt", 30, &[]), core(1)).unwrap();
    assert_eq!(why(&registry, again.instance), None);
}

#[test]
fn the_common_state_is_the_type_s() {
    let (mut registry, ty, _) = three();
    assert_eq!(registry.state(ty), Some(&[Attribute::int("runnable", 0)][..]));
    registry.set_state(ty, "runnable", AttributeValue::Int(3)).unwrap();
    assert_eq!(registry.state(ty), Some(&[Attribute::int("runnable", 3)][..]));
    assert!(registry.set_state(ty, "runnable", AttributeValue::Bool(true)).is_err());
    assert!(registry.set_state(ty, "running", AttributeValue::Int(1)).is_err());
}
