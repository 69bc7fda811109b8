//! What generated code calls.

pub use alloc::borrow::Cow;
pub use alloc::boxed::Box;
pub use alloc::rc::Rc;
pub use alloc::vec::Vec;

pub use nile_abi::{CoreId, Role, RoleSet};
pub use nile_bosml as bosml;
pub use nile_registry::Layer;

use alloc::format;

use bosml::typed::Measure;
use bosml::{Decode, Error, Reader, Typed, schema};
use nile_abi::Status;

use crate::{CallError, CallResult, MethodNumber};

/// The reply of a method that gives nothing.
pub struct Nothing;

impl Typed for Nothing {
    const TYPE: schema::Type<'static> = schema::Type::Record(Cow::Borrowed(&[]));
}

impl<'a> Decode<'a> for Nothing {
    fn decode(_: &mut Reader<'a>) -> Result<Nothing, Error> {
        Ok(Nothing)
    }
}

/// Whether an argument is within its bounds.
#[inline]
pub fn check_range(name: &str, value: &impl Measure, least: i128, most: i128) -> CallResult<()> {
    let measured = value.measure();
    if (least..=most).contains(&measured) {
        Ok(())
    } else {
        Err(beyond(name, measured, least, most))
    }
}

#[cold]
fn beyond(name: &str, measured: i128, least: i128, most: i128) -> CallError {
    let message = format!("{name} is {measured}, which is not within {least} to {most}");
    CallError::new(Status::Invalid, message)
}

impl CallError {
    /// There is no method of this number.
    #[doc(hidden)]
    #[cold]
    pub fn no_method(schema: &schema::Service<'_>, method: MethodNumber) -> CallError {
        let message = format!("{} has no method of number {}", schema.name, method.0);
        CallError::new(Status::NotFound, message)
    }

    /// The method's declaration does not allow these callers.
    #[cold]
    pub(crate) fn not_allowed(
        service: &str,
        method: &schema::Method<'_>,
        kind: schema::CallerKind,
    ) -> CallError {
        let (name, kind) = (&method.name, kind.name());
        let message = match method.callers {
            schema::Callers::NONE => format!(
                "{service}.{name} is for the kernels of its node, not for a {kind}: its \
                 declaration allows nobody else"
            ),
            callers => {
                format!("{service}.{name} is not for a {kind}: its declaration allows {callers}")
            }
        };
        CallError::new(Status::Denied, message)
    }

    /// The method is in the service's other half.
    #[doc(hidden)]
    #[cold]
    pub fn other_half(schema: &schema::Service<'_>, method: MethodNumber) -> CallError {
        let known = schema.methods.get(usize::from(method.0));
        let message = match known {
            Some(method) => {
                let (here, there) = match method.mode {
                    schema::Mode::Kernel => ("a package", "the kernel"),
                    schema::Mode::User => ("the kernel", "a package that is linked with it"),
                };
                format!("{}.{} runs in {there}, not in {here}", schema.name, method.name)
            }
            None => format!("{} has no method of number {}", schema.name, method.0),
        };
        CallError::new(Status::Denied, message)
    }
}
