//! `nile.toml`: which cores have which role, the tick, how long a core polls before it sleeps, and
//! where services run.
//!
//! ```toml
//! [roles]              # a number of cores, or a list of core ids; see `roles`
//! management = 1
//! network = [1]
//! disk = [1]
//! worker = 2
//!
//! [timer]
//! tick_hz = 10         # the periodic timer of management cores; 0 turns it off
//! tick_workers = false # true lets it interrupt workers too: a control for measurements
//! longest_slack_ms = 1000 # the most that what may be late is; 0 has every timer come as soon as
//!                      # it may
//!
//! [idle]
//! polls = 0            # empty passes of the loop before a core sleeps
//! dedicated = [3]      # cores that poll and never sleep: messages to them need no signal
//!
//! [services]           # the cores that offer a service; without a line here, its source says
//! ackermann = [2, 3]
//! bulk = [1]           # a protocol of the network, on one network core
//! ```
//!
//! `[packages]` is in [`packages`](crate::packages), `[node]` and `[network]` are in
//! [`membership`](crate::membership), `[ip]`, `[filter]` and `[pool]` in modules of these names,
//! `[region.NAME]` in `regions`.
//!
//! The same parser serves the command line, which checks a file before it starts anything, and
//! the kernel, which gets the file as a boot module. Any text gives a configuration or an error
//! with its line.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use nile_abi::{CoreId, KeepName, Role, RoleSet};
use nile_order::SortedMap;
use nile_package::Store;
use serde::Deserialize;
use toml::Spanned;

mod bounds;

use crate::filter::FilterTable;
use crate::ip::{IpConfig, IpTable};
use crate::membership::{Membership, NetworkTable, NodeTable};
use crate::packages::{Most, PackagesTable};
use crate::pool::{PoolConfig, PoolTable};
use crate::regions::{self, RegionTable};
use crate::supervising::{DomainTable, Supervising, SupervisorTable};

pub use bounds::MAX_BYTES;

/// The most ticks a second that a configuration may ask for.
const MAX_TICK_HZ: u32 = 1000;

/// What is said of a role that names no cores.
const NO_CORES: &str = "neither a number of cores nor a list of core ids from 0 to 65535";

/// The policy of a node whose cores keep their roles.
pub const STATIC: &str = "static";

/// The longest slack of a timer where the file says none, and the most that it may say.
const LONGEST_SLACK_MS: u32 = 1000;
const MAX_SLACK_MS: u32 = 60_000;

/// A configuration that is valid by itself; whether it fits a machine, [`Config::roles`] says.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) roles: SortedMap<Role, Placed>,
    /// The service that says which core gets which roles while the node runs; `None` if each keeps
    /// what it has.
    pub role_policy: Option<Named>,
    /// The period of the management cores' timer; `None` when it is off.
    pub tick: Option<Duration>,
    /// Whether workers are ticked too.
    pub tick_workers: bool,
    /// The most that a timer with slack is late so that cores wake less often.
    pub longest_slack: Duration,
    /// Empty passes of a core's loop before it sleeps.
    pub polls: u32,
    pub(crate) dedicated: These,
    pub(crate) services: SortedMap<String, These>,
    /// What the node is in a cluster; `None` if it is alone.
    pub membership: Option<Membership>,
    /// The interface that a hosted node drives; other machines have their own devices.
    pub interface: Option<Named>,
    /// The IPv4 network that it is in.
    pub ip: IpConfig,
    /// The memory that its cores share for buffers; `None` for none.
    pub pool: Option<PoolConfig>,
    /// Memory that packages of its cores share, and how many bytes of it.
    pub regions: Vec<(KeepName, u64)>,
    /// What the node keeps if it supervises its machine; `None` if it has all of it.
    pub supervisor: Option<Supervising>,
    /// Whether a guard keeps the node to what it has, if it is a domain of a PC.
    pub is_guarded: bool,
    /// What each package may have.
    pub(crate) package_limits: Most,
    /// The node's packages. No file says them: they come beside it, in the boot module.
    pub packages: Store,
}

/// A name in the file, and its line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// What stands there.
    pub name: String,
    /// Where.
    pub line: usize,
}

/// Cores by name, and the line that says so.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct These {
    pub cores: Vec<CoreId>,
    pub line: usize,
}

/// What the file asks for a role, and the line where it does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Placed {
    pub cores: Cores,
    pub line: usize,
}

/// Cores asked for by number or by name.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(untagged, expecting = "neither a number of cores nor a list of core ids from 0 to 65535")]
pub(crate) enum Cores {
    Count(usize),
    These(Vec<u16>),
    Policy(String),
}

/// What is wrong with a configuration, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// The line in the file, counted from one; `None` when no single line is at fault.
    pub line: Option<usize>,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl core::error::Error for ConfigError {}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct File {
    roles: BTreeMap<Spanned<String>, Spanned<Cores>>,
    timer: Timer,
    idle: Idle,
    services: BTreeMap<Spanned<String>, Vec<u16>>,
    node: NodeTable,
    network: NetworkTable,
    ip: IpTable,
    filter: FilterTable,
    pool: PoolTable,
    region: BTreeMap<Spanned<String>, RegionTable>,
    packages: PackagesTable,
    supervisor: Option<SupervisorTable>,
    domain: DomainTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Timer {
    tick_hz: Spanned<u32>,
    tick_workers: bool,
    longest_slack_ms: Spanned<u32>,
}

impl Default for Timer {
    fn default() -> Timer {
        Timer {
            tick_hz: Spanned::new(0..0, 10),
            tick_workers: false,
            longest_slack_ms: Spanned::new(0..0, LONGEST_SLACK_MS),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct Idle {
    polls: u32,
    dedicated: Option<Spanned<Vec<u16>>>,
}

impl Default for Config {
    /// What an empty file says.
    fn default() -> Config {
        Config {
            roles: SortedMap::new(),
            role_policy: None,
            tick: period(10),
            tick_workers: false,
            longest_slack: Duration::from_millis(LONGEST_SLACK_MS.into()),
            polls: 0,
            dedicated: These::default(),
            services: SortedMap::new(),
            membership: None,
            interface: None,
            ip: IpConfig::default(),
            pool: None,
            regions: Vec::new(),
            supervisor: None,
            is_guarded: true,
            package_limits: Most::default(),
            packages: Store::Empty,
        }
    }
}

impl Config {
    /// Whether `core` polls and never sleeps.
    pub fn is_dedicated(&self, core: CoreId) -> bool {
        self.dedicated.cores.contains(&core)
    }

    /// Whether `core` offers each service that the file names.
    pub(crate) fn offers(&self, core: CoreId) -> SortedMap<String, bool> {
        let services = self.services.iter();
        services.map(|(name, these)| (name.clone(), these.cores.contains(&core))).collect()
    }

    /// Whether the policy that gives out roles is among those there are.
    pub fn check_role_policy<'a>(
        &self,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<(), ConfigError> {
        match &self.role_policy {
            Some(Named { name, line }) if !known.clone().any(|it| it == name) => {
                let known: Vec<&str> = known.chain([STATIC]).collect();
                let known = known.join(", ");
                let message = format!("unknown policy `{name}` of roles; there are {known}");
                Err(ConfigError { line: Some(*line), message })
            }
            _ => Ok(()),
        }
    }

    /// The first service of the file that is not among those there are.
    pub fn check_services<'a>(
        &self,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> Result<(), ConfigError> {
        let mut named = self.services.iter();
        match named.find(|(name, _)| !known.clone().any(|known| known == *name)) {
            None => Ok(()),
            Some((name, These { line, .. })) => Err(ConfigError {
                line: Some(*line),
                message: format!(
                    "unknown service `{name}`; the services are {}",
                    known.collect::<Vec<_>>().join(", ")
                ),
            }),
        }
    }

    /// Whether the file has each of these protocols of the network, if it names it, on one core at
    /// most, which has the role; `roles` are those of the node's cores.
    pub fn check_protocols<'a>(
        &self,
        protocols: impl Iterator<Item = &'a str>,
        roles: &[RoleSet],
    ) -> Result<(), ConfigError> {
        for protocol in protocols {
            let Some(These { cores, line }) = self.services.get(protocol) else { continue };
            let network = |core: &&CoreId| {
                roles.get(core.index()).is_some_and(|roles| roles.contains(Role::Network))
            };
            let message = match (cores.as_slice(), cores.iter().find(|core| !network(core))) {
                (_, Some(core)) => format!("{protocol} names {core}, which is no network core"),
                ([_, _, ..], None) => format!("{protocol} names several cores; one runs it"),
                _ => continue,
            };
            return Err(ConfigError { line: Some(*line), message });
        }
        Ok(())
    }

    /// The configuration that `text` holds.
    pub fn parse(text: &str) -> Result<Config, ConfigError> {
        bounds::check(text)?;
        let file: File = toml::from_str(text).map_err(|error| ConfigError {
            line: error.span().map(|span| line_of(text, span.start)),
            message: one_line(error.message()),
        })?;
        let (mut roles, mut role_policy) = (SortedMap::new(), None);
        for (name, cores) in file.roles {
            let line = line_of(text, name.span().start);
            let cores = match (name.get_ref().as_str(), cores.into_inner()) {
                ("policy", Cores::Policy(name)) => {
                    role_policy = (name != STATIC).then_some(Named { name, line });
                    continue;
                }
                ("policy", _) => {
                    let message = "policy is a name: that of an optimiser, or static".into();
                    return Err(ConfigError { line: Some(line), message });
                }
                (_, Cores::Policy(_)) => {
                    return Err(ConfigError { line: Some(line), message: NO_CORES.into() });
                }
                (_, cores) => cores,
            };
            let role = name.get_ref().parse().map_err(|_| ConfigError {
                line: Some(line),
                message: format!("unknown role `{}`; the roles are {}", name.get_ref(), names()),
            })?;
            roles.insert(role, Placed { cores, line });
        }
        let at_most = |name: &str, value: &Spanned<u32>, most: u32| match *value.get_ref() {
            value if value <= most => Ok(value),
            value_is => Err(ConfigError {
                line: Some(line_of(text, value.span().start)),
                message: format!("{name} is {value_is}; it can be 0 to {most}"),
            }),
        };
        let hz = at_most("tick_hz", &file.timer.tick_hz, MAX_TICK_HZ)?;
        let slack = at_most("longest_slack_ms", &file.timer.longest_slack_ms, MAX_SLACK_MS)?;
        let interface = file.network.interface.as_ref().map(|name| Named {
            name: name.get_ref().clone(),
            line: line_of(text, name.span().start),
        });
        let mut membership =
            Membership::from_tables(file.node, file.network).map_err(|(at, message)| {
                ConfigError { line: at.map(|at| line_of(text, at)), message: message.into() }
            })?;
        Ok(Config {
            roles,
            role_policy,
            ip: IpConfig::of((file.ip, file.filter), &mut membership, |at| line_of(text, at))?,
            membership,
            interface,
            pool: PoolConfig::from_table(file.pool, |at| line_of(text, at))?,
            regions: regions::from_tables(file.region, |at| line_of(text, at))?,
            supervisor: Supervising::from_table(file.supervisor, |at| line_of(text, at))?,
            is_guarded: file.domain.guard,
            package_limits: Most::from_table(file.packages, |at| line_of(text, at))?,
            tick: period(hz),
            tick_workers: file.timer.tick_workers,
            longest_slack: Duration::from_millis(slack.into()),
            polls: file.idle.polls,
            dedicated: file.idle.dedicated.map_or_else(These::default, |cores| These {
                line: line_of(text, cores.span().start),
                cores: cores.into_inner().into_iter().map(CoreId).collect(),
            }),
            services: file
                .services
                .into_iter()
                .map(|(name, cores)| {
                    let line = line_of(text, name.span().start);
                    let cores = cores.into_iter().map(CoreId).collect();
                    (name.into_inner(), These { cores, line })
                })
                .collect(),
            packages: Store::Empty,
        })
    }
}

fn period(hz: u32) -> Option<Duration> {
    (hz > 0).then(|| Duration::from_secs(1) / hz)
}

fn names() -> String {
    Role::ALL.map(Role::name).join(", ")
}

/// The line, counted from one, of the byte at `offset`.
fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

fn one_line(message: &str) -> String {
    message.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        format!("{}", Config::parse(text).expect_err("a bad file"))
    }

    #[test]
    fn what_would_fill_the_heap_of_the_boot_path_is_refused() {
        let comments = "# as long a line as people write into such files ####\n".repeat(300);
        assert!(Config::parse(&comments).is_ok());
        assert_eq!(error(&comments.repeat(2)), "it is longer than 16384 bytes");
        assert!(Config::parse(&"\n".repeat(bounds::MAX_TOKENS - 1)).is_ok());
        let full = "line 4097: there are 4096 names, numbers and signs before this";
        assert_eq!(error(&"\n".repeat(MAX_BYTES)), full);
        let tables = "[a.b.c]\n".repeat(500);
        assert_eq!(error(&tables), "line 43: there are 128 brackets and dots before this");
        let ids: Vec<String> = (0..256).map(|id| format!("{id}")).collect();
        let roles = ["network", "disk", "worker"].map(|it| format!("{it} = [{}]", ids.join(", ")));
        assert!(Config::parse(&format!("[roles]\n{}\n", roles.join("\n"))).is_ok());
    }

    #[test]
    fn a_policy_of_roles_is_a_name_beside_them() {
        let policy = |text: &str| Config::parse(text).map(|it| it.role_policy.map(|it| it.name));
        let text = "[roles]\nworker = 2\npolicy = \"exact\"\n";
        assert_eq!(policy(text), Ok(Some("exact".into())));
        assert!(Config::parse("[roles]\npolicy = \"greedy\"\n").unwrap().roles.is_empty());
        assert_eq!(policy("[roles]\npolicy = \"static\"\n"), Ok(None));
        let known = ["exact"].into_iter();
        let config = Config::parse("[roles]\n\npolicy = \"exakt\"\n").unwrap();
        let unknown = format!("{}", config.check_role_policy(known).unwrap_err());
        assert_eq!(unknown, "line 3: unknown policy `exakt` of roles; there are exact, static");
        for (text, part) in [
            ("[roles]\npolicy = 2\n", "policy is a name"),
            ("[roles]\nworker = \"exact\"\n", "neither a number of cores nor a list"),
        ] {
            assert!(error(text).contains(part), "{text}");
        }
    }

    #[test]
    fn an_empty_file_is_the_default() {
        let config = Config::parse("").unwrap();
        assert_eq!(config.tick, Some(Duration::from_millis(100)));
        assert!(!config.tick_workers);
        assert_eq!(config.longest_slack, Duration::from_secs(1));
        assert_eq!(config.polls, 0);
        assert!(config.roles.is_empty());
    }

    #[test]
    fn every_setting_is_read() {
        let text = "[roles]\nmanagement = 1\nworker = [2, 3]\n\n\
                    [timer]\ntick_hz = 0\ntick_workers = true\nlongest_slack_ms = 5\n\n\
                    [idle]\npolls = 7\ndedicated = [3]\n";
        let config = Config::parse(text).unwrap();
        let managers = Placed { cores: Cores::Count(1), line: 2 };
        assert_eq!(config.roles.get(&Role::Management), Some(&managers));
        let workers = Placed { cores: Cores::These([2, 3].into()), line: 3 };
        assert_eq!(config.roles.get(&Role::Worker), Some(&workers));
        assert_eq!(config.tick, None);
        assert!(config.tick_workers);
        assert_eq!(config.longest_slack, Duration::from_millis(5));
        assert_eq!(config.polls, 7);
        assert!(config.is_dedicated(CoreId(3)) && !config.is_dedicated(CoreId(0)));
    }

    #[test]
    fn an_interface_is_kept_with_its_line() {
        let config = Config::parse("[network]\nunsealed = true\ninterface = \"tap:a\"\n").unwrap();
        assert_eq!(config.interface, Some(Named { name: "tap:a".into(), line: 3 }));
        assert_eq!(Config::parse("").unwrap().interface, None);
    }

    #[test]
    fn services_have_their_cores() {
        let config = Config::parse("[services]\necho = [2]\ntime = []\n").unwrap();
        let offers = |core, name| config.offers(CoreId(core)).get(name).copied();
        assert_eq!((offers(2, "echo"), offers(1, "echo")), (Some(true), Some(false)));
        assert_eq!((offers(2, "time"), offers(2, "log")), (Some(false), None));
        assert_eq!(config.check_services(["time", "echo"].into_iter()), Ok(()));
        let unknown = config.check_services(["time", "log"].into_iter()).unwrap_err();
        let said = "line 2: unknown service `echo`; the services are time, log";
        assert_eq!(format!("{unknown}"), said);
        let error = config.roles(2).unwrap_err();
        assert_eq!(format!("{error}"), "line 2: echo names core 2, but the node has 2");
    }

    #[test]
    fn a_protocol_is_on_one_network_core() {
        let said = |bulk: &str| {
            let text = format!("[roles]\nnetwork = [1, 2]\n[services]\nbulk = {bulk}\n");
            let config = Config::parse(&text).unwrap();
            let roles = config.roles(4).unwrap();
            let checked = config.check_protocols(["bulk", "network"].into_iter(), &roles);
            checked.map_err(|error| format!("{error}"))
        };
        assert_eq!((said("[1]"), said("[2]"), said("[]")), (Ok(()), Ok(()), Ok(())));
        assert_eq!(said("[3]"), Err("line 4: bulk names c3, which is no network core".into()));
        assert_eq!(said("[2, 1]"), Err("line 4: bulk names several cores; one runs it".into()));
    }

    #[test]
    fn errors_name_their_line() {
        assert_eq!(
            error("[roles]\nmanagement = 1\nwroker = 2\n"),
            "line 3: unknown role `wroker`; the roles are management, network, disk, worker"
        );
        assert_eq!(
            error("[timer]\ntick_hz = 1001"),
            "line 2: tick_hz is 1001; it can be 0 to 1000"
        );
        let slack = error("[timer]\n\nlongest_slack_ms = 60001\n");
        assert_eq!(slack, "line 3: longest_slack_ms is 60001; it can be 0 to 60000");
        assert!(error("[timer]\n\ntick = 3\n").starts_with("line 3: unknown field `tick`"));
        assert!(error("[roles\n").starts_with("line 1: "));
        assert!(error("[roles]\nworker = \"all\"\n").starts_with("line 2: "));
        for worker in ["-1", "[70000]", "[-1]", "1.5", "\"all\""] {
            let said = error(&format!("[roles]\nworker = {worker}\n"));
            assert!(said.starts_with("line 2: neither a number of cores nor"), "{said}");
        }
    }

    #[test]
    fn what_nests_too_deeply_is_refused_before_it_is_parsed() {
        let refused = "line 2: nested deeper than 4 levels";
        for (open, close) in [("[", "]"), ("{a=", "}"), ("[\n", "]")] {
            let deep = |depth| format!("[a]\nb = {}{}", open.repeat(depth), close.repeat(depth));
            assert!(error(&deep(5)).ends_with("nested deeper than 4 levels"));
            assert!(error(&deep(10_000)).ends_with("nested deeper than 4 levels"));
            assert!(!error(&deep(4)).contains("nested"));
        }
        assert_eq!(error(&format!("[idle]\n{}b = 1", "a.".repeat(5))), refused);
        let flat = "# [[[[[[ a.b.c.d.e.f.g\n[roles]\n'[[[[[[' = 1";
        assert!(error(flat).starts_with("line 3: unknown role"));
    }

    #[test]
    fn any_text_gives_a_configuration_or_an_error() {
        let seed = "[roles]\nmanagement = [0]\nworker = 3\n[timer]\ntick_hz = 9\n[idle]\npolls=1\n";
        for cut in 0..seed.len() {
            for byte in [0u8, b'"', b'[', b'=', b'9', 0x7f] {
                let mut text: Vec<u8> = seed.into();
                text[cut] = byte;
                text.truncate(cut + 20);
                if let Ok(text) = core::str::from_utf8(&text) {
                    let lines = text.lines().count();
                    if let Err(error) = Config::parse(text) {
                        assert!(error.line.is_none_or(|line| line <= lines + 1), "{error}");
                    }
                }
            }
        }
    }
}
