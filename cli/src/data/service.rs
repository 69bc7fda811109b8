//! A service of the nodes that is called in the binary form: where its instances are, and the
//! numbers of its methods.

use nile_bosml::{Decode, Reader, discovery};

use super::stores::Arguments;
use crate::cluster::services;
use crate::cluster::session::Session;
use crate::failure::Failure;
use crate::peer::call::{CallFailed, Request};
use crate::peer::known::{self, Target};
use nile_abi::Status;

/// The instances of a service, the one on the lowest node first, and what they are asked for.
pub struct Service {
    name: &'static str,
    pub all: Vec<Target>,
    /// The names of the service's methods, by their numbers.
    methods: Vec<String>,
}

impl Service {
    /// Finds it; none if no node has it.
    pub fn find(session: &mut Session, name: &'static str) -> Result<Option<Service>, Failure> {
        let instances = known::instances(session.peer.known());
        let named = instances.iter().filter(|(_, it)| it.name == name);
        let all: Vec<Target> = named.map(|(target, _)| *target).collect();
        let mut why = None;
        for target in &all {
            match services::schema(session, *target)? {
                Ok(schema) => {
                    // It was parsed before it was given.
                    let schema =
                        discovery::parse(&schema).map_err(|it| Failure::failed(it.to_string()))?;
                    let methods = schema.methods.iter().map(|it| it.name.to_string()).collect();
                    return Ok(Some(Service { name, all, methods }));
                }
                Err(failed) => {
                    let failure = || format!("{name} on {}: {failed}", target.place());
                    why.get_or_insert_with(|| Failure::failed(failure()));
                }
            }
        }
        why.map_or(Ok(None), Err)
    }

    /// A call of one of its methods.
    pub fn request(
        &self,
        target: Target,
        method: &str,
        arguments: Arguments,
    ) -> Result<Request, Failure> {
        let number = self.methods.iter().position(|name| name == method);
        let wrong = |why: &str| Failure::failed(format!("{}.{method}: {why}", self.name));
        let method = number.ok_or_else(|| wrong("the nodes are of another version"))? as u16;
        let arguments = arguments.into_bytes().map_err(|error| wrong(&error))?;
        Ok(Request { target, method, arguments })
    }
}

/// A reply's value.
pub fn decode<T: for<'a> Decode<'a>>(bytes: &[u8]) -> Result<T, CallFailed> {
    T::decode(&mut Reader::new(bytes)).map_err(|error| {
        CallFailed::new(Status::Invalid, format!("a reply that cannot be read: {error}"))
    })
}
