//! Regions of the node: memory that packages of its cores share.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::{KeepName, Status};
use nile_interfaces::core_manager::{RegionEntry, RegionUser, SharedUnits};
use nile_stl::node::{Node, RegionShare, RegionUse};
use nile_stl::{CallError, CallResult};

pub(super) fn all_of(node: &dyn Node) -> Vec<RegionEntry> {
    let entry = |RegionUse { name, bytes, is_shared, packages }| RegionEntry {
        name: name.as_region().unwrap_or_default().into(),
        bytes,
        shared: is_shared,
        packages: packages
            .into_iter()
            .map(|(core, slot)| RegionUser { core: core.0, slot: slot.index() as u8 })
            .collect(),
    };
    node.regions().into_iter().map(entry).collect()
}

pub(super) async fn make(
    node: &dyn Node,
    name: String,
    bytes: u64,
    shared: Option<SharedUnits>,
) -> CallResult<()> {
    let failed = |status: Status| {
        let what = match status {
            Status::Exists => {
                let there =
                    node.regions().into_iter().find(|it| it.name.as_region() == Some(&name));
                let there = there.map_or(0, |it| it.bytes);
                format!("there is one of {there} bytes: drop that first, or take another name")
            }
            Status::Invalid => {
                "a name is 1 to 30 letters, digits, `-`, `_` and `.`; a size is whole \
                                pages of 4096 bytes, 268435456 at most"
                    .into()
            }
            Status::NoMemory => {
                "this node has not so much memory that is free, or as many regions \
                                 and keeps as it can: core_manager.regions and core_manager.keeps \
                                 tell which"
                    .into()
            }
            Status::Denied => {
                "no supervisor has this node share that memory: `nile domain share` does".into()
            }
            _ => String::from("it is not made"),
        };
        CallError::new(status, format!("{name}: {what}"))
    };
    let share = shared.map(|SharedUnits { first: unit, place }| RegionShare { unit, place });
    node.make_region(name.clone(), bytes, share).await.map_err(failed)
}

pub(super) async fn forget(node: &dyn Node, name: &str) -> CallResult<()> {
    let failed = |status: Status| {
        let what = match status {
            Status::Exists => "packages have it: end those first",
            Status::NotFound => "there is none: core_manager.regions tells which there are",
            _ => "it is not forgotten",
        };
        CallError::new(status, format!("{name}: {what}"))
    };
    let region = KeepName::region(name).ok_or_else(|| failed(Status::NotFound))?;
    node.drop_keep(region).await.map_err(failed)
}
