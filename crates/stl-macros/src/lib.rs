//! `#[service]` and `#[derive(Record)]` (NileOS paper, III.C: the deployment preprocessor).
//!
//! From a trait whose methods are tagged `#[stl_k]` or `#[stl_u]`, `#[service]` makes what callers
//! link: the schema with the doc comments, the methods of each half as a trait that objects can
//! have, their dispatch by number, and the typed client. From the `impl` block of such a trait it
//! makes the registration. An `impl` block of its own is both.
//!
//! * `input`, `method`: what stands there, understood; `declare`: its attributes; `check`: what it
//!   may not have.
//! * `schema`, `half`, `client`: what is generated from it.
//! * `record`: `#[derive(Record)]`.
#![forbid(unsafe_code)]

mod check;
mod client;
mod declare;
mod half;
mod input;
mod method;
mod record;
mod schema;

use proc_macro::TokenStream;
use quote::quote;
use syn::{DeriveInput, Error, Item, ItemImpl, parse_macro_input};

/// Makes a service: of a trait its interface, of an `impl` block of that its implementation, of an
/// `impl` block of its own both.
///
/// A service that others call has its interface apart, so that whoever calls it links that alone:
///
/// ```text
/// /// One line about the service.
/// #[service(
///     subsystem = "examples", capability = "arithmetic",  // of its type
///     layer = high,                                       // high, low, micro
///     type(                                               // more about its type, if any
///         name = "arithmetic",                            // else as the service's
///         extends = crate::arithmetic::TYPE,              // what instances of it are, too
///         profile(compute),                               // the methods all instances begin with
///         attributes(depth: int in 0..=99, optional unit: text in 1..=9),
///         parameters(most: int),                          // what a subject says when it binds
///         state(calls = 0),                               // what instances share at first
///         default = "other",                              // or none; else this service
///     ),
/// )]
/// pub trait Ackermann {
///     /// One line about the method.
///     #[stl_k(reply = "value")]
///     fn compute(&self, #[range(0..=3)] m: u64, #[encrypted] n: u64) -> CallResult<u64>;
/// }
/// ```
///
/// With `type = crate::ackermann::TYPE` in place of subsystem, capability and layer the service is
/// one more instance of the type that another service has declared. That it fits is checked when
/// it is compiled.
///
/// This makes `AckermannClient`, `INTERFACE`, `SCHEMA`, `TYPE` and, for the methods tagged `stl_k`
/// and for those tagged `stl_u`, the traits `AckermannKernel` and `AckermannUser`, whose methods
/// are these. Whoever implements the service says:
///
/// ```text
/// /// How it works, in a line.
/// #[service(
///     on = every,                                         // every, manager, or a role
///     keywords(recursion = 3, arithmetic = 1),            // each with its weight
///     attributes(depth = 9, exact = true, unit = "calls"), // what callers choose it by
///     user = OtherStruct,                                 // with the user half's state, if any
///     policy = crate::Lottery,                            // what decides, if it is a policy
/// )]
/// impl AckermannKernel for Ackermann {
///     fn compute(&self, m: u64, n: u64) -> CallResult<u64> { … }
/// }
/// ```
///
/// and has `#[half]` at the user half beside it. This makes the `REGISTRATION`. The structs
/// implement `Start`.
///
/// A service that nobody else calls is one block, `impl Ackermann`, with all of that in its
/// attribute and at its methods.
///
/// A method that is `#[pure]`, without effects, can be part of a composition that is planned by
/// itself. `#[means("word")]` at a parameter, or at a method for its reply, says what a value means
/// if its name does not.
///
/// A method takes `&self`, perhaps `&Caller`, and typed parameters, and gives a value or a
/// `CallResult`; in a block that is both a `Result` whose error becomes a `CallError`, too. It may
/// be `async`.
#[proc_macro_attribute]
pub fn service(attributes: TokenStream, item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as Item);
    generate(input::Service::understand(attributes.into(), item))
}

/// Implements one half of a service whose other half has the registration: see [`service`].
#[proc_macro_attribute]
pub fn half(attributes: TokenStream, block: TokenStream) -> TokenStream {
    let block = parse_macro_input!(block as ItemImpl);
    let attributes = proc_macro2::TokenStream::from(attributes);
    if !attributes.is_empty() {
        let why = "all of a service is said at its other half: #[half] stands alone";
        return Error::new_spanned(attributes, why).to_compile_error().into();
    }
    generate(input::Service::half(block))
}

fn generate(service: syn::Result<input::Service>) -> TokenStream {
    let service = match service {
        Ok(service) => service,
        Err(error) => return error.to_compile_error().into(),
    };
    let declared = service.interface.iter().map(|interface| {
        let schema = schema::declare(interface);
        let halves = half::declare(interface);
        let client = client::generate(interface);
        quote!(#schema #halves #client)
    });
    let implemented = service.implementation.iter().map(|implementation| {
        let halves = half::implement(implementation);
        let registration = implementation.registered.as_ref().map(schema::register);
        quote!(#halves #registration)
    });
    quote!(#(#declared)* #(#implemented)*).into()
}

/// Makes a type a value of the message language: a struct with named fields a record, in their
/// order, an enum one of its cases, in theirs, and a struct around one value that value.
///
/// ```text
/// #[derive(Record)]
/// enum Work {
///     Nothing,                             // `nothing` in the text form
///     Split(Split),                        // `<split>…</split>`
///     Pieces { #[range(0..=9)] maps: u32 } // `<pieces><maps>2</maps></pieces>`
/// }
/// ```
///
/// A value that is not within its `#[range]` is not taken. Crates beneath `nile-stl` say
/// `#[record(crate = nile_bosml)]`.
#[proc_macro_derive(Record, attributes(record, range))]
pub fn record(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    record::generate(&item).unwrap_or_else(|error| error.to_compile_error()).into()
}
