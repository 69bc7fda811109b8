//! What goes from a core to the registry is the service that the core has.

use alloc::rc::Rc;
use alloc::vec::Vec;

use nile_abi::{CoreId, Generation};
use nile_bosml::schema::Mode;
use nile_interfaces::registry::GivenValue;
use nile_stl::{Described, ServiceNumber};

use super::*;

/// Declares a type.
mod fair {
    use nile_stl::{Start, Stl, service};

    pub struct Fair;

    impl Start for Fair {
        fn start(_: &Stl) -> Fair {
            Fair
        }
    }

    /// Who runs next, by shares.
    #[service(
        subsystem = "processes",
        capability = "scheduling",
        layer = low,
        working = "in turns",
        keywords(interactive = 7),
        attributes(global_priority = 20, preemptive = true, order = "20"),
        type(
            name = "scheduling",
            profile(enqueue),
            attributes(global_priority: int in 0..=99, optional order: text in 1..=20),
            parameters(optional local_priority: int in 0..=9, alone: bool, name: text),
            state(runnable = 0, owner = "nobody", open = false),
        ),
    )]
    impl Fair {
        /// A task can run.
        #[stl_k]
        fn enqueue(&self, _task: u64) {}

        /// What only this one has.
        #[stl_k]
        fn look(&self) {}
    }
}

/// Is one more instance.
mod fifo {
    use nile_stl::{Start, Stl, service};

    pub struct Fifo;

    impl Start for Fifo {
        fn start(_: &Stl) -> Fifo {
            Fifo
        }
    }

    /// Who runs next, by arrival.
    #[service(type = super::fair::TYPE, attributes(global_priority = 10))]
    impl Fifo {
        /// A task can run, it is said here in other words.
        #[stl_k]
        fn enqueue(&self, _task: u64) {}
    }
}

/// Declares a type that extends the first.
mod sliced {
    use nile_stl::{Start, Stl, service};

    pub struct Sliced;

    impl Start for Sliced {
        fn start(_: &Stl) -> Sliced {
            Sliced
        }
    }

    /// Who runs next, and for how long.
    #[service(
        subsystem = "processes",
        capability = "sliced scheduling",
        layer = low,
        attributes(global_priority = 11, slice = 5),
        type(extends = super::fair::TYPE, attributes(slice: int in 1..=50), default = none),
    )]
    impl Sliced {
        /// A task can run, once more.
        #[stl_k]
        fn enqueue(&self, _task: u64) {}

        /// How long it may.
        #[stl_k(reply = "slice")]
        fn slice(&self) -> u64 {
            5
        }
    }
}

fn place() -> Place {
    let (node, core) = (Place::HERE, CoreId(3));
    Place { node, core, generation: Generation(2), number: ServiceNumber(5) }
}

fn told(registration: &'static Registration) -> Publication {
    publication(&Published::Linked(registration), place())
}

fn understood(publication: &Publication) -> CallResult<(ServiceType, NewInstance)> {
    unknown(discovery::parse(&publication.document)?.into_owned(), publication)
}

#[test]
fn a_type_and_its_instance_arrive_as_they_were_declared() {
    let publication = told(&fair::REGISTRATION);
    assert_eq!((publication.generation, publication.number), (2, 5));
    let (ty, new) = understood(&publication).unwrap();
    assert_eq!((ty, new), known(&fair::REGISTRATION));
    let (ty, new) = understood(&told(&fifo::REGISTRATION)).unwrap();
    let (declared, declared_new) = known(&fifo::REGISTRATION);
    assert_eq!(new, declared_new);
    assert_eq!(differ(&ty, &declared), None, "only the words about it are other ones");
    let (ty, new) = understood(&told(&sliced::REGISTRATION)).unwrap();
    assert_eq!((&ty, &new), (&sliced::TYPE, &known(&sliced::REGISTRATION).1));
    let parent = ty.ancestors().next().expect("it extends one");
    assert_eq!(differ(parent, &fair::TYPE), None);
}

#[test]
fn a_service_of_this_image_is_told_by_its_name() {
    let publication = told(ALL[0]);
    assert_eq!(publication.name, ALL[0].name());
    assert!(publication.document.is_empty() && publication.declaration.name.is_empty());
}

/// A policy as a package says it.
fn policy_of_a_package(type_name: &str) -> Published {
    let fair = crate::fair::REGISTRATION.interface;
    let mut schema = fair.schema.clone();
    schema.name = "least".into();
    schema.methods.to_mut()[0].mode = Mode::User;
    Published::Described(Rc::new(Described {
        schema,
        subsystem: fair.subsystem.into(),
        capability: fair.capability.into(),
        layer: Layer::High,
        keywords: Vec::new(),
        type_name: type_name.into(),
        attributes: Vec::from([("global_priority".into(), "12".into())]),
    }))
}

#[test]
fn a_package_publishes_an_instance_of_a_type_that_the_node_has() {
    let (ty, new) = understood(&publication(&policy_of_a_package("scheduling"), place())).unwrap();
    assert_eq!(differ(&known(&crate::fair::REGISTRATION).0, &ty), None);
    assert_eq!((&*new.name, &*ty.name), ("least", "scheduling"));
    assert_eq!(*new.attributes, [Attribute::int("global_priority", 12)]);
    let unknown = publication(&policy_of_a_package("paging"), place());
    let error = understood(&unknown).expect_err("there is no such type");
    assert!(
        error.status == Status::NotFound && error.message.contains("no type paging"),
        "{error}"
    );
}

type Change = fn(&mut Publication);

#[test]
fn what_instances_say_otherwise_of_their_type_is_found() {
    let declared = known(&fair::REGISTRATION).0;
    let changes: [(&str, Change); 8] = [
        ("methods", |it| it.declaration.methods = 2),
        ("layer", |it| it.layer = Layer::High),
        ("capability", |it| it.capability = "paging".into()),
        ("attributes", |it| it.declaration.rules[0].bounds = None),
        ("attributes", |it| it.declaration.rules[1].required = true),
        ("parameters", |it| drop(it.declaration.rules.pop())),
        ("state", |it| it.declaration.state[0].value = GivenValue::Int(1)),
        ("default", |it| it.declaration.default_instance = Some("fifo".into())),
    ];
    for (what, change) in changes {
        let mut publication = told(&fair::REGISTRATION);
        change(&mut publication);
        let (ty, _) = understood(&publication).unwrap();
        let other = differ(&declared, &ty).expect("it is another type");
        assert!(other.contains(what), "{what}: {other}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let mut publication = told(&fair::REGISTRATION);
    publication.declaration.methods = 3;
    let error = understood(&publication).expect_err("it cannot be");
    assert!(error.status == Status::Invalid && error.message.contains("3 methods"), "{error}");
}

#[test]
fn a_value_that_nobody_knows_is_what_its_rule_wants_or_what_it_looks_like() {
    let rules = &*fair::TYPE.attributes;
    let value = |name, text| NamedValue::written(name, text).attribute(rules);
    let looks = ["-7", "true", "x"].map(|text| NamedValue::written("any", text));
    let looks: Vec<_> = looks.iter().map(|it| it.attribute(&[]).value.kind()).collect();
    use nile_registry::AttributeKind::{Bool, Int, Text};
    assert_eq!(looks, [Int, Bool, Text]);
    assert_eq!(value("order", "7"), Attribute::text("order", "7"));
    assert_eq!(value("global_priority", "7"), Attribute::int("global_priority", 7));
    // The rule refuses it.
    assert_eq!(value("global_priority", "x"), Attribute::text("global_priority", "x"));
}

#[test]
fn an_instance_is_published_if_it_fits_its_type_and_all_agree_about_that() {
    let state = crate::registry::state::State::default();
    let publish = |registration, number, change: Change| {
        let mut publication = told(registration);
        publication.number = number;
        change(&mut publication);
        state.publish(CoreId(3), &publication).map_err(|error| error.message.into_owned())
    };
    assert_eq!(publish(&fifo::REGISTRATION, 1, |_| {}), Ok(()));
    let missing = publish(&fair::REGISTRATION, 2, |it| it.attributes.clear()).unwrap_err();
    assert!(missing.contains("`global_priority` must be given"), "{missing}");
    let other = publish(&fair::REGISTRATION, 2, |it| it.declaration.rules.clear()).unwrap_err();
    assert!(other.contains("other attributes or parameters"), "{other}");
    assert_eq!(publish(&fair::REGISTRATION, 2, |_| {}), Ok(()));
    let order = state.order("scheduling").unwrap();
    let names: Vec<_> = order.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["fair", "fifo"]);
}
