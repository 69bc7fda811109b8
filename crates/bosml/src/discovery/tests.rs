//! Discovery documents: a service survives its document, and what is wrong in one has its place.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use proptest::prelude::*;

use super::{parse, to_text};
use crate::error::{Error, ErrorKind};
use crate::schema::{CallerKind, Callers, Element, Method, Mode, Parameter, Range, Service, Type};
use crate::{MAX_DEPTH, MAX_MESSAGE};

/// The service of the paper's Figure 11, with names that XML can have.
fn ackermann() -> Service<'static> {
    let parameter = |name: &'static str, doc: &'static str, range| Parameter {
        name: name.into(),
        doc: doc.into(),
        ty: Type::Uint64,
        range,
        encoded: true,
        encrypted: false,
    };
    let compute = Method {
        name: "compute".into(),
        doc: "Calls Ackermann's function".into(),
        mode: Mode::User,
        callers: Callers::NONE.with(CallerKind::Package).with(CallerKind::Peer),
        pure: false,
        parameters: vec![
            parameter("m", "The first argument", Some(Range { least: 0, most: 3 })),
            parameter("n", "", None),
        ]
        .into(),
        reply: vec![parameter("value", "A(m, n)", None)].into(),
    };
    let reset = Method {
        name: "reset".into(),
        doc: "".into(),
        mode: Mode::Kernel,
        callers: Callers::NONE,
        pure: false,
        parameters: vec![].into(),
        reply: vec![].into(),
    };
    Service {
        name: "ackermann".into(),
        doc: "Ackermann's function".into(),
        methods: vec![compute, reset].into(),
    }
}

const DOCUMENT: &str = "\
<ackermann doc=\"Ackermann's function\">
  <compute mode=\"user\" callers=\"package peer\" doc=\"Calls Ackermann's function\">
    <parameters>
      <m doc=\"The first argument\"><type>uint_64</type><size>8</size><encoded>true</encoded>\
<encrypted>false</encrypted><least>0</least><most>3</most></m>
      <n><type>uint_64</type><size>8</size><encoded>true</encoded><encrypted>false</encrypted></n>
    </parameters>
    <reply>
      <value doc=\"A(m, n)\"><type>uint_64</type><size>8</size><encoded>true</encoded>\
<encrypted>false</encrypted></value>
    </reply>
  </compute>
  <reset mode=\"kernel\">
    <parameters/>
    <reply/>
  </reset>
</ackermann>
";

#[test]
fn a_document_tells_everything() {
    assert_eq!(to_text(&ackermann()), DOCUMENT);
    assert_eq!(parse(DOCUMENT).unwrap(), ackermann());
}

#[test]
fn cases_are_told_by_their_names() {
    let some = Parameter::plain("some", Type::Uint8).within(0, 9);
    let cases = vec![Parameter::plain("none", Type::NOTHING), some];
    let mut service = ackermann();
    service.methods.to_mut()[0].parameters.to_mut()[1].ty = Type::OneOf(cases.into());
    let told = "<n><type>one_of</type><cases><none/><some><type>uint_8</type><size>1</size>\
        <encoded>true</encoded><encrypted>false</encrypted><least>0</least><most>9</most></some>\
        </cases><size>2</size>";
    let document = DOCUMENT.replace("<n><type>uint_64</type><size>8</size>", told);
    assert_eq!(to_text(&service), document);
    assert_eq!(parse(&document).unwrap().into_owned(), service);
    // In full, as a client may write it.
    let full = "<none><type>record</type><fields/><size>0</size><encoded>true</encoded>\
        <encrypted>false</encrypted></none>";
    assert_eq!(parse(&document.replace("<none/>", full)).unwrap().into_owned(), service);
    for (from, to) in [
        ("<none/>", "<some/>"),
        ("<none/>", "<9/>"),
        ("<some>", "<some/><some>"),
        ("<cases>", "<fields>"),
        ("<size>2</size>", "<size>1</size>"),
        ("<none/>", "<none></none>"),
        ("<none/>", "<none mode=\"user\"/>"),
    ] {
        assert!(parse(&document.replace(from, to)).unwrap_err().line().is_some(), "{to}");
    }
    let start = document.find("<cases>").unwrap();
    let end = document.find("</cases>").unwrap() + "</cases>".len();
    let mut empty = document.clone();
    empty.replace_range(start..end, "<cases/>");
    parse(&empty).unwrap_err();
}

#[test]
fn space_and_quotes_do_not_matter() {
    let spaced = DOCUMENT
        .replace("doc=\"A(m, n)\"", "\n doc = 'A(m,\tn)' ")
        .replace("<reply/>", "<reply ></reply >")
        .replace("<size>8</size>", "\r\n<size> 8\n</size >");
    assert_eq!(parse(&spaced).unwrap().into_owned(), ackermann());
}

#[track_caller]
fn refused(from: &str, to: &str) -> Error {
    let document = DOCUMENT.replacen(from, to, 1);
    assert_ne!(document, DOCUMENT);
    parse(&document).expect_err("it is refused")
}

#[test]
fn what_is_wrong_has_its_place() {
    let error = refused("<size>8</size>", "<size>4</size>");
    assert_eq!(error.path(), "ackermann/compute/m");
    assert_eq!(error.line(), Some((4, 61)), "{error}");
    let error = refused("uint_64", "uint_128");
    let named = matches!(error.kind(), ErrorKind::WrongType { found, .. } if found == "uint_128");
    assert!(named, "{error}");
    for (from, to) in [
        ("mode=\"user\"", ""),
        ("mode=\"user\"", "mode=\"supervisor\""),
        ("mode=\"user\"", "mode=\"user\" mode=\"user\""),
        ("<m doc", "<m mode=\"user\" doc"),
        ("<m doc", "<m type=\"x\" doc"),
        ("<m doc", "<n doc"),
        ("<reset", "<compute"),
        ("<encoded>true</encoded>", ""),
        ("<encoded>true</encoded>", "<encoded>yes</encoded>"),
        ("<encrypted>false</encrypted>", "<encrypted/>"),
        ("<most>3</most>", ""),
        ("<most>3</most>", "<most>three</most>"),
        ("<least>0</least>", "<least>4</least>"),
        ("<type>", "<type x=\"y\">"),
        ("<type>uint_64</type>", "<type>list</type>"),
        ("<reply>", "<answer>"),
        ("</ackermann>", ""),
        ("</ackermann>", "</ackermann><more/>"),
        ("<ackermann", "<!-- --><ackermann"),
        ("Ackermann's", "Ackermann&#39;s"),
        ("doc=\"The first argument\"", "doc=\"<\""),
        ("doc=\"The first argument\"", "doc=\"\u{1}\""),
        ("doc=\"The first argument\"", "doc=\"unfinished"),
    ] {
        let error = refused(from, to);
        assert!(error.line().is_some() && !error.to_string().is_empty());
    }
    let long = format!("{DOCUMENT}{}", " ".repeat(MAX_MESSAGE));
    assert_eq!(parse(&long).unwrap_err().kind(), &ErrorKind::TooLarge);
}

#[test]
fn a_type_can_be_nested_so_deep_and_no_deeper() {
    let nested = |depth| (0..depth).fold(Type::Bool, |ty, _| Type::List(owned(ty)));
    let mut service = ackermann();
    for (depth, fits) in [(MAX_DEPTH, true), (MAX_DEPTH + 1, false), (1000, false)] {
        let parameter = &mut service.methods.to_mut()[0].parameters.to_mut()[1];
        parameter.ty = nested(depth);
        let parsed = parse(&to_text(&service)).map(|parsed| parsed.into_owned() == service);
        match fits {
            true => assert_eq!(parsed, Ok(true)),
            false => assert_eq!(parsed.unwrap_err().kind(), &ErrorKind::TooDeep),
        }
    }
}

fn owned(ty: Type<'static>) -> Element<'static> {
    Element::Owned(Box::new(ty))
}

fn docs() -> impl Strategy<Value = String> {
    "[ -~\u{a0}-\u{17f}]{0,20}"
}

fn parameters(
    ty: impl Strategy<Value = Type<'static>>,
) -> impl Strategy<Value = Vec<Parameter<'static>>> {
    let parts = (ty, docs(), any::<[bool; 3]>(), any::<[u32; 2]>());
    prop::collection::vec(parts, 0..4).prop_map(|parts| {
        let one = |(at, (ty, doc, [encoded, encrypted, ranged], [a, b])): (
            usize,
            (Type<'static>, String, [bool; 3], [u32; 2]),
        )| {
            let (least, most) = (a.min(b).into(), a.max(b).into());
            let has_range = ty.limits().is_some() || ty.has_length();
            let range = (ranged && has_range).then_some(Range { least, most });
            let name = format!("p{at}").into();
            Parameter { name, doc: doc.into(), ty, range, encoded, encrypted }
        };
        parts.into_iter().enumerate().map(one).collect()
    })
}

fn types() -> impl Strategy<Value = Type<'static>> {
    let leaf = prop::sample::select(vec![
        Type::Uint8,
        Type::Int64,
        Type::Bool,
        Type::Float64,
        Type::String,
        Type::Bytes,
        Type::Core,
        Type::Buffer,
    ]);
    leaf.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|ty| Type::List(owned(ty))),
            parameters(inner.clone())
                .prop_filter("a record has a field", |fields| !fields.is_empty())
                .prop_map(|fields| Type::Record(fields.into())),
            (parameters(inner), docs()).prop_map(|(mut cases, doc)| {
                let nothing = Parameter::plain("nothing", Type::NOTHING);
                cases.push(Parameter { doc: doc.into(), ..nothing });
                Type::OneOf(cases.into())
            }),
        ]
    })
}

proptest! {
    #[test]
    fn a_service_survives_its_document(
        doc in docs(),
        takes in parameters(types()),
        gives in parameters(types()),
        mode in prop::sample::select(vec![Mode::Kernel, Mode::User]),
        callers in prop::sample::select(vec![Callers::NONE, Callers::ALL]),
        pure: bool,
    ) {
        let method = |name: &'static str| Method {
            name: name.into(),
            doc: doc.clone().into(),
            mode,
            callers,
            pure,
            parameters: takes.clone().into(),
            reply: gives.clone().into(),
        };
        let methods = vec![method("one"), method("two")].into();
        let service = Service { name: "any".into(), doc: doc.clone().into(), methods };
        prop_assert_eq!(service.check(), Ok(()));
        prop_assert_eq!(parse(&to_text(&service)).unwrap().into_owned(), service);
    }

    #[test]
    fn any_text_is_a_service_or_an_error(
        text in "(<|>|/|=|\"|'|[a-z]| |<type>|list|</|doc|mode|\\PC){0,32}",
        at in any::<prop::sample::Index>(),
    ) {
        let mut document = String::from(DOCUMENT);
        let starts: Vec<usize> = DOCUMENT.char_indices().map(|(at, _)| at).collect();
        document.insert_str(starts[at.index(starts.len())], &text);
        for text in [text, document] {
            if let Err(error) = parse(&text) {
                prop_assert!(error.offset() <= text.len() && error.line().is_some());
            }
        }
    }
}
