//! `nile run PACKAGE.elf`: the job whose code a package's file holds.

use std::io::{Write, stdout};
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::args::{Package, Usual};
use super::code;
use super::input::{self, Input};
use super::jobs::service::Service;
use super::jobs::{End, Request};
use super::outputs;
use super::place::{self, Place};
use super::show::{self, Bar, Row};
use super::watch::{self, Done};
use crate::cluster::args::{Kind, Query};
use crate::data::args::Put;
use crate::data::names::number;
use crate::data::put;
use crate::failure::Failure;
use crate::nearest::suggestion;
use crate::size::Bytes;

/// Refuses what cannot be run; the machines of the cluster that would be started for it.
pub fn check(options: &Package) -> Result<Vec<Kind>, Failure> {
    let is_there = options.file.exists();
    if !is_there && !code::is_own(&options.file) {
        let file = options.file.display();
        let near = suggestion(&file.to_string(), ["terasort", "wordcount"]);
        let message = format!("no file {file}, and no job is called so; {near}");
        return Err(Failure::request(message));
    }
    // One of the source tree's own is yet to be built.
    if is_there {
        code::check(&options.file)?;
    }
    check_text(options)
}

/// The same without the code, which is not there yet.
pub fn check_text(options: &Package) -> Result<Vec<Kind>, Failure> {
    let kinds = place::check(&options.usual, input::bytes(&options.input))?;
    let is_own = !kinds.is_empty();
    input::check(&options.input, is_own)?;
    let Usual { keep, json, .. } = options.usual;
    match &options.output {
        Some(name) if is_own && !keep => Err(Failure::request(format!(
            "--output {name} would go with the cluster that is started for the job; add --keep"
        ))),
        None if json => Err(Failure::request(
            "--json prints how the job went and has no place for what it made: add --output NAME, \
             and get that with: nile get NAME FILE",
        )),
        _ => Ok(kinds),
    }
}

/// Runs a job, and says how that went.
pub fn run(options: &Package) -> Result<(), Failure> {
    check(options)?;
    let stem = options.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let input = Input::take(&options.input, &options.usual)?;
    let bytes = input.iter().map(Input::bytes).sum();
    let (done, output) = place::on(&options.usual, bytes, |place| {
        // What nobody has given a name gets one that nobody sees.
        let own = format!(".run/{:x}", number()?);
        let output = options.output.clone().unwrap_or_else(|| format!("{own}/output"));
        let mut temporary: Vec<String> = Vec::new();
        outputs::check_free(&mut place.stores, &[&output])?;
        let done = job(options, &input, &stem, place, [&own, &output], &mut temporary);
        let text = match (&done, &options.output) {
            (Ok(_), None) => {
                place.stores.hold(&output)?;
                let read = outputs::read(&mut place.stores, &output);
                Some(read.map_err(Failure::once_begun))
            }
            _ => None,
        };
        // One that has a name and was not made is nobody's, or somebody else's.
        if options.output.is_none() {
            temporary.push(output);
        }
        if !place.is_own && !temporary.is_empty() {
            let names: Vec<&str> = temporary.iter().map(String::as_str).collect();
            outputs::remove(&mut place.stores, &names)?;
        }
        Ok((done?, text.transpose()?))
    })?;
    say(options, &stem, &done, output)
}

/// Puts what the job needs, and runs it; `temporary` are datasets that are to go.
fn job(
    options: &Package,
    given: &[Input],
    name: &str,
    place: &mut Place,
    [own, output]: [&str; 2],
    temporary: &mut Vec<String>,
) -> Result<Done, Failure> {
    let usual = &options.usual;
    let mut input = Vec::new();
    for (given, number) in given.iter().zip(0..) {
        let file = match given {
            Input::Dataset(name) => {
                if Path::new(name).is_dir() && !outputs::is_there(&mut place.stores, name)? {
                    return Err(input::folder(name));
                }
                input.push(name.clone());
                continue;
            }
            Input::File(path) => path.clone(),
            Input::Taken(file) => input::path_of(file),
        };
        let name = format!("{own}/{number}");
        temporary.push(name.clone());
        let query =
            Query { which: place.which.clone(), json: false, timeout: Duration::from_secs(1) };
        let options = Put {
            file,
            name: name.clone(),
            copies: usual.copies,
            record: None,
            replace: false,
            query,
        };
        put::file(&mut place.stores, &options)?;
        place.stores.hold(&name)?;
        input.push(name);
    }
    let request = usual.share.of(Request {
        name: name.into(),
        package: code::put(&mut place.stores, &place.which, &options.file)?,
        arguments: options.arguments.clone(),
        input,
        output: output.into(),
        reducers: usual.reducers.unwrap_or_else(|| place.workers()),
        samples: options.samples,
        memory: place.memory,
        on: place.on.iter().map(|node| node.0).collect(),
        copies: Some(usual.copies.into()),
        conserves: false,
        task_timeout: usual.task_timeout(),
        ..Request::default()
    });
    let mut service = Service::open(&mut place.stores, &place.on)?;
    let done = watch::to_end(&mut service, &request, &usual.hooks, &mut Bar::new(name, 0));
    // Files have been put under names that nobody gave them.
    let given = options.input.iter().map(|given| given.to_string_lossy());
    let files = given.zip(&request.input).filter(|(given, name)| given != *name);
    files.fold(done, |done, (given, name)| done.map_err(|failure| failure.calling(name, &given)))
}

/// Prints the output, or how the job went.
fn say(options: &Package, name: &str, done: &Done, output: Option<Vec<u8>>) -> Result<(), Failure> {
    let state = &done.state;
    let Some(kept) = &options.output else {
        let written = stdout().lock().write_all(&output.unwrap_or_default());
        return match written {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(Failure::failed(format!("cannot write the output: {error}")))
            }
            _ => Ok(()),
        };
    };
    let (records, checksum) = match state.end {
        Some(End::Done { records, checksum }) => (records, checksum),
        _ => (0, 0),
    };
    let row = |phase: &super::jobs::Phase| Row {
        name: phase.name.into(),
        took: phase.took,
        bytes: phase.bytes,
    };
    let rows: Vec<Row> = state.phases.iter().map(row).collect();
    if options.usual.json {
        let document = json!({
            "job": name,
            "output": kept,
            "records": records,
            "checksum": format!("{checksum:x}"),
            "seconds": done.took.as_secs_f64(),
            "phases": show::documents(&rows),
            "imbalance": state.imbalance,
            "spilled_bytes": state.spilled,
            "retries": state.retries,
            "policy": options.usual.share.policy.name(),
            "weight": options.usual.share.weight,
        });
        return crate::print(&format!("{document}\n"));
    }
    let tail = format!(
        "\n{kept}: {records} records in {:.3} s, spilled {}, retries {}\n",
        done.took.as_secs_f64(),
        Bytes(state.spilled),
        state.retries
    );
    crate::print(&(show::phases(&rows) + &tail))
}
