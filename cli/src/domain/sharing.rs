//! `nile domain share` and `unshare`: memory that domains have at once. The supervisor says which
//! it is, and then each domain makes a region of it, by which its packages find it; a domain has
//! dropped that before the supervisor hears that it shares no more.

use std::time::Duration;

use nile_abi::Status;
use nile_domain::{Name, Share, UNIT};
use nile_interfaces::core_manager::{CoreManagerClient, SharedUnits};
use nile_interfaces::domains::SharedEntry;
use nile_stl::{CallError, CallResult, Client};
use serde_json::{Value, json};

use super::carry::{Carrier, node_of_place};
use super::{carry, cores, pc, show};
use crate::cluster::args::Which;
use crate::cluster::folder::{Claim, Folder, Node, Record};
use crate::failure::Failure;
use crate::peer::Peer;

/// How long a domain may take to make a region, or to drop one.
const LIMIT: Duration = Duration::from_secs(5);

/// The supervisor of a machine, while a command has its claim.
enum Supervising {
    Hosted(Box<Carrier>),
    Pc { folder: Folder, record: Box<Record>, _claim: Claim },
}

/// Memory that domains share, and where.
pub struct Shared {
    name: String,
    first: u32,
    units: u32,
    places: Vec<u8>,
}

/// Has domains share so many units of memory, one after the other; what is shared then. If one
/// refuses, those before it share it.
pub fn share(which: &Which, name: Name, units: u32, with: &[Name]) -> Result<Value, Failure> {
    let mut supervising = Supervising::begin(which)?;
    let nodes = with.iter().map(|name| supervising.node(*name)).collect::<Result<Vec<_>, _>>()?;
    let before = supervising.shared()?.into_iter().find(|it| it.name == name.as_str());
    let had = before.map(|it| it.places).unwrap_or_default();
    let mut document = Value::Null;
    for (domain, node) in with.iter().zip(&nodes) {
        let shared = supervising.share(name, units, &[*domain])?;
        let place = shared.place_of(node);
        let (bytes, first) = (u64::from(units) * UNIT, shared.first);
        let share = Some(SharedUnits { first, place });
        let make =
            async |it: CoreManagerClient| it.make_region(name.to_string(), bytes, share).await;
        if let Err(untold) = supervising.tell(node, make) {
            // Who did not answer may have it, and who had it has it still.
            if untold.is_refused && !had.contains(&place) {
                supervising.unshare(name, &[*domain])?;
            }
            return Err(untold.failure);
        }
        document = shared.document(supervising.record());
    }
    Ok(document)
}

/// Has these domains, or all, share a piece of memory no more.
pub fn unshare(which: &Which, name: Name, from: &[Name]) -> Result<(), Failure> {
    let mut supervising = Supervising::begin(which)?;
    let all = supervising.shared()?;
    let Some(shared) = all.into_iter().find(|it| it.name == name.as_str()) else {
        return Err(Failure::request(format!("nothing is shared as {name}")));
    };
    let mut nodes = shared.nodes(supervising.record());
    if !from.is_empty() {
        let meant =
            from.iter().map(|name| supervising.node(*name)).collect::<Result<Vec<_>, _>>()?;
        if let Some(other) = meant.iter().find(|it| !nodes.iter().any(|node| node.id == it.id)) {
            let domain = other.domain.as_ref().map_or("it", |it| &it.name);
            return Err(Failure::request(format!("{domain} does not share {name}")));
        }
        nodes = meant;
    }
    for node in &nodes {
        let forget = async |it: CoreManagerClient| match it.drop_region(name.to_string()).await {
            // Who began anew has none.
            Err(CallError { status: Status::NotFound, .. }) => Ok(()),
            said => said,
        };
        if supervising.runs(node) {
            supervising.tell(node, forget).map_err(|untold| untold.failure)?;
        }
        let domain = node.domain.as_ref().and_then(|it| it.name.parse().ok());
        domain.map_or(Ok(()), |domain: Name| supervising.unshare(name, &[domain]))?;
    }
    // A domain that is no node of the cluster any more may be left.
    match from.is_empty() && supervising.shared()?.iter().any(|it| it.name == name.as_str()) {
        true => supervising.unshare(name, from),
        false => Ok(()),
    }
}

/// Why a domain did not do what it was told.
struct Untold {
    failure: Failure,
    /// Whether it has said that it does not: else it may have.
    is_refused: bool,
}

impl Supervising {
    fn begin(which: &Which) -> Result<Supervising, Failure> {
        let (folder, record) = carry::folder_with_supervisor(which)?;
        Failure::at_signals()?;
        if !pc::is_one(&record) {
            return Ok(Supervising::Hosted(Box::new(Carrier::begin(folder)?)));
        }
        let (claim, record) = pc::claim(&folder)?;
        Ok(Supervising::Pc { folder, record: Box::new(record), _claim: claim })
    }

    fn folder(&self) -> &Folder {
        match self {
            Supervising::Hosted(carrier) => carrier.folder(),
            Supervising::Pc { folder, .. } => folder,
        }
    }

    fn record(&self) -> &Record {
        match self {
            Supervising::Hosted(carrier) => carrier.record(),
            Supervising::Pc { record, .. } => record,
        }
    }

    fn node(&self, name: Name) -> Result<Node, Failure> {
        self.record().domain(name.as_str()).cloned()
    }

    fn share(&mut self, name: Name, units: u32, with: &[Name]) -> Result<Shared, Failure> {
        match self {
            Supervising::Hosted(carrier) => carrier.share(name, units, with).map(Shared::from),
            Supervising::Pc { folder, record, .. } => {
                pc::share(folder, record, name, units, with).map(Shared::from)
            }
        }
    }

    fn unshare(&mut self, name: Name, from: &[Name]) -> Result<(), Failure> {
        match self {
            Supervising::Hosted(carrier) => carrier.unshare(name, from),
            Supervising::Pc { folder, record, .. } => pc::unshare(folder, record, name, from),
        }
    }

    fn shared(&self) -> Result<Vec<Shared>, Failure> {
        match self {
            Supervising::Hosted(carrier) => {
                Ok(carrier.ledger().shares().map(Shared::from).collect())
            }
            Supervising::Pc { folder, record, .. } => {
                Ok(pc::shared(folder, record)?.into_iter().map(Shared::from).collect())
            }
        }
    }

    /// Whether a domain can be told anything: one of a PC that has ended shares nothing.
    fn runs(&self, node: &Node) -> bool {
        match self {
            Supervising::Hosted(carrier) => carrier.runs(node),
            Supervising::Pc { .. } => true,
        }
    }

    /// Asks the managing core of a domain for something.
    fn tell(
        &self,
        node: &Node,
        ask: impl AsyncFnOnce(CoreManagerClient) -> CallResult<()>,
    ) -> Result<(), Untold> {
        let unknown = |failure| Untold { failure, is_refused: false };
        let mut peer = Peer::join(self.folder(), self.record()).map_err(unknown)?;
        let target = cores::find(&mut peer, node, CoreManagerClient::INTERFACE.name);
        let target = target.map_err(unknown)?;
        let said = peer.work(LIMIT, async |clients| ask(clients.at(target)).await);
        let said = said.map_err(unknown)?;
        let name = node.domain.as_ref().map_or("the domain", |it| &it.name);
        said.map_err(|failed| match failed.status {
            Status::Exists | Status::Invalid | Status::NoMemory | Status::Denied => {
                let failure = Failure::request(format!("{name}: {}", failed.message));
                Untold { failure, is_refused: true }
            }
            _ => unknown(Failure::failed(format!("{name}: {failed}"))),
        })
    }
}

impl Shared {
    fn place_of(&self, node: &Node) -> u8 {
        let is_its = |place: &u8| node_of_place(*place) == node.id;
        self.places.iter().copied().find(is_its).unwrap_or_default()
    }

    fn nodes(&self, record: &Record) -> Vec<Node> {
        let has = |node: &&Node| self.places.iter().any(|place| node_of_place(*place) == node.id);
        record.nodes.iter().filter(has).cloned().collect()
    }

    /// The domains that have it.
    fn domains(&self, record: &Record) -> Vec<String> {
        let nodes = self.nodes(record).into_iter();
        nodes.filter_map(|node| Some(node.domain?.name)).collect()
    }

    /// As programs read it.
    pub fn document(&self, record: &Record) -> Value {
        json!({
            "name": self.name,
            "memory": show::memory(self.units).0,
            "domains": self.domains(record),
        })
    }

    /// As people read it, in the table of domains.
    pub fn row(&self, record: &Record) -> Vec<String> {
        let none = || String::from("-");
        let memory = show::memory(self.units).to_string();
        let domains = self.domains(record).join(",");
        vec![self.name.clone(), domains, "shared".into(), none(), none(), memory, none()]
    }
}

impl From<Share> for Shared {
    fn from(share: Share) -> Shared {
        Shared {
            name: share.name.to_string(),
            first: share.extent.start,
            units: share.extent.count,
            places: share.users().collect(),
        }
    }
}

impl From<SharedEntry> for Shared {
    fn from(entry: SharedEntry) -> Shared {
        let SharedEntry { name, first, units, places } = entry;
        Shared { name, first, units, places }
    }
}
