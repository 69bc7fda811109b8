//! Domains: parts of one machine that are nodes of their own, each on cores, memory and devices
//! that a supervisor has handed to it and can take back (RainForest, 4.1, 5.2 and 5.3).
//!
//! * [`Ledger`]: who owns which core, unit of memory and device. Its truth stands in [`Words`] that
//!   outlive the supervisor's code; each hand-over is one store.
//! * [`Domain`]: the ledger's row of a domain, with its [`Lifecycle`] and [`Limits`].
//! * [`Share`]: memory that domains share, and which of them do.
//! * [`Account`]: the time for which a domain had what it had; [`Carried`]: what its supervisor's
//!   devices have moved for it, by each [`Way`], and [`Limit`]: how much they may.
//! * [`plan`]: what a command would take, and from whom: the transaction's first half, which
//!   changes nothing (`--dry-run` ends there).
//! * [`Command`] (supcon: a user to the supervisor) and [`Message`] (domcon: the supervisor and a
//!   domain's managing core, both ways), with total decoding.
//! * [`Supervisor`]: carries commands out, by messages, deadlines and force.
//! * [`Managing`]: the domain's end.
//! * [`Elastic`]: when a domain gets a core more, and when it gives one back.
//!
//! All of it is without IO or clock: messages, moments and what the hardware did go in; messages,
//! deadlines and what the hardware is to do come out.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod account;
mod cell;
mod command;
mod domain;
mod elastic;
mod extent;
mod ledger;
mod managing;
mod message;
mod name;
mod plan;
mod refused;
mod share;
mod supervisor;
mod toll;
mod words;

pub use account::Account;
pub use cell::{CELL, Malformed};
pub use command::{Command, Create, Resize};
pub use domain::{Domain, DomainId, Lifecycle, Limits};
pub use elastic::{Elastic, Step};
pub use extent::{Extent, UNIT};
pub use ledger::{Damaged, Ledger, has, user_of};
pub use managing::{Act, Managing};
pub use message::Message;
pub use name::{MOST_NAME, Name};
pub use plan::{Plan, Source, plan};
pub use refused::{Refused, Thing};
pub use share::{MOST_SHARED, SHARES, Share};
pub use supervisor::{Action, Deadlines, Happened, Outcome, RequestId, Supervisor};
pub use toll::{Carried, Limit, LimitChange, TOLL, Way};
pub use words::{DOMAINS, Holding, Look, Party, Phase, Sizes, Words};

#[cfg(test)]
mod tests;
