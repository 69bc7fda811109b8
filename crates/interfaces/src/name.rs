//! What the names of datasets mean (docs/names.md). [`records`]: what calls carry.

pub mod records;

use alloc::string::String;
use core::time::Duration;

use nile_bosml::{Blob, Bytes};
use nile_stl::{CallResult, Caller, service};

use records::{Meaning, NameAnswer, NameExpectation, NamePage};

/// What `standing` says of a keeper that waits for nothing.
pub const KEEPS: &str = "it keeps names";

/// Names below these pass: what a command puts for one job, and packages of jobs. One that nobody
/// has renewed for [`LEASE`] means nothing any more.
pub const PASSING: [&str; 2] = [".run/", ".packages/"];

/// For how long a name that passes may be left alone.
pub const LEASE: Duration = Duration::from_secs(120);

/// How often who uses a name that passes renews it: changes it to what it means.
pub const RENEWAL: Duration = Duration::from_secs(30);

/// Whether this name passes.
pub fn passes(name: &str) -> bool {
    PASSING.iter().any(|it| name.starts_with(it))
}

/// What names of datasets mean.
#[service(subsystem = "storage", capability = "names", layer = high)]
pub trait Name {
    /// What a name means: what most of its keepers agree on, at some time during the call.
    #[stl_k(reply = "answer", allow(package, operator, peer))]
    async fn look(&self, caller: &Caller, #[range(1..=128)] name: &str) -> CallResult<NameAnswer>;

    /// Changes what a name means, if it means what is expected. `change` is a number that nobody
    /// has drawn before: with the same one, a call whose answer was lost may be repeated, anywhere.
    #[stl_k(reply = "answer", allow(operator, peer))]
    async fn change(
        &self,
        caller: &Caller,
        #[range(1..=128)] name: &str,
        change: u64,
        expected: NameExpectation,
        to: Meaning,
    ) -> CallResult<NameAnswer>;

    /// The names that mean something, in their order: the first hundred and some, or those behind
    /// `after`.
    #[stl_k(reply = "page", allow(package, operator, peer))]
    async fn list(&self, caller: &Caller, #[range(0..=128)] after: &str) -> CallResult<NamePage>;

    /// What a proposer or a keeper asks this node as a keeper, as docs/names.md has it.
    #[stl_k(reply = "answer", allow(operator, peer))]
    async fn ask(&self, message: Bytes<'_>) -> CallResult<Blob>;

    /// In a while it is looked whether stores of this node have what no name means any more.
    #[stl_k]
    fn sweep(&self) -> CallResult<()>;

    /// How this node stands as a keeper of names, in words. `not_found` if it is none.
    #[stl_k(reply = "standing", allow(operator, peer))]
    async fn standing(&self) -> CallResult<String>;
}
