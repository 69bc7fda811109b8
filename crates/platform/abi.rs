//! What build scripts of machines share: the ABI of a node's images as a number, a digest of the
//! sources that say what cores share. An image whose sources differ in any of these is refused by a
//! running node, also where they differ in a comment alone: no change that matters is missed.

use std::path::{Path, PathBuf};
use std::{env, fs};

/// Memory that several cores have, messages between kernels, interfaces of services, and what
/// tasks of one job leave to each other; below the root of the project.
const SHARED: [&str; 15] = [
    "crates/abi/src",
    "crates/bosml/src",
    "crates/device/src",
    "crates/interfaces/src",
    "crates/job/src",
    "crates/kernel/src/channel.rs",
    "crates/kernel/src/control.rs",
    "crates/kernel/src/services/channels",
    "crates/kernel/src/services/channels.rs",
    "crates/memory/src",
    "crates/platform/src",
    "crates/ring/src",
    "crates/sort/src",
    "crates/stl/src",
    "crates/tasks/src",
];

/// Gives the ABI of a machine as `NILE_ABI` to the crate that is built: of the above, of the
/// machine's own sources, and of what its build depends on besides.
pub fn tell(own: &[&str], besides: &str) {
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let root = Path::new(&here).ancestors().nth(2).expect("the crate is two folders below it");
    let mut digest = continued(0xcbf2_9ce4_8422_2325, besides.as_bytes());
    for path in SHARED.iter().chain(own) {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
        for file in files(&root.join(path)) {
            let name = file.strip_prefix(root).expect("it is below the root");
            digest = continued(digest, name.as_os_str().as_encoded_bytes());
            digest = continued(digest, &fs::read(&file).expect("a source can be read"));
        }
    }
    println!("cargo::rustc-env=NILE_ABI={digest}");
}

/// The files at a path or below it, in the order of their names.
fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.into()];
    }
    let entries = fs::read_dir(path).expect("a folder of sources can be read");
    let mut paths: Vec<PathBuf> = entries.map(|it| it.expect("as above").path()).collect();
    paths.sort();
    paths.iter().flat_map(|path| files(path)).collect()
}

/// FNV-1a, 64 bits.
fn continued(digest: u64, bytes: &[u8]) -> u64 {
    let prime = 0x100_0000_01b3;
    bytes.iter().fold(digest, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(prime))
}
