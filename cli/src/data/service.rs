//! Services of the nodes that are called by their clients: where their instances are.

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
    let instances = known::instances(session.peer.known());
    let named = instances.iter().filter(|(_, it)| it.name == C::INTERFACE.name);
    named.map(|(target, _)| *target).collect()
}

/// The same; none if no node has it. Fails if none of them answers, or one does of another version
/// than this command's.
pub fn find<C: Client>(session: &mut Session) -> Result<Option<Vec<Target>>, Failure> {
    let own = C::INTERFACE;
    let all = instances::<C>(session);
    let doubts = session.doubts.clone();
    let is_doubted = |at: usize| doubts.has(all[at].node);
    let mut why = None;
    let mut turns = Turns::of(all.len());
    while let Some((at, patience)) = turns.next(session.patience, is_doubted) {
        let target = all[at];
        let wrong =
            |what: String| Failure::failed(format!("{} on {}: {what}", own.name, target.place()));
        match services::schema_within(session, target, patience)? {
            Ok(schema) if schema == discovery::to_text(own.schema) => return Ok(Some(all)),
            Ok(_) => return Err(wrong(OTHER_VERSION.into())),
            Err(failed) => {
                doubts.add(target.node);
                turns.failed(at, failed.status);
                why.get_or_insert_with(|| wrong(failed.to_string()));
            }
        }
    }
    why.map_or(Ok(None), Err)
}
