//! `nile deploy`: another kernel image for the workers of running nodes, core by core, while they
//! work.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use nile_abi::CoreId;
use nile_interfaces::core_manager::{CoreManagerClient, CorePhase, CoreRole, CoreRoles};
use serde_json::json;

use super::args::{Deploy, Place};
use super::cores;
use super::session::Session;
use crate::data::hand::Handed;
use crate::data::service;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::known::Target;

/// Has the cores that are meant begin anew from the image in a file, one after the other. The first
/// that does not ends it; those before have the image.
pub fn run(options: &Deploy) -> Result<(), Failure> {
    let query = &options.query;
    let of = options.place.map(|place| place.on(&query.which)).transpose()?;
    let file = open(&options.file)?;
    let mut session = Session::open(&query.which, query.timeout)?;
    let is_meant = |target: &Target| of.is_none_or(|place| place.node == target.node);
    let managers = service::find::<CoreManagerClient>(&mut session)?.unwrap_or_default();
    let managers: Vec<Target> = managers.into_iter().filter(is_meant).collect();
    if managers.is_empty() {
        return Err(Failure::request(match of {
            Some(place) => format!("{} does not answer, or is none", place.node),
            None => "no node answers".into(),
        }));
    }
    let handed = Handed::to(&session, managers.iter().map(|it| it.node), &file);
    if let Some(target) = managers.iter().find(|it| !handed.has(it.node)) {
        return Err(Failure::request(format!(
            "{} takes no image: only hosted nodes of this machine do; nothing has changed",
            target.node
        )));
    }
    let (mut done, mut kept) = (Vec::new(), Vec::new());
    let mut image = String::new();
    for target in managers {
        for it in roles(&mut session, target)? {
            let core = Place { node: target.node, core: Some(CoreId(it.core)) };
            let can = it.roles == [CoreRole::Worker] && it.phase == CorePhase::Running;
            match of.and_then(|place| place.core) {
                Some(only) if only.0 != it.core => continue,
                None if !can => {
                    kept.push(core.to_string());
                    continue;
                }
                _ => {}
            }
            let ended = renew(&mut session, target, it.core, &handed, options.patience)?;
            image = ended.map_err(|failed| after(core, failed, &done))?;
            done.push(core.to_string());
            if !query.json {
                crate::print(&format!("{core} runs image {image}\n"))?;
            }
        }
    }
    finish(options, of, (&done, &kept, &image))
}

fn finish(
    options: &Deploy,
    of: Option<Place>,
    (done, kept, image): (&[String], &[String], &str),
) -> Result<(), Failure> {
    if done.is_empty() {
        return Err(Failure::request(match of {
            Some(place @ Place { core: Some(_), .. }) => format!("there is no core {place}"),
            _ => "no worker that is a process of its own runs there: nothing has changed".into(),
        }));
    }
    if options.query.json {
        let document = json!({ "image": image, "cores": done, "kept": kept });
        return crate::print(&format!("{document}\n"));
    }
    match kept {
        [] => Ok(()),
        kept => crate::print(&format!(
            "{} keep the image that their nodes were started with\n",
            kept.join(", ")
        )),
    }
}

fn open(path: &Path) -> Result<File, Failure> {
    let said =
        |what: &dyn std::fmt::Display| Failure::request(format!("{}: {what}", path.display()));
    let file = File::open(path).map_err(|error| said(&error))?;
    match file.metadata().map_err(|error| said(&error))?.is_file() {
        true => Ok(file),
        false => Err(said(&"it is no regular file")),
    }
}

fn roles(session: &mut Session, target: Target) -> Result<Vec<CoreRoles>, Failure> {
    let said = session.peer.work(session.patience, async |clients| {
        clients.at::<CoreManagerClient>(target).roles().await.map_err(CallFailed::from)
    })?;
    said.map_err(|failed| Failure::failed(format!("{}: {failed}", target.node)))
}

/// Has one core begin anew from the file. Gives the image's name.
fn renew(
    session: &mut Session,
    target: Target,
    core: u16,
    handed: &Handed,
    patience: Duration,
) -> Result<Result<String, CallFailed>, Failure> {
    let (file, patience_ms) = (handed.name(target.node), cores::milliseconds(patience));
    // The next incarnation has to begin, too.
    let limit = patience + session.patience;
    session.peer.work(limit, async |clients| {
        let manager = clients.at::<CoreManagerClient>(target);
        manager.deploy(core, file, patience_ms).await.map_err(CallFailed::from)
    })
}

/// Why it ended, and what is so now.
fn after(core: Place, failed: CallFailed, done: &[String]) -> Failure {
    let is_so = match done {
        [] => "nothing has changed".into(),
        done => format!("{} run the image", done.join(", ")),
    };
    cores::failure(core, failed, &format!("; {is_so}"))
}
