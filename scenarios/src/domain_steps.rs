//! What a user does to a machine that is shared out, in the same steps on every machine: in the
//! simulator, with hosted domains and with those of a PC. How a machine is told is its [`Hand`].
//!
//! | scenario                    | what must hold                                                 |
//! | --------------------------- | -------------------------------------------------------------- |
//! | `domain-create`             | a domain has what it was to have, and computes on each core    |
//! | `domain-many`               | there are as many domains as cores, and all compute            |
//! | `domain-resize-cores`       | each hardware core comes and leaves while its domain computes  |
//! | `domain-resize-memory`      | memory comes and goes by units, until there is no more         |
//! | `domain-destroy`            | whatever it was about, a domain that is ended leaves nothing   |
//! | `domain-restart`            | its next generation has what it had                            |
//! | `domain-supervisor-restart` | domains do not notice, and commands go on                      |
//! | `domain-loop`               | domains find each other                                        |
//! | `domain-preempt`            | who goes before takes cores, and leaves the others their least |
//! | `domain-lend`               | what is lent comes back: due, recalled, or when either ends    |
//! | `domain-isolation`          | what becomes of one domain, another one does not notice        |
//! | `domain-rfmap`              | packages of two domains work over memory that both have        |
//! | `domain-rfcom`              | packets go there and back over it                              |
//! | `domain-ficm`               | messages go to all, and to some more than there is room for    |
//!
//! Each begins on a machine of which nobody has anything, and leaves it so.

mod hand;
mod lending;
mod life;
mod sharing;
mod sizes;

use alloc::format;
use alloc::string::String;

pub use hand::{Domain, Hand, Package, Resize, Seen, Wanted};

/// The scenarios, by name.
pub const SCENARIOS: [&str; 14] = [
    "domain-create",
    "domain-many",
    "domain-resize-cores",
    "domain-resize-memory",
    "domain-destroy",
    "domain-restart",
    "domain-supervisor-restart",
    "domain-loop",
    "domain-preempt",
    "domain-lend",
    "domain-isolation",
    "domain-rfmap",
    "domain-rfcom",
    "domain-ficm",
];

/// Carries a scenario out on a machine that has at least six cores and 200 MiB to give; or says
/// what does not hold.
pub async fn carry_out<H: Hand>(scenario: &str, hand: &mut H) -> Result<(), String> {
    let before = hand.look().await?;
    if !before.domains.is_empty() {
        return Err(format!("there is somebody: {before:?}"));
    }
    match scenario {
        "domain-create" => life::create(hand).await,
        "domain-many" => life::many(hand).await,
        "domain-resize-cores" => sizes::cores(hand).await,
        "domain-resize-memory" => sizes::memory(hand).await,
        "domain-destroy" => life::destroy(hand).await,
        "domain-restart" => life::restart(hand).await,
        "domain-supervisor-restart" => life::supervisor_restart(hand).await,
        "domain-loop" => life::meet(hand).await,
        "domain-preempt" => sizes::preempt(hand).await,
        "domain-lend" => lending::lend(hand).await,
        "domain-isolation" => life::isolation(hand).await,
        "domain-rfmap" => sharing::map(hand).await,
        "domain-rfcom" => sharing::packets(hand).await,
        "domain-ficm" => sharing::messages(hand).await,
        _ => Err(format!("no scenario {scenario}")),
    }?;
    hand.until("all is free again", |seen| *seen == before).await.map(drop)
}

/// `Err` with what does not hold, unless it does.
fn check(holds: bool, what: core::fmt::Arguments<'_>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{what}")) }
}

/// What cannot be is refused with these words, and changes nothing.
async fn refused<H: Hand, T>(
    hand: &mut H,
    words: &str,
    command: impl AsyncFnOnce(&mut H) -> Result<T, String>,
) -> Result<(), String> {
    let before = hand.look().await?;
    match command(hand).await {
        Ok(_) => return Err(format!("it is done, and should be refused: {words}")),
        Err(why) => check(why.contains(words), format_args!("not {words:?}, but: {why}"))?,
    }
    let after = hand.look().await?;
    check(before == after, format_args!("refused, and changed {before:?} to {after:?}"))
}
