//! BOSML, the message language of NileOS (NileOS paper, III.E): what a service says about itself,
//! and what is said to it.
//!
//! Every value has one binary form, which travels when both ends know the schema, and one text
//! form, which everybody can read. The text is turned into the binary form and back, checked by
//! the schema on the way, in one pass and without a tree.
//!
//! * [`schema`]: services, methods, parameters, types.
//! * [`error`]: what is wrong, and where.
//! * [`binary`]: the binary form's bytes; [`typed`]: Rust types in it; [`handle`], [`blob`]: bytes,
//!   cores and buffers; [`records`], structs of them.
//! * [`value`]: values of a schema that is known only at run time; [`check_binary`].
//! * [`text`]: the text form; [`text_to_binary`], [`binary_to_text`], [`masked_text`].
//! * [`discovery`]: schemas as documents.
//!
//! ```
//! use nile_bosml::schema::{Parameter, Type};
//! use nile_bosml::{Decode, Reader, binary_to_text, text_to_binary};
//!
//! let number = |name: &'static str| Parameter {
//!     name: name.into(),
//!     doc: "".into(),
//!     ty: Type::Uint64,
//!     range: None,
//!     encoded: true,
//!     encrypted: false,
//! };
//! let parameters = [number("m"), number("n")];
//! let bytes = text_to_binary(&parameters, "compute", "<compute><n>3</n><m>2</m></compute>")?;
//!
//! let mut input = Reader::new(&bytes);
//! assert_eq!((u64::decode(&mut input)?, u64::decode(&mut input)?), (2, 3));
//! input.finish()?;
//!
//! let text = binary_to_text(&parameters, "compute", &bytes)?;
//! assert_eq!(text, "<compute><m>2</m><n>3</n></compute>");
//! # Ok::<(), nile_bosml::Error>(())
//! ```
//!
//! # Why the XML parser is our own
//!
//! The text form must be read at least as fast as by quick-xml, which needs `std`. roxmltree builds
//! a tree, which costs an allocation for a multiple of the document. xmlparser (and with it
//! roxmltree) reads DTDs, processing instructions and comments, all of which BOSML refuses, and
//! checks neither that tags match nor what a document's parts are for. A reader that knows from the
//! schema which tag comes next compares instead of searching; it is a few hundred lines.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod binary;
pub mod blob;
pub mod discovery;
pub mod error;
pub mod handle;
pub mod records;
pub mod schema;
pub mod text;
pub mod typed;
pub mod value;

pub use binary::{Reader, Writer};
pub use blob::Blob;
pub use error::{Error, ErrorKind};
pub use handle::{Buffer, Bytes, Core};
pub use text::{binary_to_text, masked_text, text_to_binary};
pub use typed::{Decode, Encode, Typed};
pub use value::{Value, check_binary, values_from_text, values_to_binary};

/// The most bytes of a message, in either form.
pub const MAX_MESSAGE: usize = 64 << 10;

/// The most lists and records that a type of a schema may be nested in.
pub const MAX_DEPTH: usize = 16;

/// The element of a reply's document; that of a request is named as its method.
pub const REPLY: &str = "reply";
