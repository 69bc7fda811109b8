//! What several cores share (`nile_sync`), on threads of the host that are pinned to two CPUs.
//!
//! * [`spread`] (`sync-spread`): the pieces of a skewed loop.
//! * [`mix`] (`sync-mix`): reads and writes of a map, 1:1 (FENCE, figure 11b).
//! * [`scan`] (`sync-scan`): writes while somebody scans.
//!
//! The maps have keys that neither come nor go. Each is a set of [`client`]s, one for a thread:
//! [`versions`] are `nile_sync::mvrlu`; [`rlu`] is what that is an extension of, written from its
//! paper; [`rcu`], [`maps`] and [`shards`] are how others do it. A [`crew`] works with one of them
//! for a time. Nothing that reads wrong is a figure: each value says whether it is whole, and all
//! additions are counted in the end.

mod client;
mod crew;
mod maps;
pub mod mix;
mod rcu;
mod rlu;
pub mod scan;
mod shards;
pub mod spread;
mod versions;
