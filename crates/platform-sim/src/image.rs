//! Kernel images of a simulated node. One program runs all cores, so an image is another value that
//! a core's incarnation is begun with ([`SimMachine::image`](crate::SimMachine::image)). Its file
//! says by which ABI it is and how those fail that run it; what follows tells images apart.

use std::hash::Hasher;

use fnv::FnvHasher;
use nile_abi::{CoreId, ImageRefused};
use nile_platform::images;

use crate::state::State;

/// What a file begins with.
const MAGIC: &[u8; 8] = b"NILE-SIM";

/// By which ABI images of this simulator are.
pub const ABI: u64 = 1;

/// After how many passes an incarnation fails that runs an image; never.
pub type FailsAfter = Option<u64>;

/// An image as the simulator has it.
pub(crate) type Image = images::Image<FailsAfter>;

/// The file of an image by an ABI, which `label` tells from others.
pub fn file(abi: u64, fails_after: FailsAfter, label: &str) -> Vec<u8> {
    let passes = fails_after.unwrap_or(u64::MAX);
    let words = [*MAGIC, abi.to_le_bytes(), passes.to_le_bytes()];
    [words.as_flattened(), label.as_bytes()].concat()
}

/// The image in a file.
pub(crate) fn of(file: &[u8]) -> Result<Image, ImageRefused> {
    let [magic, abi, passes, ..] = *file.as_chunks::<8>().0 else {
        return Err(ImageRefused::NotAnImage);
    };
    if magic != *MAGIC {
        return Err(ImageRefused::NotAnImage);
    }
    if u64::from_le_bytes(abi) != ABI {
        return Err(ImageRefused::OtherAbi);
    }
    let mut hasher = FnvHasher::default();
    hasher.write(file);
    let passes = u64::from_le_bytes(passes);
    Ok(Image { name: hasher.finish().max(1), body: (passes != u64::MAX).then_some(passes) })
}

/// What an incarnation of a core runs.
#[derive(Default)]
pub(crate) struct Running {
    /// After how many passes it fails, if it does.
    fails_after: FailsAfter,
}

impl Running {
    /// An incarnation begins: what it runs, and the name of that.
    pub fn begin(state: &mut State, core: CoreId) -> (Running, u64) {
        let image = state.images.begin(core, state.clock);
        let fails_after = image.as_ref().and_then(|image| image.body);
        (Running { fails_after }, image.map_or(0, |image| image.name))
    }

    /// Whether it makes a pass: it fails if not.
    pub fn makes_a_pass(&mut self) -> bool {
        let Some(left) = &mut self.fails_after else { return true };
        let less = left.checked_sub(1);
        *left = less.unwrap_or_default();
        less.is_some()
    }

    /// The incarnation has failed: its image may have been on trial.
    pub fn failed(&self, state: &mut State, core: CoreId) {
        let now = state.clock;
        if let Some(name) = state.images.failed(core, now) {
            let what = "failed while it was on trial; the core runs its former image again";
            state.log.push(format!("[{now} {core}] image {name:016x} {what}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_what_it_is() {
        let fine = of(&file(ABI, None, "fine")).expect("an image");
        assert_eq!(fine.body, None);
        let bad = of(&file(ABI, Some(3), "bad")).expect("an image");
        assert_eq!(bad.body, Some(3));
        assert_ne!(fine.name, bad.name);
        let other = of(&file(ABI, None, "other")).expect("an image");
        assert_ne!(fine.name, other.name);
    }

    #[test]
    fn what_is_no_image_of_this_simulator_is_refused() {
        let refused = |bytes: &[u8]| of(bytes).err();
        assert_eq!(refused(&file(ABI + 1, None, "")), Some(ImageRefused::OtherAbi));
        let whole = file(ABI, None, "");
        for bytes in [&b""[..], b"#!/bin/sh\n", &whole[..whole.len() - 1], &[0xff; 64]] {
            assert_eq!(refused(bytes), Some(ImageRefused::NotAnImage));
        }
    }
}
