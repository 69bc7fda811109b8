//! Which core does what. A configuration asks for roles by number or by core; what it leaves open
//! is filled so that any number of cores works:
//!
//! | cores | default                                                             |
//! | ----- | ------------------------------------------------------------------- |
//! | 1     | every role on core 0                                                |
//! | 2     | core 0 management, network and disk; core 1 worker                  |
//! | 3 up  | core 0 management, core 1 network and disk, the others workers      |
//!
//! A number takes the next cores that have no role yet, in the order management, network, disk,
//! worker; a list names cores and may name one that has a role already. A role that is not asked
//! for goes to core 0, or, if it is worker, to every core that is left. Core 0 starts the node and
//! is always a management core.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use nile_abi::{Role, RoleSet};

use crate::config::{Config, ConfigError, Cores, Placed, These};

impl Config {
    /// The roles of each of `cores` cores, or why the configuration does not fit them.
    pub fn roles(&self, cores: usize) -> Result<Vec<RoleSet>, ConfigError> {
        let services = self.services.iter().map(|(name, these)| (name.as_str(), these));
        for (name, These { cores: named, line }) in services.chain([("dedicated", &self.dedicated)])
        {
            if let Some(core) = named.iter().find(|core| core.index() >= cores) {
                return Err(ConfigError {
                    line: Some(*line),
                    message: format!("{name} names core {}, but the node has {cores}", core.0),
                });
            }
        }
        if self.roles.is_empty() || cores == 0 {
            return Ok(default_roles(cores));
        }
        let mut roles = vec![RoleSet::EMPTY; cores];
        for (role, Placed { cores: asked, line }) in &self.roles {
            let Cores::These(ids) = asked else { continue };
            for id in ids {
                let Some(set) = roles.get_mut(usize::from(*id)) else {
                    return Err(misfit(*line, *role, &format!("core {id}"), cores));
                };
                *set = set.with(*role);
            }
        }
        for role in Role::ALL {
            match self.roles.get(&role) {
                Some(Placed { cores: Cores::Count(count), line }) => {
                    take_free(&mut roles, role, *count, *line)?;
                }
                None if role != Role::Worker => roles[0] = roles[0].with(role),
                _ => {}
            }
        }
        if !self.roles.contains_key(&Role::Worker) {
            for set in roles.iter_mut().filter(|set| set.is_empty()) {
                *set = set.with(Role::Worker);
            }
        }
        self.check(&roles)?;
        Ok(roles)
    }

    fn check(&self, roles: &[RoleSet]) -> Result<(), ConfigError> {
        if !roles[0].contains(Role::Management) {
            return Err(ConfigError {
                line: self.roles.get(&Role::Management).map(|placed| placed.line),
                message: "core 0 starts the node and must be a management core".into(),
            });
        }
        if let Some(idle) = roles.iter().position(|set| set.is_empty()) {
            return Err(ConfigError {
                line: self.roles.get(&Role::Worker).map(|placed| placed.line),
                message: format!(
                    "core {idle} has no role; give it one, or start the node with fewer cores"
                ),
            });
        }
        Ok(())
    }
}

/// Gives `role` to the first `count` cores that have no role yet.
fn take_free(
    roles: &mut [RoleSet],
    role: Role,
    count: usize,
    line: usize,
) -> Result<(), ConfigError> {
    let free = roles.iter().filter(|set| set.is_empty()).count();
    if free < count {
        let asks = format!("{count} cores, {free} of them free");
        return Err(misfit(line, role, &asks, roles.len()));
    }
    for set in roles.iter_mut().filter(|set| set.is_empty()).take(count) {
        *set = set.with(role);
    }
    Ok(())
}

fn misfit(line: usize, role: Role, asks: &str, cores: usize) -> ConfigError {
    let plural = if cores == 1 { "" } else { "s" };
    ConfigError {
        line: Some(line),
        message: format!("role {role} asks for {asks}, but the node has {cores} core{plural}"),
    }
}

fn default_roles(cores: usize) -> Vec<RoleSet> {
    let system = RoleSet::from_iter([Role::Management, Role::Network, Role::Disk]);
    let io = RoleSet::from_iter([Role::Network, Role::Disk]);
    let worker = RoleSet::EMPTY.with(Role::Worker);
    match cores {
        0 => Vec::new(),
        1 => vec![RoleSet::ALL],
        2 => vec![system, worker],
        _ => {
            let mut roles = vec![worker; cores];
            roles[0] = RoleSet::EMPTY.with(Role::Management);
            roles[1] = io;
            roles
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};

    fn roles(text: &str, cores: usize) -> Vec<String> {
        let sets = Config::parse(text).unwrap().roles(cores).unwrap();
        sets.iter().map(|set| set.iter().map(Role::name).collect::<Vec<_>>().join("+")).collect()
    }

    fn error(text: &str, cores: usize) -> String {
        Config::parse(text).unwrap().roles(cores).unwrap_err().to_string()
    }

    #[test]
    fn defaults_for_any_number_of_cores() {
        assert_eq!(roles("", 1), ["management+network+disk+worker"]);
        assert_eq!(roles("", 2), ["management+network+disk", "worker"]);
        assert_eq!(roles("", 4), ["management", "network+disk", "worker", "worker"]);
        assert_eq!(roles("", 64).iter().filter(|roles| *roles == "worker").count(), 62);
    }

    #[test]
    fn numbers_take_free_cores_and_lists_may_share() {
        let text = "[roles]\nmanagement = 1\nnetwork = [3]\ndisk = [3]\nworker = 2\n";
        assert_eq!(roles(text, 4), ["management", "worker", "worker", "network+disk"]);
        assert_eq!(
            roles("[roles]\nmanagement = 2\n", 3),
            ["management+network+disk", "management", "worker"]
        );
    }

    #[test]
    fn a_node_without_cores_has_no_roles() {
        assert!(roles("[roles]\nworker = 1\n", 0).is_empty());
        assert_eq!(roles("[roles]\nworker = 3\n", 4)[3], "worker");
    }

    #[test]
    fn a_misfit_names_line_role_and_numbers() {
        assert_eq!(
            error("[roles]\nworker = 5\n", 4),
            "line 2: role worker asks for 5 cores, 3 of them free, but the node has 4 cores"
        );
        assert_eq!(
            error("[roles]\ndisk = [9]\n", 4),
            "line 2: role disk asks for core 9, but the node has 4 cores"
        );
        assert_eq!(
            error("[idle]\ndedicated = [1, 4]\n", 4),
            "line 2: dedicated names core 4, but the node has 4"
        );
        assert_eq!(
            error("[roles]\nmanagement = [1]\n", 2),
            "line 2: core 0 starts the node and must be a management core"
        );
        assert_eq!(
            error("[roles]\nmanagement = 1\nworker = 1\n", 4),
            "line 3: core 2 has no role; give it one, or start the node with fewer cores"
        );
    }
}
