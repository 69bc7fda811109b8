//! The derive: what it makes of structs and enums, in both forms.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nile_stl_macros::Record;
use proptest::prelude::*;

use super::{from_stamped, to_stamped};
use crate::schema::{Parameter, Type};
use crate::{
    Decode, Error, ErrorKind, Reader, Typed, binary_to_text, check_binary, text_to_binary,
};

const MOST: u32 = 9;

#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = crate)]
struct Number(u64);

#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = crate)]
struct Split {
    at: Number,
    #[range(1..=MOST)]
    blocks: u32,
    names: Vec<String>,
}

#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = crate)]
enum Order {
    Nothing,
    Run(Box<Split>),
    PartsOf {
        number: Number,
        #[range(0..=MOST)]
        parts: u32,
    },
    Keep(#[range(0..=2)] u8),
    Then(Option<Number>),
}

const PARAMETERS: &[Parameter<'static>] =
    &[Parameter::plain("order", Order::TYPE), Parameter::plain("all", <Vec<Order>>::TYPE)];

fn read(bytes: &[u8]) -> Result<(Order, Vec<Order>), crate::Error> {
    let mut input = Reader::new(bytes);
    let order = Order::decode(&mut input).map_err(|error| error.within("order"))?;
    let all = Vec::decode(&mut input).map_err(|error| error.within("all"))?;
    input.finish().map(|()| (order, all))
}

#[test]
fn structs_are_records_and_enums_cases() {
    let Type::OneOf(cases) = Order::TYPE else { panic!("it has cases") };
    let names: Vec<_> = cases.iter().map(|case| case.name.as_ref()).collect();
    assert_eq!(names, ["nothing", "run", "parts_of", "keep", "then"]);
    assert_eq!((cases[0].ty.is_nothing(), &cases[1].ty), (true, &Split::TYPE));
    assert_eq!((Number::TYPE, Number::LEAST, Split::LEAST), (Type::Uint64, 8, 14));
    assert_eq!(cases[3].range, Some(crate::schema::Range { least: 0, most: 2 }));
    for (order, text) in [
        (Order::Nothing, "nothing"),
        (Order::Then(None), "<then>none</then>"),
        (Order::Then(Some(Number(7))), "<then><some>7</some></then>"),
        (
            Order::PartsOf { number: Number(7), parts: 9 },
            "<parts_of><number>7</number><parts>9</parts></parts_of>",
        ),
    ] {
        let bytes = plain(&order);
        let shown = binary_to_text(&PARAMETERS[..1], "r", &bytes).unwrap();
        assert_eq!(shown, format!("<r><order>{text}</order></r>"));
        assert_eq!(from_plain(&bytes), Ok(order));
    }
}

fn plain(order: &Order) -> Vec<u8> {
    let mut out = crate::Writer::new();
    crate::Encode::encode(order, &mut out);
    out.into_bytes().unwrap()
}

fn from_plain(bytes: &[u8]) -> Result<Order, Error> {
    let mut input = Reader::new(bytes);
    let order = Decode::decode(&mut input)?;
    input.finish().map(|()| order)
}

#[test]
fn what_is_no_value_is_refused_with_its_path() {
    let refused = |bytes: &[u8]| {
        let error = read(bytes).expect_err("it is refused");
        assert_eq!(check_binary(PARAMETERS, bytes).as_ref(), Err(&error));
        (error.kind().clone(), error.path())
    };
    let known = String::from("nothing, run, parts_of, keep, then");
    let unknown = ErrorKind::UnknownCase { found: "5".into(), known };
    assert_eq!(refused(&[5]), (unknown, "order".into()));
    assert_eq!(refused(&[]), (ErrorKind::Truncated, "order".into()));
    assert_eq!(refused(&[4, 1, 0]), (ErrorKind::Truncated, "order/then/some".into()));
    let (kind, path) = refused(&[0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0]);
    assert!(matches!(kind, ErrorKind::OutOfRange { .. }), "{kind}");
    assert_eq!(path, "all/0/parts_of/parts");
    assert!(matches!(refused(&[3, 3, 0, 0]).0, ErrorKind::OutOfRange { .. }));
}

#[test]
fn a_message_of_another_version_says_so() {
    let stamped = to_stamped(&Order::Keep(1)).unwrap();
    assert_eq!(from_stamped(&stamped), Ok(Order::Keep(1)));
    let error = from_stamped::<Split>(&stamped).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::OtherVersion { .. }));
    assert!(format!("{error}").contains("another version of NileOS"), "{error}");
    assert!(from_stamped::<Order>(&plain(&Order::Keep(1))).is_err());
    let more = [&stamped[..], &[0]].concat();
    assert_eq!(from_stamped::<Order>(&more).unwrap_err().kind(), &ErrorKind::Trailing);
}

fn orders() -> impl Strategy<Value = Order> {
    let number = any::<u64>().prop_map(Number);
    let split = (number.clone(), 1..=MOST, prop::collection::vec("[a-z<&]{0,9}", 0..4));
    prop_oneof![
        Just(Order::Nothing),
        split.prop_map(|(at, blocks, names)| Order::Run(Split { at, blocks, names }.into())),
        (number.clone(), 0..=MOST).prop_map(|(number, parts)| Order::PartsOf { number, parts }),
        (0..=2_u8).prop_map(Order::Keep),
        prop::option::of(number).prop_map(Order::Then),
    ]
}

proptest! {
    #[test]
    fn every_value_survives_both_forms(
        order in orders(),
        all in prop::collection::vec(orders(), 0..6),
    ) {
        let mut out = crate::Writer::new();
        crate::Encode::encode(&order, &mut out);
        crate::Encode::encode(&all, &mut out);
        let bytes = out.into_bytes().unwrap();
        let text = binary_to_text(PARAMETERS, "r", &bytes).unwrap();
        prop_assert_eq!(&text_to_binary(PARAMETERS, "r", &text).unwrap(), &bytes);
        prop_assert_eq!(read(&bytes), Ok((order, all)));
    }

    #[test]
    fn any_bytes_are_a_value_or_the_error_of_the_schema(
        mut bytes in prop::collection::vec(0..12_u8, 0..40),
        large in any::<(prop::sample::Index, u8)>(),
    ) {
        if !bytes.is_empty() {
            let at = large.0.index(bytes.len());
            bytes[at] = large.1;
        }
        match (read(&bytes), check_binary(PARAMETERS, &bytes)) {
            (Ok(_), checked) => prop_assert_eq!(checked, Ok(())),
            // The schema does not know how long the least element of a list is.
            (Err(error), checked) => prop_assert!(
                checked.as_ref() == Err(&error) || error.kind() == &ErrorKind::Truncated
            ),
        }
    }
}

#[test]
fn text_that_is_no_value_is_refused() {
    let read = |text: &str| {
        let bytes = text_to_binary(&PARAMETERS[..1], "r", text)?;
        from_plain(&bytes)
    };
    assert_eq!(read("<r><order>nothing</order></r>"), Ok(Order::Nothing));
    for order in ["Nothing", "keep", "<keep>3</keep>", "<then/>", "<then>7</then>", "4"] {
        assert!(read(&format!("<r><order>{order}</order></r>")).is_err(), "{order}");
    }
}
