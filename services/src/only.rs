//! Images for some services only (`nile image --only`): which others those do not work without.
//! The kernel's linker leaves out what no list of an image names.

use alloc::vec::Vec;

use nile_stl::Registration;

use crate::*;

/// What every node has: it finds services, says how it is, and is in a cluster.
static NODE: [&Registration; 7] = [
    &core_manager::REGISTRATION,
    &gossip::REGISTRATION,
    &log::REGISTRATION,
    &network::REGISTRATION,
    &physical_memory::REGISTRATION,
    &registry::REGISTRATION,
    &time::REGISTRATION,
];

/// What a service asks of its own node besides. Other nodes may have what is asked of any.
static NEEDS: [(&Registration, &[&Registration]); 5] = [
    // The service of names removes what is on the node's disk and means nothing any more.
    (&dataset::REGISTRATION, &[&bulk::REGISTRATION, &name::REGISTRATION]),
    (&job::REGISTRATION, &[&dataset::REGISTRATION]),
    (&role_assignment::REGISTRATION, &[&interrupt::REGISTRATION]),
    (&timer::REGISTRATION, &[&timer_source::REGISTRATION]),
    // What tasks make is written to the disk of their node.
    (
        &worker::REGISTRATION,
        &[
            &bulk::REGISTRATION,
            &dataset::REGISTRATION,
            &heap::REGISTRATION,
            &task::REGISTRATION,
            &virtual_memory::REGISTRATION,
        ],
    ),
];

/// The services of an image for those that are `named`, in the order of [`ALL`]: with those that
/// they and the node itself need. Of a name that no service has, that name.
pub fn only<'a>(
    named: impl IntoIterator<Item = &'a str>,
) -> Result<Vec<&'static Registration>, &'a str> {
    let mut has: Vec<&Registration> = NODE.to_vec();
    for name in named {
        has.push(ALL.into_iter().find(|it| it.name() == name).ok_or(name)?);
    }
    let mut looked = 0;
    while let Some(service) = has.get(looked) {
        let needs = NEEDS.iter().find(|(it, _)| it.name() == service.name());
        let missing = |it: &&&Registration| has.iter().all(|had| had.name() != it.name());
        let new: Vec<_> = needs.iter().flat_map(|(_, all)| *all).filter(missing).copied().collect();
        has.extend(new);
        looked += 1;
    }
    Ok(ALL.into_iter().filter(|it| has.iter().any(|had| had.name() == it.name())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(named: &[&'static str]) -> Vec<&'static str> {
        let services = only(named.iter().copied());
        services.map_or_else(|_| Vec::new(), |all| all.iter().map(|it| it.name()).collect())
    }

    #[test]
    fn what_is_named_comes_with_what_it_needs_and_with_the_node() {
        let node = names(&[]);
        assert_eq!(node.len(), NODE.len());
        let worker = names(&["worker"]);
        assert!(node.iter().all(|it| worker.contains(it)));
        assert!(worker.contains(&"task") && !worker.contains(&"job") && worker.is_sorted());
        assert_eq!(names(&["worker", "task", "log"]), worker);
        // What is needed needs others in turn.
        assert!(names(&["job"]).contains(&"bulk"));
        assert!(names(&["dataset"]).contains(&"name"));
    }

    #[test]
    fn what_is_no_service_is_said() {
        assert_eq!(only(["worker", "wroker"]).err(), Some("wroker"));
        assert_eq!(only([""]).err(), Some(""));
    }
}
