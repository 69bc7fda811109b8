//! Copies in place of those whose stores failed while a dataset was put: other stores fetch what
//! is prepared.

use std::time::Duration;

use nile_interfaces::dataset::DatasetClient;
use nile_interfaces::dataset::records::Listed;

use super::stores::{Stores, failed};
use super::write::Lost;
use crate::failure::Failure;
use crate::peer::known::Target;

/// How long a store may take to fetch a dataset: as long as calls may. One that dies meanwhile is
/// waited for until its death is known.
const FETCH: Duration = Duration::from_secs(600);

/// Has one of `spares` fetch what `targets` have prepared, for each that is lost, and says so; who
/// has it then. If there are too few, nothing is left of it.
pub fn restore(
    stores: &mut Stores,
    mut targets: Vec<Target>,
    mut spares: Vec<Target>,
    lost: Lost,
    listed: &Listed,
) -> Result<Vec<Target>, Failure> {
    let wanted = targets.len();
    targets.retain(|target| !lost.has(target));
    for (target, error) in lost.into_all() {
        let why = failed(&target, &error);
        match take(stores, &targets, &mut spares, listed) {
            Ok(Some(spare)) => {
                let (node, place) = (spare.node, target.node);
                crate::say(format_args!("nile: {why}; {node} has the copy in place of {place}"));
                targets.push(spare);
            }
            end => {
                unprepare(stores, &targets, listed);
                let none = || {
                    let message = format!(
                        "{why}; no other node takes its copy: {wanted} copies want as many nodes"
                    );
                    Failure::failed(message)
                };
                return Err(end.err().unwrap_or_else(none));
            }
        }
    }
    Ok(targets)
}

/// Leaves nothing of what was prepared.
pub fn unprepare(stores: &mut Stores, on: &[Target], listed: &Listed) {
    let Listed { name, epoch, attempt, .. } = listed;
    let remove =
        async |store: &DatasetClient, _: &Target| store.remove(name, *epoch, *attempt).await;
    // Who does not hear it finds out by itself.
    let _ = stores.insisting(|stores| stores.ask_all(on, remove));
}

/// Has one of `spares`, all on nodes that have nothing of it, fetch it. Those that cannot
/// are spares no longer.
fn take(
    stores: &mut Stores,
    from: &[Target],
    spares: &mut Vec<Target>,
    listed: &Listed,
) -> Result<Option<Target>, Failure> {
    let Listed { name, epoch, attempt, .. } = listed;
    while !spares.is_empty() {
        let spare = spares.remove(0);
        for source in stores.doubted_last(from.to_vec()) {
            let fetch = async |store: &DatasetClient, (): &()| {
                store.fetch_from(name, *epoch, *attempt, source.node.0).await
            };
            let fetched = stores.ask_within(FETCH, &[(spare, ())], fetch);
            match fetched {
                Ok(ends) if ends.iter().all(Result::is_ok) => {
                    spares.retain(|it| it.node != spare.node);
                    return Ok(Some(spare));
                }
                Ok(_) => {}
                Err(failure) => {
                    unprepare(stores, &[spare], listed);
                    return Err(failure);
                }
            }
        }
    }
    Ok(None)
}
