//! A stack and its users apart from each other: what a user has of a connection is a copy of its
//! slot in memory of its own, and cells keep the two the same. Either side can be lost and begin
//! anew over its memory; the two then say how far they are, and go on.
//!
//! Offsets say all. Bytes that have come lie in the stack's slot until the user has consumed them
//! in its own; bytes that are sent lie in the user's slot until the peer's acknowledgement, which
//! the stack has stored, comes there. So whatever is lost between the two is there once more. What
//! is in the memory says it before a cell does.
//!
//! Cells come in their order or not at all: when one is lost the *session* is over, and the next
//! one begins with what the user [knows](Say::Know).
//!
//! * [`say`](Say): the cells. [`users`](Users): the stack's side. [`user`](User): the user's.

mod say;
mod user;
mod users;

pub use say::{CELL_BYTES, Cell};
pub use user::{Asked, User, Welcome};
pub use users::{Nonsense, Users};
