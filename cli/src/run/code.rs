//! A job's code as a dataset: the package's file, put once for each content that it has had.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nile_ipioe::checksum;
use nile_package::Package;

use crate::cluster::args::{Query, Which};
use crate::data::args::Put;
use crate::data::put;
use crate::data::stores::Stores;
use crate::failure::Failure;
use crate::needs::{self, PACKAGES};

/// On how many nodes it is, if there are so many: a job outlives its nodes.
const COPIES: usize = 3;

/// A package that the project has.
pub fn own(name: &str) -> Result<PathBuf, Failure> {
    Ok(needs::provided(PACKAGES)?.join(format!("{name}.elf")))
}

/// Whether a file is where the project's packages are built.
pub fn is_own(path: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    let own = env::var_os(PACKAGES).and_then(|own| whole(Path::new(&own)));
    own.is_some() && path.parent().and_then(whole) == own
}

/// Refuses a file that is no package.
pub fn check(path: &Path) -> Result<(), Failure> {
    name(path).map(|_| ())
}

/// What the dataset with the package at `path` is called.
fn name(path: &Path) -> Result<String, Failure> {
    let wrong =
        |error: &dyn std::fmt::Display| Failure::request(format!("{}: {error}", path.display()));
    let file = fs::read(path).map_err(|error| wrong(&error))?;
    let package = Package::parse(&file).map_err(|error| wrong(&error))?;
    let name = package.manifest().name();
    Ok(format!(".packages/{name}-{:08x}", checksum::portable(0, &file)))
}

/// Sees to it that the cluster has the package at `path`; the name of the dataset that it is.
pub fn put(stores: &mut Stores, which: &Which, path: &Path) -> Result<String, Failure> {
    let name = name(path)?;
    if stores.hold(&name)? {
        return Ok(name);
    }
    let nodes = stores.nodes_with_disks()?;
    let copies = nodes.len().min(COPIES) as u8;
    let query = Query { which: which.clone(), json: false, timeout: Duration::ZERO };
    let options =
        Put { file: path.into(), name: name.clone(), copies, record: None, replace: false, query };
    match put::file(stores, &options) {
        Ok(_) => stores.hold(&name).map(|_| name),
        // Another command may have put it meanwhile: the name tells the content.
        Err(failure) => match stores.hold(&name)? {
            true => Ok(name),
            false => Err(failure),
        },
    }
}
