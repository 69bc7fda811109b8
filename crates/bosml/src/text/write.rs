//! From the binary form to text.

use alloc::string::String;
use core::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::binary::Reader;
use crate::error::Error;
use crate::schema::{Parameter, Range, Type};
use crate::value::{Scalar, count, message};

use super::ITEM;
use super::escape::{escape, escape_lossy};

/// What stands for an encrypted value in logs.
const MASK: &str = "***";

/// For whom a text is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// For whoever reads it back.
    Exact,
    /// For a log.
    Log,
}

/// The document of the binary form `bytes`: an element `element` with a value for each of
/// `parameters`, in their order. It has less than 40 bytes and two names of the schema for each
/// byte of `bytes`; one of more than [`MAX_MESSAGE`](crate::MAX_MESSAGE) bytes can be shown but
/// not sent. Fails as [`check_binary`](crate::check_binary) does, and with
/// [`ErrorKind::NoText`](crate::ErrorKind::NoText) for characters that a text cannot carry.
pub fn binary_to_text(
    parameters: &[Parameter<'_>],
    element: &str,
    bytes: &[u8],
) -> Result<String, Error> {
    document(parameters, element, bytes, Purpose::Exact)
}

/// The same for logs: what the schema calls encrypted reads `***`, and characters that a text
/// cannot carry are replaced. Fails as [`check_binary`](crate::check_binary) does.
pub fn masked_text(
    parameters: &[Parameter<'_>],
    element: &str,
    bytes: &[u8],
) -> Result<String, Error> {
    document(parameters, element, bytes, Purpose::Log)
}

fn document(
    parameters: &[Parameter<'_>],
    element: &str,
    bytes: &[u8],
    purpose: Purpose,
) -> Result<String, Error> {
    let mut show = Show { input: message(bytes)?, out: String::new(), purpose };
    let fields = show.element(element, |show| show.fields(parameters));
    fields.map_err(|error| error.within(element))?;
    show.input.finish()?;
    Ok(show.out)
}

struct Show<'a> {
    input: Reader<'a>,
    out: String,
    purpose: Purpose,
}

impl Show<'_> {
    fn element(
        &mut self,
        name: &str,
        content: impl FnOnce(&mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for part in ["<", name, ">"] {
            self.out.push_str(part);
        }
        content(self)?;
        for part in ["</", name, ">"] {
            self.out.push_str(part);
        }
        Ok(())
    }

    fn fields(&mut self, fields: &[Parameter<'_>]) -> Result<(), Error> {
        fields.iter().try_for_each(|field| {
            let shown = self.element(&field.name, |show| show.field(field));
            shown.map_err(|error| error.within(&field.name))
        })
    }

    fn field(&mut self, field: &Parameter<'_>) -> Result<(), Error> {
        let start = self.out.len();
        self.value(&field.ty, field.range)?;
        if field.encrypted && self.purpose == Purpose::Log {
            self.out.truncate(start);
            self.out.push_str(MASK);
        }
        Ok(())
    }

    fn value(&mut self, ty: &Type<'_>, range: Option<Range>) -> Result<(), Error> {
        match ty {
            Type::List(item) => {
                let count = count(&mut self.input, range)?;
                (0..count).try_for_each(|index| {
                    self.element(ITEM, |show| show.value(item.get(), None))
                        .map_err(|error| error.within_item(index))
                })
            }
            Type::Record(fields) => self.fields(fields),
            Type::OneOf(cases) => {
                let number = usize::from(self.input.case(cases)?);
                match &cases[number] {
                    case if case.ty.is_nothing() => {
                        self.out.push_str(&case.name);
                        Ok(())
                    }
                    _ => self.fields(&cases[number..=number]),
                }
            }
            _ => self.scalar(ty, range),
        }
    }

    fn scalar(&mut self, ty: &Type<'_>, range: Option<Range>) -> Result<(), Error> {
        let at = self.input.offset();
        let written = match Scalar::decode(&mut self.input, ty, range)? {
            Scalar::Uint(number) => write!(self.out, "{number}"),
            Scalar::Int(number) => write!(self.out, "{number}"),
            Scalar::Bool(truth) => write!(self.out, "{truth}"),
            // The other format writes 1e300 with 300 zeros.
            Scalar::Float(number) => write!(self.out, "{number:?}"),
            Scalar::Core(core) => write!(self.out, "{core}"),
            Scalar::Buffer(buffer) => write!(self.out, "{buffer}"),
            Scalar::Bytes(bytes) => {
                STANDARD.encode_string(bytes, &mut self.out);
                Ok(())
            }
            Scalar::String(text) if self.purpose == Purpose::Log => {
                escape_lossy(text, &mut self.out);
                Ok(())
            }
            Scalar::String(text) => {
                // The string's bytes begin after its length.
                return escape(text, &mut self.out)
                    .map_err(|error| Error::new(error.kind().clone(), at + 2 + error.offset()));
            }
        };
        written.expect("a string takes all that is written to it");
        Ok(())
    }
}
