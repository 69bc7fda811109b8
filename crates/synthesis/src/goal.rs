//! What is given, wanted and allowed, and what there is to reach it by.

use alloc::string::String;
use alloc::vec::Vec;

use nile_bosml::schema::{Method, Type};

/// A value by what it means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Value {
    /// What it means: its name, unless the method says otherwise.
    pub meaning: String,
    /// Its type; without one, the only type that values of this meaning have.
    pub ty: Option<Type<'static>>,
}

impl Value {
    /// The value of this meaning.
    pub fn of(meaning: impl Into<String>) -> Value {
        Value { meaning: meaning.into(), ty: None }
    }
}

/// What is to be best.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Objective {
    /// The time until all wanted values are there is the least.
    #[default]
    Latency,
    /// The calls in a second are the most, and of these plans the quickest is taken.
    Throughput,
}

/// What a plan is for.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Goal {
    /// The values that there are.
    pub given: Vec<Value>,
    /// The values that are wanted.
    pub wanted: Vec<Value>,
    /// What is to be best.
    pub objective: Objective,
    /// The longest time that it may take, in nanoseconds.
    pub most_latency_ns: Option<u64>,
    /// The fewest calls in a second that each part can take.
    pub least_per_second: Option<u64>,
    /// How many of a million calls of a part may fail.
    pub most_failures_ppm: Option<u32>,
}

/// How good a method is, as declared or measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quality {
    /// How long a call takes.
    pub latency_ns: u64,
    /// How many calls in a second it can take; `u64::MAX` if that is not known.
    pub per_second: u64,
    /// How many of a million calls fail.
    pub failures_ppm: u32,
}

/// A method of a service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The name by which the service is called.
    pub service: String,
    /// The method.
    pub method: Method<'static>,
    /// How good it is.
    pub quality: Quality,
}
