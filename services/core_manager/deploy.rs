//! Another kernel image for a core of a running node (NileOS paper, IV): the core ends as planned,
//! and its next incarnation is begun from the image. What goes wrong leaves it with the former one.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

use nile_abi::{CoreId, ImageRefused, Status};
use nile_stl::node::Node;
use nile_stl::{CallError, CallResult, Stl};

use super::leave;

/// An image as it is called.
pub fn name(image: u64) -> Option<String> {
    (image != 0).then(|| format!("{image:016x}"))
}

/// Has `core` begin anew from the image in a file that was handed to the node. Gives the image,
/// which the core that manages the node, this one, has yet to begin with.
pub async fn deploy(stl: &Stl, core: u16, file: u64, patience: Duration) -> CallResult<u64> {
    let (node, id) = (stl.node()?, CoreId(core));
    if !node.may_have_image(id) {
        return Err(refused(core, ImageRefused::Stays));
    }
    let image = node.load_image(id, file).map_err(|why| refused(core, why))?;
    if id == CoreId::BOOT {
        return renew_own(&*node, patience).map(|()| image).inspect_err(|_| node.unload_image(id));
    }
    if let Err(error) = leave(stl, core, patience, true).await {
        node.unload_image(id);
        return Err(error);
    }
    node.begin_image(id).await.map_err(|status| {
        let what = format!("core {core} does not begin with the image ({status}), but as it was");
        CallError::new(status, what)
    })?;
    if node.image_of(id) != image {
        let what = format!(
            "core {core} did not begin with the image, and runs its former one again: the node's \
             log says why"
        );
        return Err(CallError::new(Status::Failed, what));
    }
    Ok(image)
}

/// Takes a piece of an image for a core.
pub async fn take(stl: &Stl, core: u16, bytes: u64, at: u64, piece: &[u8]) -> CallResult<()> {
    let (node, id) = (stl.node()?, CoreId(core));
    if !node.may_have_image(id) {
        return Err(refused(core, ImageRefused::Stays));
    }
    let taken = node.take_image(id, bytes, at, piece).await;
    taken.map_err(|why| refused(core, why))
}

/// Has this core, which manages the node, begin anew in a moment.
pub fn renew_own(node: &dyn Node, patience: Duration) -> CallResult<()> {
    node.renew_own(patience).map_err(|status| {
        let why = match status {
            Status::Busy => "is to begin anew already",
            Status::NoTables => "has no page tables for an image over so many addresses",
            _ => "does not begin anew",
        };
        CallError::new(status, format!("core {} {why}", CoreId::BOOT.0))
    })
}

fn refused(core: u16, why: ImageRefused) -> CallError {
    let (status, what) = match why {
        ImageRefused::NoFile => (
            Status::NotFound,
            String::from(
                "the node has no such file, or not all of it: hosted nodes take files of their own \
                 machine alone",
            ),
        ),
        ImageRefused::NotAnImage => {
            (Status::Invalid, String::from("the file is no kernel image of this kind of node"))
        }
        ImageRefused::OtherAbi => (
            Status::Invalid,
            String::from(
                "the image has another ABI than the node: they differ in the sources of what cores \
                 share. Build it from the node's sources with changes in others, such as \
                 services, or start the node anew",
            ),
        ),
        ImageRefused::TooLarge => (
            Status::Invalid,
            String::from("the image takes more memory than a core may have for it"),
        ),
        ImageRefused::NoMemory => {
            (Status::NoMemory, String::from("the node has no memory for the image"))
        }
        ImageRefused::Stays => (
            Status::Denied,
            format!(
                "core {core} keeps the image that the node was started with: another one is for \
                 cores of PCs that are no domains, but for the managing core of one that has some, \
                 and for cores of hosted nodes that only work"
            ),
        ),
    };
    CallError::new(status, what)
}
