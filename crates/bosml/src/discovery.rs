//! Discovery documents: what a service says about itself, as text (NileOS paper, Figure 11).
//!
//! ```text
//! <ackermann doc="Ackermann's function">
//!   <compute mode="user" doc="The function's value">
//!     <parameters>
//!       <m doc="The first argument"><type>uint_64</type><size>8</size><encoded>true</encoded>
//!         <encrypted>false</encrypted><least>0</least><most>3</most></m>
//!     </parameters>
//!     <reply/>
//!   </compute>
//! </ackermann>
//! ```
//!
//! As in the figure, the root is the service, its elements are its methods, and each parameter has
//! its type, size and whether it is encoded and encrypted. The figure's names have spaces and an
//! apostrophe, which no XML name has; ours are identifiers, see
//! [`Service::check`](crate::schema::Service::check), and what a person calls a thing stands in
//! its `doc`. The figure gives types where it
//! should say whether; ours says `true` or `false`.
//!
//! A `list` has the type of its elements in `element` after `type`, a `record` its fields in
//! `fields`, a `one_of` its cases in `cases`, of which those without a value are empty elements,
//! as in `<none/>`; `size` is missing where there is no largest one, `least` and `most` where there
//! is no range.

mod parse;
mod print;

pub use parse::parse;
pub use print::to_text;

#[cfg(test)]
mod tests;
