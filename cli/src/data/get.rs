//! `nile get`: a dataset becomes a file, which is there when all of it is.

use std::time::{Duration, Instant};

use serde_json::json;

use super::args::Get as Options;
use super::catalogue::{Catalogue, Known};
use super::progress::Progress;
use super::read;
use super::stores::{Stores, nodes};
use crate::failure::Failure;
use crate::write::{self, Output};

/// Gets a dataset.
pub fn run(options: &Options) -> Result<(), Failure> {
    let path = &options.file;
    write::check(path)?;
    let mut stores = Stores::open(&options.query)?;
    let known = whole(&mut stores, &options.name)?;
    let mut file = Output::create(path)?;
    let mut progress = Progress::new(&options.name, Some(known.facts.bytes));
    let bytes = read::to_file(&mut stores, &known, &mut file, &mut progress)?;
    let written = file.finish()?;
    let seconds = progress.seconds();
    drop(progress);
    let (name, shown) = (&options.name, path.display());
    match options.query.json {
        true => {
            let file = shown.to_string();
            let document =
                json!({ "name": name, "bytes": bytes, "file": file, "seconds": seconds });
            written.say(&format!("{document}\n"))
        }
        false => written.say(&format!("{shown}: {bytes} bytes\n")),
    }
}

/// How often it is looked anew what a name means that was replaced meanwhile.
const TRIES: usize = 3;

/// How long a core with a disk may take to begin anew, as when it gets another kernel image.
const COMES_BACK: Duration = Duration::from_secs(3);

/// What a name means, and where all of it is.
pub fn whole(stores: &mut Stores, name: &str) -> Result<Known, Failure> {
    let known = Catalogue::glance(stores)?.find(name)?;
    if known.is_whole(stores)? {
        return Ok(known);
    }
    let mut known = Catalogue::gather(stores)?.find(name)?;
    for _ in 1..TRIES {
        let Some(lacks) = known.lacks() else { return Ok(known) };
        let again = Catalogue::gather(stores)?.find(name)?;
        if again.stamp == known.stamp && again.lacks().as_ref() == Some(&lacks) {
            break;
        }
        known = again;
    }
    let until = Instant::now() + COMES_BACK;
    while known.lacks().is_some() && Instant::now() < until && stores.wait_for_others()? {
        known = Catalogue::gather(stores)?.find(name)?;
    }
    match known.lacks() {
        None => Ok(known),
        Some(lacks) => {
            let away = nodes(stores.absent().iter().copied());
            let away = if away.is_empty() {
                "".into()
            } else {
                format!("; not there: {}", away.join(", "))
            };
            Err(stores.blaming(Failure::failed(format!("{name}: {lacks}{away}"))))
        }
    }
}

/// All of a dataset.
pub fn all(stores: &mut Stores, known: &Known) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    read::pieces(stores, known, |piece| {
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(bytes)
}
