//! `#[service]` and `#[derive(Record)]` (NileOS paper, III.C: the deployment preprocessor).
//!
//! From one `impl` block whose methods are tagged `#[stl_k]` or `#[stl_u]`, `#[service]` makes
//! what the transport layer needs: the schema with the doc comments, the dispatch by number of
//! each half, the typed interface of each half, the typed client, and the registration.
//!
//! * `input`: the block, understood; `declare`: its attributes; `check`: what it may not have.
//! * `schema`, `half`, `client`: what is generated from it.
//! * `record`: `#[derive(Record)]`.
#![forbid(unsafe_code)]

mod check;
mod client;
mod declare;
mod half;
mod input;
mod record;
mod schema;

use proc_macro::TokenStream;
use quote::quote;
use syn::{DeriveInput, ItemImpl, parse_macro_input};

/// Makes a service of an `impl` block.
///
/// ```text
/// /// One line about the service.
/// #[service(
///     subsystem = "examples", capability = "arithmetic",  // of its type
///     layer = high,                                       // high, low, micro
///     on = every,                                         // every, manager, or a role
///     keywords(recursion = 3, arithmetic = 1),            // each with its weight
///     attributes(depth = 9, exact = true, unit = "calls"), // what callers choose it by
///     type(                                               // more about its type, if any
///         name = "arithmetic",                            // else as the service's
///         profile(compute),                               // the methods all instances begin with
///         attributes(depth: int in 0..=99, optional unit: text in 1..=9),
///         parameters(most: int),                          // what a subject says when it binds
///         state(calls = 0),                               // what instances share at first
///         default = "other",                              // or none; else this service
///     ),
///     user = OtherStruct,                                 // state of the user half, if another
/// )]
/// impl Ackermann {
///     /// One line about the method.
///     #[stl_k(reply = "value")]
///     fn compute(&self, #[range(0..=3)] m: u64, #[encrypted] n: u64) -> CallResult<u64> { … }
/// }
/// ```
///
/// With `type = crate::ackermann::TYPE` in place of subsystem, capability and layer the service is
/// one more instance of the type that another service has declared. That it fits is checked when
/// it is compiled.
///
/// A method takes `&self`, perhaps `&Caller`, and typed parameters, and gives a value or a
/// `CallResult`, or a `Result` whose error becomes a `CallError`; it may be `async`. The struct
/// implements `Start`.
#[proc_macro_attribute]
pub fn service(attributes: TokenStream, block: TokenStream) -> TokenStream {
    let block = parse_macro_input!(block as ItemImpl);
    let service = match input::Service::understand(attributes.into(), block) {
        Ok(service) => service,
        Err(error) => return error.to_compile_error().into(),
    };
    let schema = schema::generate(&service);
    let halves = half::generate(&service);
    let client = client::generate(&service);
    quote! { #schema #halves #client }.into()
}

/// Makes a struct with named fields a record of the message language: its fields in their order.
#[proc_macro_derive(Record)]
pub fn record(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    record::generate(&item).unwrap_or_else(|error| error.to_compile_error()).into()
}
