//! Names of datasets: one linearizable history for each, kept by a majority of the *keepers*.
//! Sans-IO: messages and moments go in; messages, what is to be made durable, and deadlines come
//! out. The protocol, and why it is right, is in `docs/names.md`.
//!
//! A name is a register of its own. To change one a *proposer*, on any node, takes a *ballot*, has
//! a majority *promise* to hear no earlier one, learns from it the name's *entry*, and has the
//! majority *accept* what it makes of that (CASPaxos). A keeper is its store: if the disk is lost,
//! the new store has another *identity*, and answers nothing until it is *in* again. Who believes
//! in which identities is a *view*; answers count together in one view only.
//!
//! * [`entry`]: what a name stands for; [`ballot`], [`cell`]: what a keeper has of it.
//! * [`view`]: who the keepers are.
//! * [`message`]: what is asked and answered; [`wire`]: in the binary form.
//! * [`keeper`]: [`Keeper`]; `joining`: how it gets in; `announcing`: how an old copy of its disk
//!   is known for what it is.
//! * [`proposal`]: [`Proposal`], one operation on one name.
//! * [`scan`]: [`Scan`], all names.
//! * [`settings`]: how long is waited; `random`: what is drawn.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod announcing;
pub mod ballot;
pub mod cell;
pub mod entry;
mod joining;
pub mod keeper;
pub mod message;
pub mod proposal;
mod random;
pub mod scan;
pub mod settings;
pub mod view;
pub mod wire;

#[cfg(test)]
mod tests;

pub use ballot::Ballot;
pub use cell::Cell;
pub use entry::{Entry, Expect, Facts, MOST_NODES, What};
pub use keeper::{Keeper, Misfit, Standing};
pub use message::{Answer, Ask, Durable, NamedCell, Reply, Request};
pub use nile_store::{Name, Version};
pub use proposal::{Lack, Outcome, Proposal, Task};
pub use scan::Scan;
pub use settings::Settings;
pub use view::{Charter, Seat, View};
