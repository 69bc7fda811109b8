//! `nile get`: a dataset becomes a file, which is there when all of it is.

use nile_interfaces::dataset::MOST_BYTES;
use nile_interfaces::dataset::records::Piece;
use serde_json::json;

use super::args::Get as Options;
use super::catalogue::{Catalogue, Known, Part};
use super::progress::Progress;
use super::stores::{Arguments, PIECES, Stores, failed, nodes};
use crate::failure::Failure;
use crate::peer::known::Target;
use crate::write::{self, Output};

/// Gets a dataset.
pub fn run(options: &Options) -> Result<(), Failure> {
    let path = &options.file;
    write::check(path)?;
    let mut stores = Stores::open(&options.query)?;
    let known = whole(&mut stores, &options.name)?;
    let mut file = Output::create(path)?;
    let mut progress = Progress::new(&options.name, Some(known.entry.bytes));
    let mut bytes = 0;
    for part in known.parts.values() {
        let mut at = 0;
        while at < part.listed.bytes {
            let piece = read(&mut stores, part, at)?;
            file.write(&piece)?;
            at += piece.len() as u64;
            progress.show(bytes + at);
        }
        bytes += at;
    }
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

/// What a name means, and where all of it is.
pub fn whole(stores: &mut Stores, name: &str) -> Result<Known, Failure> {
    let mut known = Catalogue::gather(stores)?.find(name)?;
    for _ in 1..TRIES {
        let Some(lacks) = known.lacks() else { return Ok(known) };
        let again = Catalogue::gather(stores)?.find(name)?;
        if again.entry == known.entry && again.lacks().as_ref() == Some(&lacks) {
            break;
        }
        known = again;
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
            Err(Failure::failed(format!("{name}: {lacks}{away}")))
        }
    }
}

/// All of a dataset.
pub fn all(stores: &mut Stores, known: &Known) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    for part in known.parts.values() {
        let mut at = 0;
        while at < part.listed.bytes {
            let piece = read(stores, part, at)?;
            at += piece.len() as u64;
            bytes.extend(piece);
        }
    }
    Ok(bytes)
}

/// Some bytes from `at` on, from the first store that has them whole.
fn read(stores: &mut Stores, part: &Part, at: u64) -> Result<Vec<u8>, Failure> {
    let mut failures = Vec::new();
    for (target, listed) in &part.stores {
        let places = (at..part.listed.bytes).step_by(MOST_BYTES).take(PIECES);
        let asked: Vec<(Target, u64)> = places.map(|at| (*target, at)).collect();
        let pieces = stores.ask_each::<Piece, _>(&asked, "read", |_, at| {
            Arguments::version(listed).with(at).with(&(MOST_BYTES as u32))
        })?;
        let (mut bytes, mut why) = (Vec::new(), format!("{} has no byte {at}", target.place()));
        for ((_, place), piece) in asked.iter().zip(pieces) {
            match piece {
                Ok(piece) if at + bytes.len() as u64 == *place => bytes.extend(piece.bytes.0),
                // One before it is shorter than was asked for.
                Ok(_) => break,
                Err(error) => {
                    why = failed(target, &error).to_string();
                    break;
                }
            }
        }
        if !bytes.is_empty() {
            return Ok(bytes);
        }
        failures.push(why);
    }
    Err(Failure::failed(format!("{}: {}", part.listed.name, failures.join("; "))))
}
