//! The text form: what is read, what is refused and with which place, and that both forms agree.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use proptest::prelude::*;

use super::{binary_to_text, masked_text, text_to_binary};
use crate::error::{Error, ErrorKind};
use crate::schema::{Element, Parameter, Range, Type};
use crate::value::{Value, check_binary, values, values_from_text, values_to_binary};
use crate::{Buffer, Core, Decode, MAX_MESSAGE, Reader};

const fn named(name: &'static str, ty: Type<'static>) -> Parameter<'static> {
    Parameter {
        name: Cow::Borrowed(name),
        doc: Cow::Borrowed(""),
        ty,
        range: None,
        encoded: true,
        encrypted: false,
    }
}

const fn within(
    least: i128,
    most: i128,
    name: &'static str,
    ty: Type<'static>,
) -> Parameter<'static> {
    let (name, doc) = (Cow::Borrowed(name), Cow::Borrowed(""));
    let range = Some(Range { least, most });
    Parameter { name, doc, ty, range, encoded: true, encrypted: false }
}

const fn list(element: &'static Type<'static>) -> Type<'static> {
    Type::List(Element::Static(element))
}

const COMPUTE: &[Parameter<'static>] = &[within(0, 3, "m", Type::Uint64), named("n", Type::Uint64)];

const POINT: &Type<'static> = &Type::Record(Cow::Borrowed(FIELDS));

const FIELDS: &[Parameter<'static>] =
    &[named("x", Type::Uint16), named("tags", list(&Type::String))];

const EVERYTHING: &[Parameter<'static>] = &[
    named("u8", Type::Uint8),
    named("i16", Type::Int16),
    named("u32", Type::Uint32),
    named("i64", Type::Int64),
    named("yes", Type::Bool),
    named("x", Type::Float64),
    named("s", Type::String),
    named("b", Type::Bytes),
    named("core", Type::Core),
    named("buffer", Type::Buffer),
    named("list", list(&Type::Int8)),
    named("points", list(POINT)),
];

#[track_caller]
fn refused(parameters: &[Parameter<'_>], text: &str) -> Error {
    text_to_binary(parameters, "compute", text).expect_err("it is refused")
}

#[test]
fn a_request_in_any_order_with_any_space_is_the_same_request() {
    let expected = [2u64.to_le_bytes(), 3u64.to_le_bytes()].concat();
    for text in [
        "<compute><m>2</m><n>3</n></compute>",
        "<compute><n>3</n><m>2</m></compute>",
        "\n<compute >\r\n\t<m> 2</m >\n<n\n>+3</n> </compute>\n",
    ] {
        match text.contains('+') {
            // A plus sign is no part of a number.
            true => assert!(matches!(
                refused(COMPUTE, text).kind(),
                ErrorKind::WrongType { expected: "uint_64", .. }
            )),
            false => assert_eq!(text_to_binary(COMPUTE, "compute", text).unwrap(), expected),
        }
    }
    let spaced = "\n<compute >\r\n\t<m> 2</m >\n<n\n>3 </n> </compute>\n";
    assert_eq!(text_to_binary(COMPUTE, "compute", spaced).unwrap(), expected);
    assert_eq!(text_to_binary(&[], "stop", "<stop/>").unwrap(), []);
}

#[test]
fn fields_out_of_order_are_put_in_order() {
    let fields: Vec<Parameter<'_>> =
        ["a", "b", "c", "d"].map(|name| named(name, Type::String)).into();
    let in_order = b"\x01\0A\x02\0BB\x03\0CCC\0\0";
    for text in [
        "<r><a>A</a><c>CCC</c><d/><b>BB</b></r>",
        "<r><d></d><c>CCC</c><b>BB</b><a>A</a></r>",
        "<r><a>A</a><b>BB</b><d/><c>CCC</c></r>",
    ] {
        assert_eq!(text_to_binary(&fields, "r", text).unwrap(), in_order, "{text}");
    }
}

#[test]
fn each_mistake_has_its_error_and_its_place() {
    use ErrorKind::*;
    let wrong = |found: &str| WrongType { expected: "uint_64", found: found.into() };
    let out_of =
        |least, most, found: &str| OutOfRange { range: Range { least, most }, found: found.into() };
    let any = i128::from(u64::MAX);
    for (values, kind, path, offset) in [
        (
            "<m>2</m><k>3</k>",
            UnknownParameter { name: "k".into(), known: "m, n".into() },
            "compute",
            17,
        ),
        ("<n>2</n>", MissingParameter { name: "m".into() }, "compute", 17),
        ("<m>2</m>", MissingParameter { name: "n".into() }, "compute", 17),
        ("<m>2</m><n>3</n><m>2</m>", DuplicateParameter { name: "m".into() }, "compute", 25),
        ("<m>2</m><n>two</n>", wrong("two"), "compute/n", 20),
        ("<m>4</m><n>3</n>", out_of(0, 3, "4"), "compute/m", 12),
        ("<m>2</m><n>-3</n>", out_of(0, any, "-3"), "compute/n", 20),
    ] {
        let error = refused(COMPUTE, &format!("<compute>{values}</compute>"));
        assert_eq!(error.kind(), &kind, "{values}");
        assert_eq!((error.path().as_str(), error.offset()), (path, offset), "{error}");
        assert_eq!(error.line(), Some((1, offset + 1)), "{error}");
    }
}

#[test]
fn an_error_says_what_where_and_what_was_expected() {
    let error = refused(COMPUTE, "<compute>\n  <m>1</m>\n  <n>2é</n>\n</compute>");
    assert_eq!(error.to_string(), "compute/n, line 3, column 6: expected uint_64, found `2é`");
    let error = refused(COMPUTE, "<compute>\n  <m>7</m></compute>");
    assert_eq!(error.to_string(), "compute/m, line 2, column 6: expected 0 to 3, found 7");
    let error = check_binary(COMPUTE, &[9, 0, 0, 0, 0, 0, 0, 0]).unwrap_err();
    assert_eq!(error.to_string(), "m, byte 0: expected 0 to 3, found 9");
    let nested = "<r><points><item><x>1</x><tags><item>a</item><items/></tags></item></points></r>";
    let points = &EVERYTHING[11..];
    assert_eq!(text_to_binary(points, "r", nested).unwrap_err().path(), "r/points/0/tags");
}

#[test]
fn what_bosml_leaves_out_of_xml_is_refused() {
    for (text, what) in [
        ("<!DOCTYPE compute><compute/>", "document types"),
        ("<?xml version=\"1.0\"?><compute/>", "processing instructions"),
        ("<compute><!-- two --><m>2</m></compute>", "comments"),
        ("<compute><![CDATA[<m>]]></compute>", "CDATA sections"),
    ] {
        let error = refused(COMPUTE, text);
        assert_eq!(error.kind(), &ErrorKind::Refused { what }, "{text}");
    }
    let text = [named("s", Type::String)];
    let refused = |content: &str| refused(&text, &format!("<compute><s>{content}</s></compute>"));
    assert!(matches!(refused("&#65;").kind(), ErrorKind::Refused { what: "character references" }));
    assert!(matches!(refused("&nbsp;").kind(), ErrorKind::Syntax { .. }));
    assert!(matches!(refused("a & b").kind(), ErrorKind::Syntax { .. }));
    assert!(matches!(refused("]]>").kind(), ErrorKind::Syntax { .. }));
    assert!(matches!(refused("<b/>").kind(), ErrorKind::Syntax { .. }));
    for found in ['\0', '\u{1b}', '\r', '\u{ffff}'] {
        assert_eq!(refused(&format!("fine {found}")).kind(), &ErrorKind::NoText { found });
    }
}

#[test]
fn what_is_not_well_formed_is_refused() {
    for text in [
        "",
        " ",
        "compute",
        "<",
        "<compute",
        "<compute>",
        "<compute><m>2",
        "<compute><m>2</m",
        "<compute><m>2</m><n>3</n></compute",
        "<compute><m>2</m><n>3</n></compute><compute/>",
        "<compute><m>2</m><n>3</n></compute>.",
        "<compute><m>2</m><n>3</n></computer>",
        "<compute><m>2</n><n>3</n></compute>",
        "<compute>2<m>2</m><n>3</n></compute>",
        "<compute x=\"1\"><m>2</m><n>3</n></compute>",
        "<compute><m x='1'>2</m><n>3</n></compute>",
        "<compute><m>2</m><n>3</n><compute>",
        "</compute>",
        "<other><m>2</m><n>3</n></other>",
        "< compute><m>2</m><n>3</n></compute>",
        "<compute / >",
        "<compute><m/><n>3</n></compute>",
    ] {
        refused(COMPUTE, text);
    }
    let long = " ".repeat(MAX_MESSAGE + 1);
    assert_eq!(refused(COMPUTE, &long).kind(), &ErrorKind::TooLarge);
}

#[test]
fn every_type_has_its_text() {
    let text = "<all><u8>255</u8><i16>-32768</i16><u32>4294967295</u32>\
        <i64>-9223372036854775808</i64><yes>true</yes><x>-1.5e300</x>\
        <s>a &lt;&amp;&gt; \"b\"\n\u{1f40a}</s><b>AP8=</b><core>n2.c3</core>\
        <buffer>1.2.9.64</buffer><list><item>-1</item><item>127</item></list>\
        <points><item><x>9</x><tags/></item><item><tags><item/><item>t</item></tags><x>8</x>\
        </item></points></all>";
    let values = values_from_text(EVERYTHING, "all", text).unwrap();
    let core = "n2.c3".parse::<Core>().unwrap();
    assert_eq!(
        values,
        [
            Value::Uint(255),
            Value::Int(-32768),
            Value::Uint(4_294_967_295),
            Value::Int(i64::MIN),
            Value::Bool(true),
            Value::Float(-1.5e300),
            Value::from("a <&> \"b\"\n\u{1f40a}"),
            Value::Bytes(vec![0, 255].into()),
            Value::Core(core),
            Value::Buffer(Buffer { pool: 1, index: 2, generation: 9, length: 64 }),
            Value::List(vec![Value::Int(-1), Value::Int(127)]),
            Value::List(vec![
                Value::Record(vec![Value::Uint(9), Value::List(vec![])]),
                Value::Record(vec![
                    Value::Uint(8),
                    Value::List(vec![Value::from(""), Value::from("t")])
                ]),
            ]),
        ]
    );
    for (ty, wrong) in [
        (Type::Uint8, "256"),
        (Type::Int8, "-129"),
        (Type::Uint64, "18446744073709551616"),
        (Type::Int64, "9223372036854775808"),
        (Type::Bool, "1"),
        (Type::Float64, "1,5"),
        (Type::Core, "n1.c65536"),
        (Type::Core, "n+1.c0"),
        (Type::Buffer, "1.2"),
        (Type::Bytes, "AP8"),
        (Type::Bytes, "AP9="),
        (Type::Uint8, ""),
        (Type::Uint8, "-"),
    ] {
        let text = format!("<compute><v>{wrong}</v></compute>");
        refused(&[named("v", ty)], &text);
    }
}

const WORK: &[Parameter<'static>] = &[
    named("nothing", Type::NOTHING),
    within(0, 9, "pieces", Type::Uint32),
    named("point", Type::Record(Cow::Borrowed(FIELDS))),
];

const CASES: &[Parameter<'static>] = &[
    named("work", Type::OneOf(Cow::Borrowed(WORK))),
    named("more", list(&Type::OneOf(Cow::Borrowed(WORK)))),
];

#[test]
fn a_case_is_its_name_or_an_element_of_it() {
    for (work, bytes) in [
        ("nothing", &[0][..]),
        ("<pieces>7</pieces>", &[1, 7, 0, 0, 0]),
        ("<point><x>9</x><tags></tags></point>", &[2, 9, 0, 0, 0]),
    ] {
        let text = format!("<r><work>{work}</work><more><item>{work}</item></more></r>");
        let bytes = [bytes, &[1, 0], bytes].concat();
        assert_eq!(text_to_binary(CASES, "r", &text).unwrap(), bytes);
        assert_eq!(binary_to_text(CASES, "r", &bytes).unwrap(), text);
    }
    // Any space; a case without a value may be an element, too.
    let spaced = "<r><more/>\n<work> <pieces >\t7 </pieces>\n</work ></r>";
    assert_eq!(text_to_binary(CASES, "r", spaced).unwrap(), [1, 7, 0, 0, 0, 0, 0]);
    for nothing in ["<nothing/>", " nothing ", "<nothing></nothing>"] {
        let text = format!("<r><work>{nothing}</work><more/></r>");
        assert_eq!(text_to_binary(CASES, "r", &text).unwrap(), [0, 0, 0]);
    }
}

#[test]
fn what_is_no_case_is_refused_with_its_place() {
    let unknown = |found: &str| ErrorKind::UnknownCase {
        found: found.into(),
        known: "nothing, pieces, point".into(),
    };
    for (work, kind, path) in [
        ("none", unknown("none"), "r/work"),
        ("", unknown(""), "r/work"),
        ("0", unknown("0"), "r/work"),
        ("<none/>", unknown("none"), "r/work"),
        ("<pieces>10</pieces>", out_of(0, 9, "10"), "r/work/pieces"),
        ("<point/>", ErrorKind::MissingParameter { name: "x".into() }, "r/work/point"),
    ] {
        let text = format!("<r><work>{work}</work><more/></r>");
        let error = text_to_binary(CASES, "r", &text).unwrap_err();
        assert_eq!((error.kind(), error.path().as_str()), (&kind, path), "{error}");
    }
    for work in [
        "pieces",
        "<nothing>1</nothing>",
        "<nothing x=\"1\"/>",
        "nothing<pieces>1</pieces>",
        "<pieces>1</pieces>nothing",
        "<pieces>1</pieces><pieces>1</pieces>",
        "<pieces>1</point>",
        "<pieces>1",
    ] {
        let text = format!("<r><work>{work}</work><more/></r>");
        let error = text_to_binary(CASES, "r", &text).unwrap_err();
        assert!(error.line().is_some() && error.path().starts_with("r/work"), "{error}");
    }
    assert!(text_to_binary(CASES, "r", "<r><work/><more/></r>").is_err());
    let error = check_binary(CASES, &[0, 1, 0, 3]).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (&unknown("3"), 3));
    assert_eq!(error.path(), "more/0");
    let error = check_binary(CASES, &[1, 10, 0, 0, 0, 0, 0]).unwrap_err();
    assert_eq!(error.to_string(), "work/pieces, byte 1: expected 0 to 9, found 10");
    let error = values_to_binary(CASES, &[Value::Case(3, Value::Bool(true).into())]).err();
    assert!(error.is_some());
    let beyond = [Value::Case(3, Value::Record(vec![]).into()), Value::List(vec![])];
    assert_eq!(values_to_binary(CASES, &beyond).unwrap_err().kind(), &unknown("3"));
    let other = [Value::Case(1, Value::Bool(true).into()), Value::List(vec![])];
    assert_eq!(values_to_binary(CASES, &other).unwrap_err().path(), "work/pieces");
}

fn out_of(least: i128, most: i128, found: &str) -> ErrorKind {
    ErrorKind::OutOfRange { range: Range { least, most }, found: found.into() }
}

#[test]
fn lengths_have_ranges_too() {
    let range = Some(Range { least: 1, most: 2 });
    for (ty, contents) in [
        (Type::String, ["", "a", "ab", "abc"]),
        (Type::Bytes, ["", "AA==", "AAA=", "AAAA"]),
        (
            list(&Type::Bool),
            [
                "",
                "<item>true</item>",
                "<item>true</item><item>false</item>",
                "<item>true</item><item>false</item><item>true</item>",
            ],
        ),
    ] {
        let parameters = [Parameter { range, ..named("v", ty) }];
        let unchecked = [Parameter { range: None, ..parameters[0].clone() }];
        for (length, content) in contents.into_iter().enumerate() {
            let text = format!("<r><v>{content}</v></r>");
            let fits = (1..=2).contains(&length);
            assert_eq!(text_to_binary(&parameters, "r", &text).is_ok(), fits, "{text}");
            let bytes = text_to_binary(&unchecked, "r", &text).unwrap();
            assert_eq!(check_binary(&parameters, &bytes).is_ok(), fits, "{text}");
        }
    }
}

#[test]
fn logs_do_not_show_what_is_encrypted() {
    let secret = Parameter { encrypted: true, ..named("key", Type::String) };
    let record = Type::Record(vec![secret.clone(), named("id", Type::Uint8)].into());
    let parameters = [named("user", record), named("note", Type::String), secret];
    let text =
        "<login><user><key>hidden</key><id>7</id></user><note>n</note><key>too</key></login>";
    let bytes = text_to_binary(&parameters, "login", text).unwrap();
    assert_eq!(binary_to_text(&parameters, "login", &bytes).unwrap(), text);
    let masked = masked_text(&parameters, "login", &bytes).unwrap();
    let expected =
        "<login><user><key>***</key><id>7</id></user><note>n</note><key>***</key></login>";
    assert_eq!(masked, expected);
}

#[test]
fn a_string_that_no_text_can_carry_is_refused_or_replaced() {
    let parameters = [named("s", Type::String)];
    let bytes = values_to_binary(&parameters, &[Value::from("a\u{7}b")]).unwrap();
    let error = binary_to_text(&parameters, "r", &bytes).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (&ErrorKind::NoText { found: '\u{7}' }, 3));
    let shown = masked_text(&parameters, "r", &bytes).unwrap();
    assert_eq!(shown, "<r><s>a\u{fffd}b</s></r>");
}

#[test]
fn a_list_of_nothing_cannot_claim_room() {
    let nothing = [named("v", list(&Type::Record(Cow::Borrowed(&[]))))];
    let bytes = u16::MAX.to_le_bytes();
    assert_eq!(check_binary(&nothing, &bytes).unwrap_err().kind(), &ErrorKind::Truncated);
    let refused = text_to_binary(&nothing, "r", "<r><v><item/></v></r>").unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Schema { .. }), "{refused}");
    assert_eq!(text_to_binary(&nothing, "r", "<r><v/></r>").unwrap(), [0, 0]);
}

/// Any type with a value of it.
fn typed() -> impl Strategy<Value = (Type<'static>, Value<'static>)> {
    let uint = |ty: Type<'static>, most: u64| (Just(ty), (0..=most).prop_map(Value::Uint));
    let int =
        |ty: Type<'static>, least: i64, most: i64| (Just(ty), (least..=most).prop_map(Value::Int));
    let leaf = prop_oneof![
        uint(Type::Uint8, u8::MAX.into()),
        uint(Type::Uint16, u16::MAX.into()),
        uint(Type::Uint32, u32::MAX.into()),
        uint(Type::Uint64, u64::MAX),
        int(Type::Int8, i8::MIN.into(), i8::MAX.into()),
        int(Type::Int16, i16::MIN.into(), i16::MAX.into()),
        int(Type::Int32, i32::MIN.into(), i32::MAX.into()),
        int(Type::Int64, i64::MIN, i64::MAX),
        (Just(Type::Bool), any::<bool>().prop_map(Value::Bool)),
        (Just(Type::Float64), any::<f64>().prop_map(Value::Float)),
        (
            Just(Type::String),
            "[ -~\t\n\u{a0}-\u{d7ff}\u{1f400}]{0,80}".prop_map(|it| Value::String(it.into()))
        ),
        (Just(Type::Bytes), any::<Vec<u8>>().prop_map(|it| Value::Bytes(it.into()))),
        (
            Just(Type::Core),
            any::<(u32, u16)>().prop_map(|(node, core)| {
                let (node, core) = (nile_abi::NodeId(node), nile_abi::CoreId(core));
                Value::Core(Core { node, core })
            })
        ),
        (
            Just(Type::Buffer),
            any::<[u32; 4]>().prop_map(|[pool, index, generation, length]| {
                Value::Buffer(Buffer { pool, index, generation, length })
            })
        ),
    ];
    leaf.prop_recursive(3, 32, 4, |inner| {
        prop_oneof![
            // Elements of one type: the same value several times.
            (inner.clone(), 0usize..4).prop_map(|((ty, value), count)| {
                let ty = Type::List(Element::Owned(ty.into()));
                (ty, Value::List(vec![value; count]))
            }),
            prop::collection::vec(inner.clone(), 1..4).prop_map(|fields| {
                let (types, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
                (Type::Record(numbered(types).into()), Value::Record(values))
            }),
            (prop::collection::vec(inner, 0..4), any::<prop::sample::Index>()).prop_map(one_of),
        ]
    })
}

/// One of these, or none of them.
fn one_of(
    (cases, at): (Vec<(Type<'static>, Value<'static>)>, prop::sample::Index),
) -> (Type<'static>, Value<'static>) {
    let nothing = (Type::NOTHING, Value::Record(vec![]));
    let (types, mut values): (Vec<_>, Vec<_>) = cases.into_iter().chain([nothing]).unzip();
    let at = at.index(values.len());
    let value = Value::Case(at as u8, values.swap_remove(at).into());
    (Type::OneOf(numbered(types).into()), value)
}

fn numbered(types: Vec<Type<'static>>) -> Vec<Parameter<'static>> {
    let number = |(at, ty)| Parameter { name: format!("f{at}").into(), ..named("", ty) };
    types.into_iter().enumerate().map(number).collect()
}

fn message() -> impl Strategy<Value = (Vec<Parameter<'static>>, Vec<Value<'static>>)> {
    prop::collection::vec(typed(), 0..6).prop_map(|fields| {
        let (types, values): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
        (numbered(types), values)
    })
}

/// What an independent reader of XML says about a document.
fn well_formed(text: &str) -> bool {
    let mut reader = quick_xml::Reader::from_str(text);
    loop {
        match reader.read_event() {
            Ok(quick_xml::events::Event::Eof) => return true,
            Ok(_) => {}
            Err(_) => return false,
        }
    }
}

proptest! {
    #[test]
    fn values_survive_both_forms((parameters, said) in message()) {
        let bytes = values_to_binary(&parameters, &said).unwrap();
        prop_assert_eq!(check_binary(&parameters, &bytes), Ok(()));
        prop_assert_eq!(&values(&parameters, &bytes).unwrap(), &said);
        let text = binary_to_text(&parameters, "r", &bytes).unwrap();
        prop_assert!(well_formed(&text), "{}", text);
        prop_assert_eq!(&text_to_binary(&parameters, "r", &text).unwrap(), &bytes);
        prop_assert_eq!(&values_from_text(&parameters, "r", &text).unwrap(), &said);
        prop_assert!(bytes.len() <= text.len());
    }

    #[test]
    fn order_does_not_matter((parameters, said) in message(), by in any::<u64>()) {
        let bytes = values_to_binary(&parameters, &said).unwrap();
        let mut order: Vec<usize> = (0..parameters.len()).collect();
        order.sort_by_key(|at| (*at as u64 + 1).wrapping_mul(by | 1));
        let mut shuffled = String::from("<r>");
        for at in order {
            let one = &parameters[at..=at];
            let bytes = values_to_binary(one, &said[at..=at]).unwrap();
            let text = binary_to_text(one, "r", &bytes).unwrap();
            shuffled.push_str(&text[3..text.len() - 4]);
        }
        shuffled.push_str("</r>");
        prop_assert_eq!(text_to_binary(&parameters, "r", &shuffled).unwrap(), bytes);
    }

    #[test]
    fn any_bytes_are_values_or_an_error(
        (parameters, _) in message(),
        bytes in any::<Vec<u8>>(),
    ) {
        let checked = check_binary(&parameters, &bytes);
        match values(&parameters, &bytes) {
            Ok(values) => {
                prop_assert_eq!(checked, Ok(()));
                prop_assert_eq!(&values_to_binary(&parameters, &values).unwrap(), &bytes);
            }
            Err(error) => {
                prop_assert!(error.offset() <= bytes.len());
                prop_assert_eq!(checked, Err(error));
            }
        }
    }

    #[test]
    fn any_text_is_a_request_or_an_error(text in "(<|>|/|&|;|compute|[mn]|[0-9]|\\PC){0,24}") {
        if let Err(error) = text_to_binary(COMPUTE, "compute", &text) {
            prop_assert!(error.offset() <= text.len() && error.line().is_some());
        }
    }

    #[test]
    fn typed_values_survive(
        numbers in any::<Vec<u64>>(),
        words in any::<Vec<String>>(),
        odd in any::<(i8, bool, f64)>(),
    ) {
        let mut out = crate::Writer::new();
        crate::Encode::encode(&numbers, &mut out);
        crate::Encode::encode(&words, &mut out);
        crate::Encode::encode(&odd.0, &mut out);
        crate::Encode::encode(&odd.1, &mut out);
        crate::Encode::encode(&odd.2, &mut out);
        let bytes = out.into_bytes().unwrap();
        let mut input = Reader::new(&bytes);
        prop_assert_eq!(Vec::<u64>::decode(&mut input).unwrap(), numbers);
        prop_assert_eq!(Vec::<&str>::decode(&mut input).unwrap(), words);
        prop_assert_eq!(i8::decode(&mut input).unwrap(), odd.0);
        prop_assert_eq!(bool::decode(&mut input).unwrap(), odd.1);
        prop_assert_eq!(f64::decode(&mut input).unwrap(), odd.2);
        prop_assert_eq!(input.finish(), Ok(()));
    }
}
