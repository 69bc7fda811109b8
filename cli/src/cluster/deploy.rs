//! `nile deploy`: another kernel image for the cores of running nodes that can have one, core by
//! core, while they work.

mod pc;

use std::fmt::Display;
use std::fs::{self, File};
use std::path::Path;

use nile_abi::{CoreId, NodeId, Status};
use nile_interfaces::core_manager::{CoreManagerClient, CorePhase, CoreRoles};
use serde_json::json;

use super::args::{Deploy, Place};
use super::session::Session;
use super::{anew, cores};
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
    let sent = match managers.iter().all(|it| handed.has(it.node)) {
        true => None,
        false => pc::Image::of(&fs::read(&options.file).map_err(|it| said(&options.file, &it))?),
    };
    let way = Way { handed, sent };
    if let Some(target) = managers.iter().find(|it| !way.leads_to(it.node)) {
        return Err(Failure::request(format!(
            "{} does not take the file: it is no kernel image of a PC, and other files only hosted \
             nodes of this machine take; nothing has changed",
            target.node
        )));
    }
    let (mut done, mut kept) = (Vec::new(), Vec::new());
    let mut image = String::new();
    for target in managers {
        for it in in_order(roles(&mut session, target)?) {
            let core = Place { node: target.node, core: Some(CoreId(it.core)) };
            let can = !it.keeps_image && it.phase == CorePhase::Running;
            match of.and_then(|place| place.core) {
                Some(only) if only.0 != it.core => continue,
                None if !can => {
                    kept.push(core.to_string());
                    continue;
                }
                _ => {}
            }
            // A node that another core links to its cluster from now on has another generation.
            let target = anew::manager(&mut session, target.node)?;
            let ended = renew(&mut session, target, &it, &way, options)?;
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
            _ => "no core that can have another image runs there: nothing has changed".into(),
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

/// How the file gets to nodes.
struct Way {
    /// To hosted ones of this machine, as it is.
    handed: Handed,
    /// To others, if they can boot it.
    sent: Option<pc::Image>,
}

impl Way {
    fn leads_to(&self, node: NodeId) -> bool {
        self.handed.has(node) || self.sent.is_some()
    }
}

fn said(path: &Path, what: &dyn Display) -> Failure {
    Failure::request(format!("{}: {what}", path.display()))
}

fn open(path: &Path) -> Result<File, Failure> {
    let file = File::open(path).map_err(|error| said(path, &error))?;
    match file.metadata().map_err(|error| said(path, &error))?.is_file() {
        true => Ok(file),
        false => Err(said(path, &"it is no regular file")),
    }
}

/// Those that others have to do with last: the link to the cluster, and the managing core.
fn in_order(mut cores: Vec<CoreRoles>) -> Vec<CoreRoles> {
    cores.sort_by_key(|it| (CoreId(it.core) == CoreId::BOOT, it.is_pinned, it.core));
    cores
}

fn roles(session: &mut Session, target: Target) -> Result<Vec<CoreRoles>, Failure> {
    let said = session.peer.work(session.patience, async |clients| {
        clients.at::<CoreManagerClient>(target).roles().await.map_err(CallFailed::from)
    })?;
    said.map_err(|failed| Failure::failed(format!("{}: {failed}", target.node)))
}

/// Has one core begin anew from the file, which it gets before. Gives the image's name.
fn renew(
    session: &mut Session,
    target: Target,
    of: &CoreRoles,
    way: &Way,
    options: &Deploy,
) -> Result<Result<String, CallFailed>, Failure> {
    let (core, patience) = (of.core, options.patience);
    let (mut file, patience_ms) = (way.handed.name(target.node), cores::milliseconds(patience));
    if !way.handed.has(target.node)
        && let Some(image) = &way.sent
    {
        if let Err(failed) = image.send(session, target, core)? {
            return Ok(Err(failed));
        }
        file = image.name();
    }
    // The next incarnation has to begin, too.
    let limit = patience + session.patience;
    let before = anew::generation(session, target, core)?;
    let ended = session.peer.work(limit, async |clients| {
        let manager = clients.at::<CoreManagerClient>(target);
        manager.deploy(core, file, patience_ms).await.map_err(CallFailed::from)
    })?;
    let image = match ended {
        Ok(image) => image,
        // The answer has to go by the core that it is about.
        Err(failed) if of.is_pinned && anew::is_lost(&failed) => format!("{file:016x}"),
        Err(failed) => return Ok(Err(failed)),
    };
    if !of.is_pinned {
        return Ok(Ok(image));
    }
    let there = anew::wait(session, &options.query.which, (target.node, core), before, limit)?;
    Ok(there.and_then(|it| match it.image == Some(image.clone()) {
        true => Ok(image),
        false => Err(CallFailed::new(
            Status::Failed,
            format!(
                "core {core} did not stay with the image, and runs its former one again: the \
                 node's log says why"
            ),
        )),
    }))
}

/// Why it ended, and what is so now.
fn after(core: Place, failed: CallFailed, done: &[String]) -> Failure {
    let is_so = match done {
        [] => "nothing has changed".into(),
        done => format!("{} run the image", done.join(", ")),
    };
    cores::failure(core, failed, &format!("; {is_so}"))
}
