//! Objects of several versions: who reads sees all of them as of one moment, while others write
//! (MV-RLU, Kim et al., ASPLOS 2019; FENCE, section 4).
//!
//! An *object* has a row of words. The *master* is its oldest version that anybody may need; newer
//! ones are *copies* in the logs of those who wrote them, in a chain from the newest to the oldest.
//! A *snapshot* is the clock's value when it was taken: it reads of each object the newest version
//! that is not younger. A writer locks the objects that it changes, fills copies, links them, and
//! commits all by one store, of the clock, to the head of its *set* of copies.
//!
//! ```text
//! line 0            word 0   the clock, less FIRST_CLOCK
//! a line a seat     word 0   section: 0, ENTERING, or a clock: older versions are not read
//!                   word 1   log's end 63 | a set is open there 1
//!                   word 2   log's begin: what is before it may be used again
//!                   word 3   what is before it is in no chain any more, word 4 since which clock
//! objects           word 0   lock: position 32 | seat 32
//!                   word 1   newest copy: seat 16 | position 48; zero for none
//!                   then     the master's words
//! logs              slots of an object's size, a ring for each seat. A set is a head:
//!                   word 0   OPEN, COMMITTING, ABORTED, or the clock when it was committed
//!                   word 1   copies
//!                   and so many copies:
//!                   word 0   object 32 | slots since the head 32
//!                   word 1   the next older copy: seat 16 | position 48
//!                   then     its words
//! ```
//!
//! # Commit
//!
//! A head goes from OPEN to COMMITTING when all copies are linked, then the clock is advanced, and
//! what it then is becomes the set's. Who meets a set that is COMMITTING advances the clock itself
//! and tries to be the one who says which: its own snapshot is older than that. So a reader never
//! waits for a writer, and a set that a snapshot has once not seen is younger than the snapshot.
//!
//! # Death
//!
//! What a seat did before it was gone is in its log: a copy is entered there before its object is
//! locked. Whoever wants an object takes its lock over from one who is gone; copies of sets that
//! will never be committed are taken off the chain by the next who has the object's lock. The next
//! life of a seat does the same with all that its log has ([`Mvrlu::join`]).
//!
//! # Reclaim
//!
//! Each seat reclaims its own log ([`Member::reclaim`]), in two grace periods. A version that is as
//! old as every snapshot, or older, is written back to the master, and the chain is cut behind the
//! version above it; when every snapshot is younger than that, the slots are used again. A log that
//! is full is [`Refused::Busy`]: nobody waits for a reader that does not end.
//!
//! # Without a snapshot
//!
//! What is about one object needs none ([`Member::begin_newest`]): its newest version is of one
//! moment, too. Such a section says a clock that it knows instead of looking at it. It meets no
//! version that was cut off before it began, as one that takes a snapshot; what was written back by
//! one who saw its clock is not younger than that, and so is on the chain or cut off for it.
//!
//! Snapshots are isolated, not serialisable: two writers that read what the other changes may both
//! commit. A writer that *holds* what it has read ([`Section::hold`]) has its reads as of its
//! commit.

mod member;
mod reclaim;
mod section;
mod snapshot;

pub use member::{Member, Mvrlu, Shape};
pub use section::{Draft, Refused, Section};
pub use snapshot::Snapshot;

#[cfg(test)]
mod tests;
