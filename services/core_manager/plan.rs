//! What a change of a core's roles takes: which devices go where, and which cores have to leave
//! for it (NileOS paper, V). Devices move whole. A device stays with its core while that has the
//! role; a core that gains a role takes devices from cores that have more than it.

use alloc::vec::Vec;

use nile_abi::{CoreId, Role, RoleSet};
use nile_stl::node::Line;

/// A core as far as roles are concerned.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// What it is for.
    pub roles: RoleSet,
    /// Whether it runs: one that does not takes part in nothing.
    pub runs: bool,
    /// Whether it cannot leave without the node.
    pub is_pinned: bool,
}

/// What has to be done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plan {
    /// The cores that leave, in this order, and come back: first those that only gain.
    pub leave: Vec<CoreId>,
    /// The devices that move, and which core drives each then.
    pub moves: Vec<(Line, CoreId)>,
}

/// Why a core cannot have the roles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// There is no such core.
    NoCore,
    /// It would be for nothing.
    NoRole,
    /// It is away, or has stopped.
    Out,
    /// Which core manages the node does not change.
    Management,
    /// It cannot leave without the node.
    Pinned,
    /// No other core that runs has this role.
    Last(Role),
    /// This device would have to go to a core that cannot leave.
    Nowhere(Line),
}

/// Plans that `core` is for `roles` from now on. `drivers` says which core drives which device.
pub fn plan(
    cores: &[Part],
    drivers: &[(Line, CoreId)],
    core: CoreId,
    roles: RoleSet,
) -> Result<Plan, Refusal> {
    let before = cores.get(core.index()).ok_or(Refusal::NoCore)?;
    let has = |of: CoreId, role: Role| match of == core {
        true => roles.contains(role),
        false => cores[of.index()].runs && cores[of.index()].roles.contains(role),
    };
    let ids = || (0..cores.len() as u16).map(CoreId);
    if roles == before.roles {
        return Ok(Plan::default());
    }
    if roles.is_empty() {
        return Err(Refusal::NoRole);
    }
    if roles.contains(Role::Management) != before.roles.contains(Role::Management) {
        return Err(Refusal::Management);
    }
    if !before.runs {
        return Err(Refusal::Out);
    }
    if before.is_pinned {
        return Err(Refusal::Pinned);
    }
    let lost = |role: &Role| before.roles.contains(*role) && !roles.contains(*role);
    if let Some(role) = Role::ALL.into_iter().filter(lost).find(|it| !ids().any(|of| has(of, *it)))
    {
        return Err(Refusal::Last(role));
    }

    let mut then = drivers.to_vec();
    let count = |then: &[(Line, CoreId)], of: CoreId, role: Role| {
        then.iter().filter(|(line, driver)| *driver == of && role_of(*line) == role).count()
    };
    let can_leave = |of: &CoreId| !cores[of.index()].is_pinned;
    for at in 0..then.len() {
        let (line, driver) = then[at];
        let role = role_of(line);
        if driver == core && !roles.contains(role) {
            let heirs = ids().filter(|of| has(*of, role)).filter(can_leave);
            let heir = heirs.min_by_key(|of| (count(&then, *of, role), *of));
            then[at].1 = heir.ok_or(Refusal::Nowhere(line))?;
        }
    }
    for role in [Role::Network, Role::Disk] {
        while has(core, role) && !before.roles.contains(role) {
            let most = |of: &CoreId| (count(&then, *of, role), core::cmp::Reverse(*of));
            let Some(giver) = ids().filter(|of| has(*of, role)).filter(can_leave).max_by_key(most)
            else {
                break;
            };
            if count(&then, giver, role) < count(&then, core, role) + 2 {
                break;
            }
            let is_its =
                |(line, driver): &(Line, CoreId)| *driver == giver && role_of(*line) == role;
            let Some(at) = then.iter().rposition(is_its) else { break };
            then[at].1 = core;
        }
    }

    let moved: Vec<_> = drivers.iter().zip(&then).filter(|(was, is)| was.1 != is.1).collect();
    let gives = |of: &CoreId| moved.iter().any(|(was, _)| was.1 == *of);
    let takes = |of: &CoreId| moved.iter().any(|(_, is)| is.1 == *of);
    let takers = ids().filter(|of| (takes(of) || *of == core) && !gives(of));
    let leave = takers.chain(ids().filter(gives)).collect();
    Ok(Plan { leave, moves: moved.iter().map(|(_, is)| **is).collect() })
}

fn role_of(line: Line) -> Role {
    if line.is_disk() { Role::Disk } else { Role::Network }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(letters: &str) -> RoleSet {
        let role = |letter| match letter {
            'm' => Role::Management,
            'n' => Role::Network,
            'd' => Role::Disk,
            _ => Role::Worker,
        };
        letters.chars().map(role).collect()
    }

    /// Cores by their roles; `!` is pinned, `-` is away. Disks by their cores.
    fn of(cores: &str, disks: &[u16], core: u16, roles: &str) -> Result<Plan, Refusal> {
        let part = |text: &str| Part {
            roles: set(text.trim_matches(['!', '-'])),
            runs: !text.ends_with('-'),
            is_pinned: text.ends_with('!'),
        };
        let cores: Vec<Part> = cores.split(' ').map(part).collect();
        let disks = disks.iter().enumerate();
        let drivers: Vec<_> =
            disks.map(|(at, core)| (Line::disk(at).unwrap(), CoreId(*core))).collect();
        plan(&cores, &drivers, CoreId(core), set(roles))
    }

    fn planned(leave: &[u16], moves: &[(usize, u16)]) -> Result<Plan, Refusal> {
        Ok(Plan {
            leave: leave.iter().copied().map(CoreId).collect(),
            moves: moves.iter().map(|(at, to)| (Line::disk(*at).unwrap(), CoreId(*to))).collect(),
        })
    }

    #[test]
    fn a_core_that_gains_a_role_takes_its_share() {
        assert_eq!(of("m! n! d w w", &[2], 3, "d"), planned(&[3], &[]));
        assert_eq!(of("m! n! d w w", &[2, 2], 3, "d"), planned(&[3, 2], &[(1, 3)]));
        assert_eq!(of("m! n! d d w", &[2, 3, 2, 3, 2], 4, "dw"), planned(&[4, 2], &[(4, 4)]));
        assert_eq!(of("m! nd! w w", &[1, 1, 1], 2, "d"), planned(&[2], &[]));
    }

    #[test]
    fn what_a_core_loses_goes_to_who_has_least() {
        assert_eq!(of("m! n! d d d", &[2, 2, 3], 3, "w"), planned(&[4, 3], &[(2, 4)]));
        assert_eq!(of("m! n! d d d", &[2, 2, 3], 2, "w"), planned(&[3, 4, 2], &[(0, 4), (1, 3)]));
        assert_eq!(of("m! n! d d w", &[2, 3], 3, "w"), planned(&[2, 3], &[(1, 2)]));
        assert_eq!(of("m! n! d d- w", &[2, 2], 2, "dw"), planned(&[2], &[]));
        assert_eq!(of("m! n! d w", &[2], 3, "w"), planned(&[], &[]));
    }

    #[test]
    fn what_the_node_needs_stays() {
        assert_eq!(of("m! n! d w", &[2], 9, "d"), Err(Refusal::NoCore));
        assert_eq!(of("m! n! d w", &[2], 2, ""), Err(Refusal::NoRole));
        assert_eq!(of("m! n! d w", &[2], 2, "w"), Err(Refusal::Last(Role::Disk)));
        assert_eq!(of("m! n! d d-", &[2], 2, "w"), Err(Refusal::Last(Role::Disk)));
        assert_eq!(of("m! n! d w", &[2], 3, "d"), Err(Refusal::Last(Role::Worker)));
        assert_eq!(of("m! n! d w-", &[2], 3, "d"), Err(Refusal::Out));
        assert_eq!(of("m! n! d w", &[2], 0, "w"), Err(Refusal::Management));
        assert_eq!(of("m! n! d w", &[2], 3, "mw"), Err(Refusal::Management));
        assert_eq!(of("m! n! d w w", &[2], 1, "nw"), Err(Refusal::Pinned));
        let disk = Line::disk(0).unwrap();
        assert_eq!(of("md! n! d w w", &[2], 2, "w"), Err(Refusal::Nowhere(disk)));
    }
}
