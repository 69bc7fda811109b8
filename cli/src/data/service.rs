//! Services of the nodes that are called by their clients: where their instances are.

use std::time::{Duration, Instant};

use nile_abi::Status;
use nile_bosml::discovery;
use nile_stl::Client;

use crate::cluster::services;
use crate::cluster::session::Session;
use crate::cluster::turns::Turns;
use crate::failure::Failure;
use crate::peer::clients::OTHER_VERSION;
use crate::peer::known::{self, Target};

/// The instances of a service on nodes that are not down, the one on the lowest node first.
pub fn instances<C: Client>(session: &Session) -> Vec<Target> {
    named(session, &[C::INTERFACE.name])
}

/// The instances that have one of these names on nodes that are not down, by node and core.
pub fn named(session: &Session, names: &[&str]) -> Vec<Target> {
    let instances = known::instances(session.peer.known());
    let named = instances.iter().filter(|(_, it)| names.contains(&it.name.as_ref()));
    named.map(|(target, _)| *target).collect()
}

/// The same; none if no node has it. Fails if none of them answers, or one does of another version
/// than this command's.
///
/// After a partition nodes hold each other for dead until they have heard of each other, and tell
/// whoever asks. Those that run are back soon: they are waited for as long as the patience lasts.
pub fn find<C: Client>(session: &mut Session) -> Result<Option<Vec<Target>>, Failure> {
    let deadline = Instant::now() + session.patience;
    loop {
        let asked = ask::<C>(session)?;
        let held = matches!(asked, Asked::Nowhere | Asked::Dead(_)) && session.holds_any_for_dead();
        match asked {
            Asked::Found(all) => return Ok(Some(all)),
            _ if held && Instant::now() < deadline => drop(session.peer.until(AGAIN, |_| false)?),
            Asked::Nowhere => return Ok(None),
            Asked::Dead(why) | Asked::Silent(why) => return Err(why),
        }
    }
}

/// How long until nodes are looked for again that were held for dead.
const AGAIN: Duration = Duration::from_millis(100);

/// What the instances of a service have answered.
enum Asked {
    /// One has: the service is here, and known.
    Found(Vec<Target>),
    /// No node is known to have any.
    Nowhere,
    /// All are on nodes that are held for dead; what the first one came to.
    Dead(Failure),
    /// None has; what the first one came to.
    Silent(Failure),
}

fn ask<C: Client>(session: &mut Session) -> Result<Asked, Failure> {
    let own = C::INTERFACE;
    let all = instances::<C>(session);
    let doubts = session.doubts.clone();
    let is_doubted = |at: usize| doubts.has(all[at].node);
    let (mut why, mut are_dead) = (None, true);
    let mut turns = Turns::of(all.len());
    while let Some((at, patience)) = turns.next(session.patience, is_doubted) {
        let target = all[at];
        let wrong =
            |what: String| Failure::failed(format!("{} on {}: {what}", own.name, target.place()));
        match services::schema_within(session, target, patience)? {
            Ok(schema) if schema == discovery::to_text(own.schema) => return Ok(Asked::Found(all)),
            Ok(_) => return Err(wrong(OTHER_VERSION.into())),
            Err(failed) => {
                doubts.add(target.node);
                turns.failed(at, failed.status);
                are_dead &= failed.status == Status::Dead;
                why.get_or_insert_with(|| wrong(failed.to_string()));
            }
        }
    }
    Ok(match why {
        None => Asked::Nowhere,
        Some(why) if are_dead => Asked::Dead(why),
        Some(why) => Asked::Silent(why),
    })
}
