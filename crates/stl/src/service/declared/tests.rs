//! Whether a service fits its type, as the compiler is told. The services here do.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::Fingerprint;

/// Declares a type.
mod fair {
    use crate::{Start, Stl, service};

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
        attributes(global_priority = 20, slice = 5),
        type(
            name = "scheduling",
            profile(enqueue),
            attributes(global_priority: int, slice: int in 1..=50, optional order: text in 2..=5),
            parameters(optional local_priority: int in 0..=9),
            state(runnable = 0),
        ),
    )]
    impl Fair {
        /// A task may run.
        #[stl_k]
        fn enqueue(&self, _task: u64) {}

        /// What only this one has.
        #[stl_k(reply = "share")]
        fn share(&self, task: u64) -> u64 {
            task
        }
    }
}

/// Is one more instance.
mod fifo {
    use crate::{Start, Stl, service};

    pub struct Fifo;

    impl Start for Fifo {
        fn start(_: &Stl) -> Fifo {
            Fifo
        }
    }

    /// Who runs next, by arrival.
    #[service(
        type = super::fair::TYPE,
        keywords(batch = 8),
        attributes(global_priority = 10, slice = 50),
    )]
    impl Fifo {
        /// A task waits for its turn.
        #[stl_k]
        fn enqueue(&self, _task: u64) {}
    }
}

#[test]
fn an_instance_has_the_type_of_another_service() {
    let attributes = fifo::REGISTRATION.attributes;
    let (fair, fifo) = (fair::INTERFACE, fifo::INTERFACE);
    assert!(fair.ty == Some(&fair::TYPE) && fair.ty == fifo.ty);
    let ServiceType { name, profile, default_instance, state, parameters, .. } = &fair::TYPE;
    assert_eq!((name, default_instance.as_deref()), (&profile.name, Some("fair")));
    let methods: Vec<_> = profile.methods.iter().map(|method| &*method.name).collect();
    assert_eq!((&**name, methods), ("scheduling", vec!["enqueue"]));
    assert_eq!(state[..], [Attribute::int("runnable", 0)]);
    assert_eq!((parameters.len(), parameters[0].required), (1, false));
    assert_eq!(attributes[0], Attribute::int("global_priority", 10));
    let said = (fifo.name, fifo.subsystem, fifo.capability, fifo.layer);
    assert_eq!(said, ("fifo", "processes", "scheduling", fair.layer));
    assert_eq!(fifo.fingerprint, Fingerprint::of(&fifo::SCHEMA));
    assert_ne!(fifo.fingerprint, fair.fingerprint);
}

#[test]
fn what_does_not_fit_is_told() {
    let with = |attributes: &'static [Attribute]| {
        Misfit::of(&Registration { attributes, ..fifo::REGISTRATION })
    };
    let told = |misfit: Option<Misfit>| misfit.map(|it| it.as_str().to_string());
    assert_eq!(told(with(fifo::REGISTRATION.attributes)), None);
    static NO_SLICE: [Attribute; 1] = [attribute("global_priority", AttributeValue::Int(1))];
    static BEYOND: [Attribute; 2] =
        [attribute("global_priority", AttributeValue::Int(1)), slice(AttributeValue::Int(51))];
    static NO_NUMBER: [Attribute; 2] =
        [attribute("global_priority", AttributeValue::Int(1)), slice(AttributeValue::Bool(true))];
    static LONG: [Attribute; 3] = [
        attribute("global_priority", AttributeValue::Int(1)),
        slice(AttributeValue::Int(50)),
        attribute("order", AttributeValue::Text(Cow::Borrowed("arrival"))),
    ];
    static LONG_NAME: [Attribute; 1] = [attribute(
        "a_name_that_is_much_too_long_because_nobody_wants_to_read_it_anywhere",
        AttributeValue::Int(1),
    )];
    for (attributes, what) in [
        (&NO_SLICE[..], "attribute `slice` must be given"),
        (&BEYOND, "attribute `slice` is not within"),
        (&NO_NUMBER, "attribute `slice` must be a whole number"),
        (&LONG, "attribute `order` is not within"),
        (&LONG_NAME, "too long"),
    ] {
        let why = told(with(attributes)).expect("it does not fit");
        assert!(why.contains(what), "{why}");
    }
    let wrong = Interface { schema: &OTHER, ..fifo::INTERFACE };
    let why =
        told(Misfit::of_interface(&wrong, &fair::TYPE)).expect("it has not the type's method");
    assert!(why.contains("the methods of its type `scheduling`"), "{why}");
}

const fn slice(value: AttributeValue) -> Attribute {
    attribute("slice", value)
}

static OTHER: Service<'static> =
    Service { name: Cow::Borrowed("fifo"), doc: Cow::Borrowed(""), methods: Cow::Borrowed(&[]) };
