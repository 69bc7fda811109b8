//! Who of a core is bound to which scheduling policy, and what has become of each (Dhara, IV.A).

use alloc::string::String;
use alloc::vec::Vec;

use nile_stl::{CallResult, Record, service};

use crate::registry::{Asker, Binding, NamedValue, Wanted};

/// Whom policies serve on a core: a service, the core's package, or the kernel.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct SubjectEntry {
    /// Its name.
    pub name: String,
    /// The policy that it is bound to; `default` if nobody has bound it.
    pub policy: String,
}

/// A policy on a core.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct PolicyEntry {
    /// Its name; that of whoever is bound to nothing is `default`.
    pub name: String,
    /// Its global priority: more is asked earlier.
    pub priority: i64,
    /// Subjects of this core that are bound to it.
    pub subjects: u32,
    /// Tasks of theirs that are ready.
    pub ready: u32,
    /// Its answers that were right.
    pub decisions: u64,
    /// Answers that were wrong or missing, in place of which the oldest task ran.
    pub refused: u64,
    /// Turns that its subjects were given out of order, so that nobody starves.
    pub reserved: u64,
    /// Nanoseconds that its subjects have run while anybody here was bound.
    pub ran_ns: u64,
    /// Why and when it was expelled, and how many subjects went to the default, if it was.
    pub expelled: Option<String>,
    /// Whose turns it decided last, of 32 decisions, and what was wrong with others; the oldest
    /// first, and those that follow each other alike as one. Nothing unless it was expelled.
    pub last: Vec<String>,
}

/// Binds what runs on a core to scheduling policies.
#[service(subsystem = "processes", capability = "policies", layer = high)]
pub trait PolicyManager {
    /// The subjects of this core.
    #[stl_k(reply = "subjects", allow(package, operator, peer))]
    fn subjects(&self) -> CallResult<Vec<SubjectEntry>>;

    /// The policies that this core can have, from the highest global priority to the lowest.
    #[stl_k(reply = "policies", allow(package, operator, peer))]
    fn policies(&self) -> CallResult<Vec<PolicyEntry>>;

    /// Binds a subject of this core to the policy that is wanted: it leaves the one before with all
    /// that it has ready, and the policy schedules it from then on. Not for packages. `NotFound`
    /// (no such subject, type, keyword or policy: it says what there is), `Invalid` (a parameter),
    /// `Busy` (what is asked for cannot be kept beside what is promised), `Denied`.
    #[stl_k(reply = "binding", allow(operator, peer))]
    async fn bind(
        &self,
        asker: Asker,
        subject: String,
        wanted: Wanted,
        parameters: Vec<NamedValue>,
    ) -> CallResult<Binding>;

    /// Binds a subject to the default again; whether it was bound. Not for packages.
    #[stl_k(reply = "was_bound", allow(operator, peer))]
    async fn unbind(&self, subject: String) -> CallResult<bool>;
}
