//! Compositions of a few small services: what fits, what does not, and how they are carried out.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use nile_abi::{CoreId, NodeId, Status};
use nile_bosml::schema::{Callers, Method, Mode, Parameter, Range, Service, Type};

use super::*;
use crate::limits::{MAX_DEPTH, MAX_PARTS};
use crate::{Keyword, Layer, NewInstance, Place, Registry, ServiceType};

fn value(name: &'static str, ty: Type<'static>) -> Parameter<'static> {
    Parameter {
        name: name.into(),
        doc: "".into(),
        ty,
        range: None,
        encoded: true,
        encrypted: false,
    }
}

fn method(
    name: &'static str,
    parameters: Vec<Parameter<'static>>,
    reply: Vec<Parameter<'static>>,
) -> Method<'static> {
    let (parameters, reply) = (parameters.into(), reply.into());
    Method {
        name: name.into(),
        doc: "".into(),
        mode: Mode::Kernel,
        callers: Callers::ALL,
        pure: false,
        parameters,
        reply,
    }
}

fn service(name: &'static str, methods: Vec<Method<'static>>) -> ServiceType {
    ServiceType {
        name: name.into(),
        subsystem: "text".into(),
        capability: name.into(),
        layer: Layer::High,
        extends: None,
        description: "".into(),
        profile: Service { name: name.into(), doc: "".into(), methods: methods.into() },
        state: Vec::new().into(),
        attributes: Vec::new().into(),
        parameters: Vec::new().into(),
        default_instance: None,
    }
}

/// `read` gives a text for a name, `count` its words and its length, `sort` the text again.
fn registry() -> Registry {
    let text = || value("text", Type::String);
    let (name, words) = (value("name", Type::String), value("words", Type::Uint32));
    let near = Parameter { range: Some(Range { least: 0, most: 9 }), ..words.clone() };
    let far = Parameter { range: Some(Range { least: 10, most: 99 }), ..words.clone() };
    let methods = [
        ("disk", vec![method("read", vec![name], vec![value("size", Type::Uint64), text()])]),
        ("counter", vec![method("count", vec![text()], vec![near, value("size", Type::Uint32)])]),
        ("sorter", vec![method("sort", vec![text()], vec![text()])]),
        ("printer", vec![method("print", vec![far], vec![])]),
        ("meter", vec![method("measure", vec![value("size", Type::Uint64)], vec![words])]),
    ];
    let mut registry = Registry::new();
    for (name, methods) in methods {
        registry.register(service(name, methods)).unwrap();
    }
    registry
}

fn part(service: &'static str, method: &'static str) -> Composition {
    Composition::component(service, Reference::Type(service.into()), method)
}

fn read() -> Composition {
    part("disk", "read")
}

fn count() -> Composition {
    part("counter", "count")
}

fn sort() -> Composition {
    part("sorter", "sort")
}

fn input(name: &'static str) -> Source {
    Source::Input(name.into())
}

fn wire(to: &'static str, from: Source) -> Wire {
    Wire { to: to.into(), from }
}

fn names(parameters: &[Parameter<'_>]) -> Vec<String> {
    parameters.iter().map(|it| it.name.to_string()).collect()
}

/// Two texts, of which one is counted and one sorted.
fn both(second: Source) -> Composition {
    let orchestration = Orchestration {
        parameters: vec![value("one", Type::String), value("two", Type::String)],
        reply: vec![value("words", Type::Uint32), value("sorted", Type::String)],
        parts: vec![
            (count(), vec![wire("text", input("one"))]),
            (sort(), vec![wire("text", second)]),
        ],
        results: vec![
            wire("words", Source::Output("counter".into(), "words".into())),
            wire("sorted", Source::Output("sorter".into(), "text".into())),
        ],
    };
    Composition::orchestrated("both", orchestration)
}

#[test]
fn a_chain_takes_what_its_first_takes_and_gives_what_its_last_gives() {
    let chain = Composition::lengthwise("chain", vec![read(), sort(), count()]);
    let composed = registry().compose(&chain).unwrap();
    assert_eq!(names(composed.parameters()), ["name"]);
    assert_eq!(names(composed.reply()), ["words", "size"]);
    let method = composed.method("Reads, sorts and counts.", Mode::Kernel);
    assert_eq!((method.name, method.parameters), ("chain".into(), composed.parameters().into()));
}

#[test]
fn a_chain_that_does_not_fit_names_both_parts_and_the_parameter() {
    let registry = registry();
    let refused = |parts| registry.compose(&Composition::lengthwise("chain", parts)).unwrap_err();
    let chain = |from: &str, to: &str, parameter: &str, problem| ComposeError::Chain {
        from: from.into(),
        to: to.into(),
        parameter: parameter.into(),
        problem,
    };
    let error = refused(vec![count(), sort()]);
    assert_eq!(error, chain("counter", "sorter", "text", Problem::Missing));
    let said = error.to_string();
    assert!(["counter", "sorter", "text"].iter().all(|it| said.contains(it)), "{said}");
    let error = refused(vec![count(), part("meter", "measure")]);
    assert_eq!(error, chain("counter", "meter", "size", Problem::OtherType));
    let error = refused(vec![count(), part("printer", "print")]);
    assert_eq!(error, chain("counter", "printer", "words", Problem::OtherRange));
    assert_eq!(refused(vec![]), ComposeError::NoParts("chain".into()));
    let twice = ComposeError::PartTwice { whole: "chain".into(), part: "sorter".into() };
    assert_eq!(refused(vec![sort(), sort()]), twice);
}

#[test]
fn parts_side_by_side_take_the_same_and_their_replies_are_collected() {
    let registry = registry();
    let wide = Composition::widthwise("wide", vec![count(), sort()]);
    let composed = registry.compose(&wide).unwrap();
    assert_eq!(names(composed.parameters()), ["text"]);
    assert_eq!(names(composed.reply()), ["counter", "sorter"]);
    let Type::Record(counted) = &composed.reply()[0].ty else { panic!("it is a record") };
    assert_eq!(names(counted), ["words", "size"]);
    let wide = Composition::widthwise("wide", vec![count(), read()]);
    let error = registry.compose(&wide).unwrap_err();
    let expected = ComposeError::Sides {
        first: "counter".into(),
        part: "disk".into(),
        parameter: "text".into(),
        problem: Problem::Missing,
    };
    assert_eq!(error, expected);
}

#[test]
fn orchestrated_parts_do_not_feed_each_other() {
    let registry = registry();
    let composed = registry.compose(&both(input("two"))).unwrap();
    assert_eq!(names(composed.parameters()), ["one", "two"]);
    assert_eq!(names(composed.reply()), ["words", "sorted"]);
    let fed = both(Source::Output("counter".into(), "words".into()));
    let expected = ComposeError::Feeds {
        from: "counter".into(),
        to: "sorter".into(),
        parameter: "text".into(),
    };
    assert_eq!(registry.compose(&fed), Err(expected));
    let unknown = registry.compose(&both(input("three"))).unwrap_err();
    let expected = ComposeError::Chain {
        from: "both".into(),
        to: "sorter".into(),
        parameter: "text".into(),
        problem: Problem::Missing,
    };
    assert_eq!(unknown, expected);
}

#[test]
fn every_wire_of_an_orchestrated_service_is_needed_once() {
    let registry = registry();
    let refused = |change: fn(&mut Orchestration)| {
        let mut it = both(input("two"));
        let Shape::Orchestrated(orchestration) = &mut it.shape else { unreachable!() };
        change(orchestration);
        registry.compose(&it).unwrap_err()
    };
    let unwired = |to: &str, parameter: &str| ComposeError::Unwired {
        to: to.into(),
        parameter: parameter.into(),
    };
    let bad = |to: &str, parameter: &str| ComposeError::BadWire {
        to: to.into(),
        parameter: parameter.into(),
    };
    assert_eq!(refused(|it| it.parts[1].1.clear()), unwired("sorter", "text"));
    assert_eq!(refused(|it| drop(it.results.pop())), unwired("both", "sorted"));
    let twice = |it: &mut Orchestration| it.results.push(it.results[0].clone());
    assert_eq!(refused(twice), bad("both", "words"));
    let unknown = |it: &mut Orchestration| it.parts[0].1.push(wire("txet", input("one")));
    assert_eq!(refused(unknown), bad("counter", "txet"));
}

#[test]
fn names_depth_and_number_of_parts_are_checked() {
    let registry = registry();
    let unknown = registry.compose(&part("nobody", "read")).unwrap_err();
    let (part_name, service) = ("nobody".into(), "nobody".into());
    assert_eq!(unknown, ComposeError::UnknownService { part: part_name, service });
    let unknown = registry.compose(&part("disk", "write")).unwrap_err();
    let expected = ComposeError::UnknownMethod { part: "disk".into(), method: "write".into() };
    assert_eq!(unknown, expected);
    let nested =
        |depth| (0..depth).fold(sort(), |inner, _| Composition::lengthwise("nested", vec![inner]));
    assert!(registry.compose(&nested(MAX_DEPTH)).is_ok());
    assert_eq!(registry.compose(&nested(MAX_DEPTH + 1)), Err(ComposeError::TooDeep));
    let many = |parts: usize| {
        let named = |at| Composition { name: format!("p{at}").into(), ..sort() };
        Composition::widthwise("many", (0..parts).map(named).collect())
    };
    assert!(registry.compose(&many(MAX_PARTS - 1)).is_ok());
    assert_eq!(registry.compose(&many(MAX_PARTS)), Err(ComposeError::TooManyParts));
}

#[test]
fn a_composed_service_is_published_and_composed_again() {
    let mut registry = registry();
    let chain = Composition::lengthwise("sorted", vec![read(), sort()]);
    let method = registry.compose(&chain).unwrap().method("", Mode::Kernel);
    let ty = registry.register(service("library", vec![method])).unwrap();
    let keywords = vec![Keyword { word: "sorted".into(), weight: 1 }].into();
    let (working, attributes) = ("".into(), Vec::new().into());
    let new = NewInstance { name: "library-1".into(), working, attributes, keywords };
    let place = Place { node: NodeId(1), core: CoreId(2) };
    registry.publish(ty, new, place).unwrap();
    let library = Reference::Instance("library-1".into());
    let library = Composition::component("library", library, "sorted");
    let again = Composition::lengthwise("again", vec![library, count()]);
    let composed = registry.compose(&again).unwrap();
    assert_eq!(
        (names(composed.parameters()), names(composed.reply())),
        (vec!["name".to_string()], vec!["words".to_string(), "size".to_string()],)
    );
}

fn slots(values: &[(&str, &str)]) -> Slots<String> {
    values.iter().map(|(name, value)| (name.to_string(), Slot::Value(value.to_string()))).collect()
}

/// The next call: its number, method and input.
fn call(plan: &mut Plan<'_, String>) -> (CallId, String, Slots<String>) {
    match plan.step() {
        Step::Call(call) => (call.id, call.method.into(), call.input),
        other => panic!("a call is next, not {other:?}"),
    }
}

#[test]
fn a_chain_hands_each_reply_to_the_next() {
    let chain = Composition::lengthwise("chain", vec![read(), count()]);
    let composed = registry().compose(&chain).unwrap();
    assert_eq!(Plan::new(&composed, &slots(&[])).err(), Some(PlanError("name".into())));
    let mut plan = Plan::new(&composed, &slots(&[("name", "a"), ("other", "b")])).unwrap();
    let (id, method, input) = call(&mut plan);
    assert_eq!((method.as_str(), input), ("read", slots(&[("name", "a")])));
    assert_eq!(plan.step(), Step::Wait);
    plan.finish(id, Ok(slots(&[("text", "x y"), ("size", "3")]))).unwrap();
    assert_eq!(plan.finish(id, Ok(slots(&[]))), Err(OutcomeError::UnknownCall));
    let (id, method, input) = call(&mut plan);
    assert_eq!((method.as_str(), input), ("count", slots(&[("text", "x y")])));
    let reply = slots(&[("words", "2"), ("size", "3")]);
    plan.finish(id, Ok(reply.clone())).unwrap();
    assert_eq!(plan.step(), Step::Done(reply));
}

#[test]
fn parts_side_by_side_are_called_at_once_and_end_in_any_order() {
    let wide = Composition::widthwise("wide", vec![count(), sort()]);
    let chain = Composition::lengthwise("chain", vec![read(), wide]);
    let composed = registry().compose(&chain).unwrap();
    let mut plan = Plan::new(&composed, &slots(&[("name", "a")])).unwrap();
    let (id, ..) = call(&mut plan);
    plan.finish(id, Ok(slots(&[("text", "y x"), ("size", "3")]))).unwrap();
    let (one, two) = (call(&mut plan), call(&mut plan));
    assert_eq!((one.1.as_str(), two.1.as_str()), ("count", "sort"));
    assert_eq!((&one.2, &two.2), (&slots(&[("text", "y x")]), &slots(&[("text", "y x")])));
    let (counted, sorted) = (slots(&[("words", "2"), ("size", "3")]), slots(&[("text", "x y")]));
    plan.finish(two.0, Ok(sorted.clone())).unwrap();
    assert_eq!(plan.step(), Step::Wait);
    plan.finish(one.0, Ok(counted.clone())).unwrap();
    let expected = [("counter", counted), ("sorter", sorted)];
    let expected = expected.map(|(name, slots)| (name.to_string(), Slot::Record(slots)));
    assert_eq!(plan.step(), Step::Done(expected.into()));
}

#[test]
fn an_orchestrated_service_gives_each_part_its_own_and_gathers_its_reply() {
    let composed = registry().compose(&both(input("two"))).unwrap();
    let mut plan = Plan::new(&composed, &slots(&[("one", "a"), ("two", "c b")])).unwrap();
    let (one, two) = (call(&mut plan), call(&mut plan));
    assert_eq!((one.2, two.2), (slots(&[("text", "a")]), slots(&[("text", "c b")])));
    plan.finish(one.0, Ok(slots(&[("words", "1"), ("size", "1")]))).unwrap();
    plan.finish(two.0, Ok(slots(&[("text", "b c")]))).unwrap();
    assert_eq!(plan.step(), Step::Done(slots(&[("words", "1"), ("sorted", "b c")])));
}

#[test]
fn the_first_failure_is_the_plan_s() {
    let composed = registry().compose(&both(input("two"))).unwrap();
    let begin = || Plan::new(&composed, &slots(&[("one", "a"), ("two", "b")])).unwrap();
    let mut plan = begin();
    let (one, two) = (call(&mut plan), call(&mut plan));
    plan.finish(two.0, Err(Status::Dead)).unwrap();
    plan.finish(one.0, Err(Status::Timeout)).unwrap();
    assert_eq!(plan.step(), Step::Failed("sorter", Status::Dead));

    let mut plan = begin();
    let (one, _) = (call(&mut plan), call(&mut plan));
    let lacking = plan.finish(one.0, Ok(slots(&[("words", "1")])));
    assert_eq!(lacking, Err(OutcomeError::Missing("size".into())));
    assert_eq!(plan.step(), Step::Failed("counter", Status::Invalid));
}

#[test]
fn a_part_of_a_network_begins_when_what_feeds_it_is_over() {
    let Shape::Orchestrated(mut it) = both(input("two")).shape else { panic!("it is one") };
    it.parts[0].1 = vec![wire("text", Source::Output("sorter".into(), "text".into()))];
    it.parameters.remove(0);
    let network = |it: &Orchestration| Composition::network("network", it.clone());
    let late = registry().compose(&network(&it)).unwrap_err();
    assert!(matches!(late, ComposeError::Chain { problem: Problem::Missing, .. }), "{late}");
    it.parts.reverse();
    let composed = registry().compose(&network(&it)).unwrap();
    let mut plan = Plan::new(&composed, &slots(&[("two", "c b")])).unwrap();
    let (id, method, input) = call(&mut plan);
    assert_eq!((method.as_str(), input), ("sort", slots(&[("text", "c b")])));
    assert_eq!(plan.step(), Step::Wait, "nobody counts what is not sorted");
    plan.finish(id, Ok(slots(&[("text", "b c")]))).unwrap();
    let (id, method, input) = call(&mut plan);
    assert_eq!((method.as_str(), input), ("count", slots(&[("text", "b c")])));
    plan.finish(id, Ok(slots(&[("words", "2"), ("size", "3")]))).unwrap();
    assert_eq!(plan.step(), Step::Done(slots(&[("words", "2"), ("sorted", "b c")])));
}
