//! What `#[service(…)]` may say, and what it is told otherwise.

use quote::quote;

use super::*;
use crate::input::Service;

/// A service that says this of itself, with the methods `enqueue`, `next` and `look`.
fn service(attributes: TokenStream) -> Result<Service> {
    let block = quote! {
        impl Tested {
            #[stl_k] fn enqueue(&self, task: u64) {}
            #[stl_k] fn next(&self) -> u64 { 0 }
            #[stl_k] fn look(&self) -> u64 { 0 }
        }
    };
    Service::understand(attributes, syn::parse2(block).expect("it is an item"))
}

fn declared_by(service: Service) -> Declared {
    let implementation = service.implementation.expect("it is a block");
    implementation.registered.expect("it is the whole of it").declared
}

fn own(ty: TokenStream) -> Result<OwnType> {
    let declared = quote!(subsystem = "tests", capability = "declaring", #ty);
    match declared_by(service(declared)?).says.ty {
        Kind::Own(own) => Ok(own),
        Kind::Other(_) => panic!("it declares its own type"),
    }
}

#[test]
fn all_that_can_be_said_is_understood() {
    let service_with_all = service(quote! {
        subsystem = "processes", capability = "scheduling", layer = low, on = manager,
        keywords(fair = 5, "time sharing" = 2, type = 1),
        attributes(global_priority = -20, preemptive = true, order = "by share"),
        type(
            name = "scheduling",
            profile(enqueue, next),
            attributes(global_priority: int in -100..=100, optional order: text in 1..=20),
            parameters(optional local_priority: int, alone: bool),
            state(runnable = 0),
            default = "tested",
        ),
    })
    .unwrap();
    let profile = service_with_all.interface.as_ref().expect("it says what it is").profile;
    let declared = declared_by(service_with_all);
    let words: Vec<_> = declared.keywords.iter().map(|(word, it)| (word.as_str(), *it)).collect();
    assert_eq!(words, [("fair", 5), ("time sharing", 2), ("type", 1)]);
    let [priority, preemptive, order] = declared.attributes.as_slice() else { panic!("three") };
    assert!(priority.name == "global_priority" && matches!(priority.value, Literal::Int(-20)));
    assert!(preemptive.name == "preemptive" && matches!(preemptive.value, Literal::Bool(true)));
    assert!(matches!(&order.value, Literal::Text(text) if text == "by share"));
    let Kind::Own(own) = &declared.says.ty else { panic!("it declares its own type") };
    assert_eq!((own.name.as_deref(), profile), (Some("scheduling"), 2));
    let rules = own.attributes.iter().chain(&own.parameters);
    let rules: Vec<_> = rules.map(|it| (it.name.as_str(), it.range, it.required)).collect();
    let expected = [
        ("global_priority", Some((-100, 100)), true),
        ("order", Some((1, 20)), false),
        ("local_priority", None, false),
        ("alone", None, true),
    ];
    assert_eq!(rules, expected);
    assert!(own.parameters[1].kind == ValueKind::Bool && own.state[0].name == "runnable");
    assert!(matches!(&own.default, DefaultInstance::Other(name) if name == "tested"));

    let other = service(quote!(type = crate::fair::TYPE, keywords(batch = 1))).unwrap();
    assert!(matches!(declared_by(other).says.ty, Kind::Other(path) if path.segments.len() == 3));
    let nobody = own_with(quote!(default = none));
    assert!(matches!(nobody.default, DefaultInstance::Nobody) && nobody.profile.is_none());
}

fn own_with(inside: TokenStream) -> OwnType {
    own(quote!(type(#inside))).unwrap()
}

#[test]
fn every_mistake_is_told_in_its_own_words() {
    for (told, wrong) in [
        ("known here: subsystem", quote!(subsytem = "x")),
        ("twice", quote!(on = every, on = manager)),
        ("layers: high", quote!(layer = top)),
        ("in quotes", quote!(working = 3)),
        ("empty", quote!(working = "")),
        ("weight is 1 to 65535", quote!(keywords(a = 0))),
        ("weight is 1 to 65535", quote!(keywords(a = 65536))),
        ("`a` stands here twice", quote!(keywords(a = 1, "a" = 2))),
        ("`a` stands here twice", quote!(attributes(a = 1, a = 2))),
        ("64 bits", quote!(attributes(a = 9223372036854775808))),
        ("64 bits", quote!(attributes(a = -true))),
        ("64 bits", quote!(attributes(a = 1.5))),
        ("64 bits", quote!(attributes(a = b))),
        ("underscores", quote!(attributes(__a = 1))),
        ("global_priority is a whole number", quote!(attributes(global_priority = "high"))),
        ("known of a type: name", quote!(type(named = "x"))),
        ("twice", quote!(type(state(a = 1), state(b = 1)))),
        ("kinds of values: int, bool, text", quote!(type(attributes(a: i64)))),
        ("optional, or nothing", quote!(type(attributes(mandatory a: int)))),
        ("have no range", quote!(type(parameters(a: bool in 0..=1)))),
        ("range is empty", quote!(type(parameters(a: int in 2..=1)))),
        ("as in 0..=9", quote!(type(parameters(a: int in 2..3)))),
        ("`a` stands here twice", quote!(type(parameters(a: int, optional a: int)))),
        ("first methods in their order", quote!(type(profile(next, enqueue)))),
        ("first methods in their order", quote!(type(profile(enqueue, dequeue)))),
        ("or none", quote!(type(default = nobody))),
        ("leave it out", quote!(type = crate::fair::TYPE)),
        ("by its path", quote!(type = "scheduling")),
    ] {
        let text = wrong.to_string();
        let attributes = quote!(subsystem = "tests", capability = "declaring", #wrong);
        let why = service(attributes).err().unwrap_or_else(|| panic!("{text} is not refused"));
        assert!(why.to_string().contains(told), "{text}: {why}");
    }
    let nothing = service(quote!(on = every)).err().expect("it is of no type");
    assert!(nothing.to_string().contains("of which type it is"), "{nothing}");
}

/// What an interface says its implementation does not, and the other way round.
#[test]
fn each_form_says_its_own() {
    let refusal = |attributes: TokenStream, item: TokenStream| {
        let item = syn::parse2(item).expect("it is an item");
        Service::understand(attributes, item).err().map(|error| error.to_string())
    };
    let interface = || {
        quote!(
            trait Tested {
                #[stl_k]
                fn next(&self) -> u64;
            }
        )
    };
    let implementation = || quote!(impl TestedKernel for Tested { fn next(&self) -> u64 { 0 } });
    let said = || quote!(subsystem = "tests", capability = "declaring", layer = low);
    let done = || quote!(on = manager, working = "well", keywords(a = 1), attributes(b = 2));
    assert_eq!(refusal(said(), interface()), None);
    assert_eq!(refusal(done(), implementation()), None);
    assert_eq!(refusal(quote!(), implementation()), None);
    for (told, attributes, item) in [
        ("an implementation says its `on`", quote!(on = manager), interface()),
        ("the interface says its `layer`", quote!(layer = low), implementation()),
        ("known here: working", quote!(worked = "x"), implementation()),
        ("of which type it is", quote!(), interface()),
    ] {
        let why = refusal(attributes, item).expect("it is refused");
        assert!(why.contains(told), "{why}");
    }
}

/// A mistake is shown where it is, and not at the whole attribute.
#[test]
fn a_mistake_is_told_where_it_is() {
    let at = |text: &str| {
        let tokens = text.parse().expect("it is made of tokens");
        service(tokens).err().expect("it is refused").span().start().column
    };
    let wrong = "subsystem = \"t\", capability = \"d\", keywords(a = 1, b = 0)";
    assert_eq!(at(wrong), wrong.rfind('0').unwrap());
    let wrong = "type = crate::x::TYPE, layer = low, on = every";
    assert_eq!(at(wrong), wrong.find("layer").unwrap());
    let wrong = "subsystem = \"t\", capability = \"d\", type(profile(next))";
    assert_eq!(at(wrong), wrong.find("next").unwrap());
}
