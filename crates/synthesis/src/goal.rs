//! What is given, wanted and allowed, and what there is to reach it by.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

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

/// As people write it: `m`, or `m:uint_64` if there are values of several types of it.
impl FromStr for Value {
    type Err = String;

    fn from_str(text: &str) -> Result<Value, String> {
        let (meaning, ty) = match text.split_once(':') {
            Some((meaning, ty)) => (meaning, Some(type_of(ty)?)),
            None => (text, None),
        };
        match meaning {
            "" => Err("a value has a name, as in m,n".into()),
            _ => Ok(Value { meaning: meaning.into(), ty }),
        }
    }
}

/// As [`Value::from_str`] reads it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.meaning)?;
        self.ty.as_ref().map_or(Ok(()), |ty| write!(f, ":{}", ty.name()))
    }
}

/// The type of this name, if it has nothing inside.
fn type_of(name: &str) -> Result<Type<'static>, String> {
    let names: Vec<&str> = Type::SIMPLE.iter().map(Type::name).collect();
    let unknown = format!("no type is `{name}`; there are: {}", names.join(", "));
    Type::SIMPLE.into_iter().find(|ty| ty.name() == name).ok_or(unknown)
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
