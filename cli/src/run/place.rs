//! The cluster that a job runs on: the one that is up, or one that is started for it.

use std::env;
use std::path::{Path, PathBuf};
use std::process;

use nile_abi::{CoreId, NodeId, RoleSet};
use nile_interfaces::worker::WorkerClient;
use nile_stl::Client;
use tempfile::TempDir;

use super::args::Usual;
use super::profile::{Host, Profile};
use crate::advice;
use crate::cluster::args::{Kind, Query, Said, Which};
use crate::cluster::folder::{Folder, Node};
use crate::cluster::up::{self, Started};
use crate::data::stores::Stores;
use crate::failure::Failure;
use crate::peer::known;

/// How long a node may take to answer a call.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// Where the disks of a cluster that is started for a job lie, if nobody says: not in memory, as
/// what is below /tmp may be.
const DISKS: &str = "/var/tmp";

/// A cluster that is up, and a peer of it.
pub struct Place {
    /// Its stores, and calls to its nodes.
    pub stores: Stores,
    /// How to name it to other commands.
    pub which: Which,
    /// The machine of each node.
    pub machines: Vec<Kind>,
    /// Bytes of each node's memory that the job may use, if not all.
    pub memory: Option<u64>,
    /// The nodes that it is kept to; none: all of them.
    pub on: Vec<NodeId>,
    /// Whether it is ended after the job.
    pub is_own: bool,
}

/// Where a job runs.
enum Plan {
    /// On the cluster that is up.
    There(Which),
    /// On one that is started for it.
    Own(Which, Profile),
}

fn plan(usual: &Usual, data: u64) -> Result<Plan, Failure> {
    let is_asked_for = usual.machine.is_some() || usual.nodes.is_some();
    if !is_asked_for && (!usual.on.is_empty() || Folder::of(&usual.which)?.path().exists()) {
        return Ok(Plan::There(usual.which.clone()));
    }
    let profile = Profile::of(usual, data, Host::here())?;
    let name = usual.which.cluster.clone().unwrap_or_else(|| format!("run-{}", process::id()));
    Ok(Plan::Own(Which { cluster: Some(name) }, profile))
}

/// Refuses a job with `data` bytes that could not run; the machines of the cluster that would be
/// started for it.
pub fn check(usual: &Usual, data: u64) -> Result<Vec<Kind>, Failure> {
    usual.share.check()?;
    let Plan::Own(which, profile) = plan(usual, data)? else { return Ok(Vec::new()) };
    check_reducers(usual.reducers, profile.workers())?;
    up::check(&profile.up(which, None))?;
    let folder = usual.disk_folder.clone().unwrap_or_else(usual_folder);
    match folder.is_dir() {
        true => profile.check_room(&folder)?,
        false => return Err(Failure::request(format!("there is no folder {}", folder.display()))),
    }
    Ok(profile.kinds().to_vec())
}

/// Where what passes lies if nobody says: not in memory, as what is below /tmp may be.
pub fn usual_folder() -> PathBuf {
    match env::var_os("TMPDIR") {
        Some(given) => given.into(),
        None if Path::new(DISKS).is_dir() => DISKS.into(),
        None => env::temp_dir(),
    }
}

/// Refuses more reduce tasks than there are cores for them.
pub fn check_reducers(reducers: Option<u32>, workers: u32) -> Result<(), Failure> {
    match reducers {
        Some(asked) if asked > workers => Err(Failure::request(format!(
            "--reducers {asked}: there are {workers} worker cores, and each makes one part"
        ))),
        _ => Ok(()),
    }
}

/// Does `job`, which has `data` bytes, on the cluster that is up, or on one that is started for it;
/// that one is ended afterwards, unless it is to be kept and all went well.
pub fn on<T>(
    usual: &Usual,
    data: u64,
    job: impl FnOnce(&mut Place) -> Result<T, Failure>,
) -> Result<T, Failure> {
    check(usual, data)?;
    let (which, own) = match plan(usual, data)? {
        Plan::There(which) => (which, None),
        Plan::Own(which, profile) => (which.clone(), Some(Own::start(usual, which, &profile)?)),
    };
    let memory = usual.memory.filter(|_| own.is_none()).map(|it| it.0);
    let done = Place::join(which, memory, own.is_some()).and_then(|mut place| {
        place.keep_to(&usual.on)?;
        check_reducers(usual.reducers, place.workers())?;
        job(&mut place)
    });
    if let Some(own) = own {
        own.end(usual.keep && done.is_ok())?;
    }
    done
}

/// A cluster that was started for a job. It ends with this.
struct Own {
    cluster: Option<Started>,
    which: Which,
}

impl Own {
    fn start(usual: &Usual, which: Which, profile: &Profile) -> Result<Own, Failure> {
        Failure::at_signals()?;
        let base = usual.disk_folder.clone().unwrap_or_else(usual_folder);
        let cannot = |error| Failure::failed(format!("{}: {error}", base.display()));
        let disks = tempfile::Builder::new().prefix("nile-").tempdir_in(&base).map_err(cannot)?;
        let cluster = Started::begin(&profile.up(which.clone(), Some(disks.path())))?;
        // From here on it goes with the cluster, whoever ends that.
        let _ = TempDir::keep(disks);
        Ok(Own { cluster: Some(cluster), which })
    }

    fn end(mut self, keep: bool) -> Result<(), Failure> {
        match (self.cluster.take(), keep) {
            (Some(cluster), false) => cluster.end(),
            (None, _) => Ok(()),
            (Some(_), true) => {
                let down = advice::named(&self.which, "down", &[]);
                crate::say(format_args!("nile: the cluster is kept; end it with: {down}"));
                Ok(())
            }
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(cluster) = self.cluster.take() {
            let _ = cluster.end();
        }
    }
}

impl Place {
    fn join(which: Which, memory: Option<u64>, is_own: bool) -> Result<Place, Failure> {
        let query = Query { which: which.clone(), json: false, timeout: PATIENCE };
        let stores = Stores::open(&query)?;
        let machines = stores.session.record.nodes.iter().map(|node| node.machine).collect();
        Ok(Place { stores, which, machines, memory, on: Vec::new(), is_own })
    }

    /// Keeps the job to these nodes. If nothing is said, and the cluster has domains, to those of
    /// them that have disks: their supervisor works for nobody.
    fn keep_to(&mut self, said: &[Said]) -> Result<(), Failure> {
        let record = &self.stores.session.record;
        for said in said {
            let place = said.on(&self.which)?;
            if place.core.is_some() {
                let message = format!("--on {place}: a job is kept to nodes; name one, as n2");
                return Err(Failure::request(message));
            }
            let node = record.node(place.node)?;
            if record.disk_of(node).is_none() {
                let name = node.domain.as_ref().map_or(node.name(), |it| it.name.clone());
                return Err(Failure::request(format!(
                    "--on {name}: it has no disk, and jobs run where disks are"
                )));
            }
            self.on.push(place.node);
        }
        if said.is_empty() && record.shared.is_some() {
            let has_disk = |node: &&Node| node.domain.is_some() && record.disk_of(node).is_some();
            self.on = record.nodes.iter().filter(has_disk).map(Node::node).collect();
            if self.on.is_empty() {
                return Err(Failure::request(format!(
                    "no domain has a disk, and jobs run where disks are; make one, as `{} --cores \
                     2 --memory 128M --disk 1G`",
                    advice::named(&self.which, "domain create", &["batch"])
                )));
            }
        }
        self.on.sort();
        self.on.dedup();
        let meant = record.nodes.iter().filter(|it| self.on.contains(&it.node()));
        if !self.on.is_empty() {
            self.machines = meant.map(|node| node.machine).collect();
        }
        Ok(())
    }

    /// Whether a node's workers may work on the job.
    pub fn is_for(&self, node: NodeId) -> bool {
        self.on.is_empty() || self.on.contains(&node)
    }

    /// Worker cores that are not away, of the nodes that live and whose disks can be used.
    pub fn workers(&self) -> u32 {
        let away = self.stores.absent();
        let instances = known::instances(self.stores.session.peer.known());
        let own = instances.iter().filter(|(_, it)| it.name == WorkerClient::INTERFACE.name);
        let is_meant = |node| !away.contains(&node) && self.is_for(node);
        own.filter(|(target, _)| is_meant(target.node)).count() as u32
    }

    /// The cores of the nodes that live, with their roles: node, core, roles.
    pub fn cores(&self) -> Vec<(NodeId, CoreId, RoleSet)> {
        let gossip = self.stores.session.peer.known();
        let nodes = known::living(gossip).map(|member| member.node);
        let of = |node| known::cores(gossip, node).into_iter().map(move |it| (node, it));
        let core = |(node, it): (NodeId, nile_gossip::Core)| {
            (node, CoreId(it.core), RoleSet::from_bits(it.roles))
        };
        nodes.flat_map(of).map(core).collect()
    }

    /// Where what its processes take is found.
    pub fn folder(&self) -> &Path {
        self.stores.session.folder.path()
    }
}
