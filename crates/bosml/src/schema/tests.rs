//! What a schema may be, and the sizes of its values.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use super::*;
use crate::{Buffer, Bytes, Core, ErrorKind, MAX_DEPTH, Typed};

fn parameter(name: &str, ty: Type<'static>) -> Parameter<'static> {
    let (name, doc) = (String::from(name).into(), "".into());
    Parameter { name, doc, ty, range: None, encoded: true, encrypted: false }
}

fn service(parameters: Vec<Parameter<'static>>) -> Service<'static> {
    let method = Method {
        name: "compute".into(),
        doc: "".into(),
        mode: Mode::User,
        callers: Callers::NONE,
        pure: false,
        parameters: parameters.into(),
        reply: vec![].into(),
    };
    Service { name: "ackermann".into(), doc: "".into(), methods: vec![method].into() }
}

fn nested(depth: usize) -> Type<'static> {
    (0..depth).fold(Type::Bool, |ty, _| Type::List(Element::Owned(Box::new(ty))))
}

#[track_caller]
fn wrong(parameters: Vec<Parameter<'static>>) -> Error {
    service(parameters).check().expect_err("it is refused")
}

#[test]
fn a_size_is_fixed_or_the_largest_in_range() {
    let with = |ty, range: Option<(i128, i128)>| {
        let range = range.map(|(least, most)| Range { least, most });
        Parameter { range, ..parameter("a", ty) }
    };
    assert_eq!(with(u64::TYPE, Some((0, 3))).size(), Some(8));
    assert_eq!(with(Core::TYPE, None).size(), Some(6));
    assert_eq!(with(Buffer::TYPE, None).size(), Some(16));
    assert_eq!(with(Bytes::TYPE, None).size(), None);
    assert_eq!(with(String::TYPE, Some((1, 32))).size(), Some(32));
    assert_eq!(with(<Vec<u32>>::TYPE, Some((0, 10))).size(), Some(40));
    assert_eq!(with(<Vec<String>>::TYPE, Some((0, 10))).size(), None);
    let record = |fields: Vec<Parameter<'static>>| with(Type::Record(fields.into()), None).size();
    let name = with(String::TYPE, Some((0, 20)));
    assert_eq!(record(vec![parameter("b", u16::TYPE), name]), Some(22));
    assert_eq!(record(vec![parameter("b", u16::TYPE), parameter("c", String::TYPE)]), None);
    let huge = Some((0, i128::from(u64::MAX)));
    assert_eq!(with(<Vec<u64>>::TYPE, huge).size(), None);
}

#[test]
fn there_is_a_case_to_choose_and_each_has_a_name() {
    let one_of = |cases: Vec<Parameter<'static>>| parameter("a", Type::OneOf(cases.into()));
    let nothing = |name: &str| parameter(name, Type::NOTHING);
    let many = |count| one_of((0..count).map(|at| nothing(&format!("c{at}"))).collect());
    let sized = one_of(vec![nothing("b"), parameter("c", u16::TYPE), parameter("d", u32::TYPE)]);
    assert_eq!(sized.size(), Some(5));
    assert_eq!(one_of(vec![nothing("b"), parameter("c", Type::String)]).size(), None);
    for fits in [many(1), many(MAX_CASES), sized, parameter("a", <Option<u8>>::TYPE)] {
        assert_eq!(service(vec![fits]).check(), Ok(()));
    }
    for wrong_one in [
        many(0),
        many(MAX_CASES + 1),
        one_of(vec![nothing("b"), nothing("b")]),
        one_of(vec![nothing("9")]),
        one_of(vec![nothing("b").within(0, 1)]),
        one_of(vec![parameter("b", Type::List(Element::Owned(Box::new(Type::NOTHING))))]),
        one_of(vec![parameter("b", Type::Record(vec![nothing("c")].into()))]),
    ] {
        wrong(vec![wrong_one]);
    }
    let nested =
        |depth| (0..depth).fold(Type::Bool, |ty, _| Type::OneOf(vec![parameter("b", ty)].into()));
    assert_eq!(service(vec![parameter("a", nested(MAX_DEPTH))]).check(), Ok(()));
    let error = wrong(vec![parameter("a", nested(MAX_DEPTH + 1))]);
    assert_eq!(error.kind(), &ErrorKind::TooDeep);
    assert_eq!(<Option<u8>>::TYPE.optional(), Some(&Type::Uint8));
    assert_eq!(many(2).ty.optional(), None);
}

#[test]
fn names_are_xml_names() {
    for name in ["m", "_m", "first-one", "a.b_c9", &"n".repeat(MAX_NAME)] {
        assert_eq!(service(vec![parameter(name, Type::Bool)]).check(), Ok(()), "{name}");
    }
    for name in ["", "9m", "-m", "a b", "Ackermann's", "ä", "a:b", "<", &"n".repeat(MAX_NAME + 1)]
    {
        let error = wrong(vec![parameter(name, Type::Bool)]);
        assert!(matches!(error.kind(), ErrorKind::Schema { .. }));
        assert_eq!(error.path(), format!("ackermann/compute/{name}"));
    }
}

#[test]
fn names_are_used_once() {
    let twice = vec![parameter("a", Type::Bool), parameter("a", Type::Uint8)];
    let error = wrong(twice.clone());
    assert_eq!(
        error.to_string(),
        "ackermann/compute/a, byte 0: a schema is wrong: \
        a name is used twice"
    );
    wrong(vec![parameter("r", Type::Record(twice.into()))]);
}

#[test]
fn ranges_belong_to_numbers_and_lengths() {
    let ranged = |ty, least, most| {
        vec![Parameter { range: Some(Range { least, most }), ..parameter("a", ty) }]
    };
    assert_eq!(service(ranged(Type::Int8, -5, 5)).check(), Ok(()));
    assert_eq!(service(ranged(nested(1), 0, 5)).check(), Ok(()));
    wrong(ranged(Type::Bool, 0, 1));
    wrong(ranged(Type::Float64, 0, 1));
    wrong(ranged(Type::Uint8, 2, 1));
    wrong(ranged(Type::String, -2, -1));
}

#[test]
fn documentation_is_one_line_and_types_are_not_too_deep() {
    let with =
        |doc: &'static str| vec![Parameter { doc: doc.into(), ..parameter("a", Type::Bool) }];
    assert_eq!(service(with("Ackermann's <function> & \"more\"")).check(), Ok(()));
    wrong(with("two\nlines"));
    wrong(with("\u{7}"));
    assert_eq!(service(vec![parameter("a", nested(MAX_DEPTH))]).check(), Ok(()));
    wrong(vec![parameter("a", Type::Record(vec![].into()))]);
    let error = wrong(vec![parameter("a", nested(MAX_DEPTH + 1))]);
    assert_eq!(error.kind(), &ErrorKind::TooDeep);
}

#[test]
fn a_method_is_found_by_name_and_checks_its_requests() {
    let service = service(vec![parameter("m", Type::Uint8)]);
    let (number, method) = service.method("compute").unwrap();
    assert_eq!(number, 0);
    assert_eq!(method.check_text("<compute><m>1</m></compute>"), Ok(()));
    assert!(method.check_text("<compute><m>256</m></compute>").is_err());
    assert!(service.method("comput").is_none());
}
