//! The text form: an element for each value, named as its parameter, in any order, within one that
//! is named as the method.
//!
//! ```text
//! <compute><m>2</m><n>3</n></compute>
//! ```
//!
//! | type                   | text                                                               |
//! | ---------------------- | ------------------------------------------------------------------ |
//! | `uint_*`, `int_*`      | decimal, `-` before what is negative                               |
//! | `bool`                 | `true` or `false`                                                  |
//! | `float_64`             | decimal, with or without exponent; `inf`, `-inf`, `NaN`            |
//! | `string`               | itself, with `&lt;` `&gt;` `&amp;` `&quot;` `&apos;`               |
//! | `bytes`                | base64 with padding                                                |
//! | `core`, `buffer`       | `n2.c3`; `pool.index.generation.length`                            |
//! | `list`                 | an element `item` for each of its elements, in order               |
//! | `record`               | an element for each of its fields, in any order                    |
//! | `one_of`               | the case's name; with a value, an element of that name with it     |
//!
//! White space counts in strings alone. There are no DTDs, processing instructions (an XML
//! declaration is one here), comments, CDATA sections, character references and entities beyond
//! the five; a message has no attributes. A string has no characters that XML cannot carry as they
//! are: no control characters but tab and line feed, so none that a reader would change. A string
//! of the binary form may have them; [`binary_to_text`] refuses it, [`masked_text`] replaces them.

mod escape;
mod read;
mod scan;
mod write;

pub use escape::escape;
pub(crate) use escape::escape_lossy;
pub use read::text_to_binary;
pub(crate) use scan::{Content, Scanner, Tag, mismatch};
pub use write::{binary_to_text, masked_text};

/// The name of a list's elements.
pub(crate) const ITEM: &str = "item";

#[cfg(test)]
mod tests;
