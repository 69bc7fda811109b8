//! The hand of the simulator: a worker core of the supervisor's node, which asks the services that
//! `nile domain` asks.

use std::time::Duration;

use nile_abi::{CoreId, NodeId, Status};
use nile_bosml::Bytes;
use nile_interfaces::core_manager::{CoreManagerClient, CorePhase, SharedUnits};
use nile_interfaces::domains::{
    DomainChange, DomainEntry, DomainWanted, DomainsClient, DomainsOfMachine, SharedEntry,
};
use nile_interfaces::gossip::GossipClient;
use nile_interfaces::packages::PackagesClient;
use nile_kernel::Core;
use nile_platform_sim::SimMachine;
use nile_registry::Place;
use nile_scenarios::domain_steps::{Domain, Hand, Package, Resize, Seen, Wanted};
use nile_services::ackermann::AckermannClient;
use nile_stl::{CallError, CallResult, Client};

use super::{config_of, until};

pub struct SimHand {
    pub core: Core<SimMachine>,
    /// What each domain that was made was to have.
    pub made: Vec<DomainWanted>,
}

fn told(error: CallError) -> String {
    error.to_string()
}

fn at(node: u32, core: u16) -> Place {
    Place { node: NodeId(node), core: CoreId(core) }
}

/// The node of the domain in a place.
fn node_of(place: u8) -> u32 {
    u32::from(place) + 1
}

impl SimHand {
    /// A service, which may not be known yet.
    async fn service<C: Client>(&self, at: Place) -> Result<C, String> {
        let stl = self.core.stl();
        let find = async || stl.find_at(at, C::INTERFACE.name).await;
        until(&self.core, find).await.map(|place| C::at(&stl, place)).map_err(told)
    }

    pub async fn domains(&self) -> Result<DomainsClient, String> {
        self.service(CoreId::BOOT.into()).await
    }

    async fn machine(&self) -> Result<DomainsOfMachine, String> {
        // The managing core may just begin anew.
        let stl = self.core.stl();
        let list = async || DomainsClient::find_at(&stl, CoreId::BOOT).await?.list().await;
        until(&self.core, list).await.map_err(told)
    }

    async fn entry(&self, name: &str) -> Result<DomainEntry, String> {
        let found = self.machine().await?.domains.into_iter().find(|it| it.name == name);
        found.ok_or_else(|| format!("no domain {name}"))
    }

    /// A service of a core of a domain.
    pub async fn of<C: Client>(&self, domain: &str, core: u16) -> Result<C, String> {
        self.service(at(node_of(self.entry(domain).await?.place), core)).await
    }

    pub async fn shared(&self, name: &str) -> Result<SharedEntry, String> {
        let found = self.machine().await?.shared.into_iter().find(|it| it.name == name);
        found.ok_or_else(|| format!("nothing is shared as {name}"))
    }

    /// Has something go on while this one waits no longer than so.
    async fn begin(&self, work: impl Future<Output = ()> + 'static, after: Duration) {
        drop(self.core.spawn(work));
        self.core.sleep(after).await;
    }
}

async fn make(domains: &DomainsClient, wanted: DomainWanted) -> CallResult<()> {
    let place = domains.plan(wanted.clone()).await?.place;
    domains.create(wanted, place, config_of(node_of(place))).await.map(drop)
}

fn wanted_by(wanted: &Wanted<'_>) -> DomainWanted {
    let Wanted { name, cores, least, most, units, most_units, priority, has_packages: _ } = *wanted;
    DomainWanted {
        name: name.into(),
        cores,
        units,
        least_cores: least,
        most_cores: most,
        most_units,
        priority,
        disk: false,
    }
}

fn change(to: Resize) -> DomainChange {
    let Resize { cores, units, force } = to;
    DomainChange { cores, units, force, ..DomainChange::default() }
}

impl Hand for SimHand {
    fn moments(&self) -> &'static [Duration] {
        const MOMENTS: &[Duration] = &[
            Duration::ZERO,
            Duration::from_micros(200),
            Duration::from_micros(600),
            Duration::from_millis(1),
            Duration::from_millis(3),
            Duration::from_millis(10),
        ];
        MOMENTS
    }

    async fn create(&mut self, wanted: &Wanted<'_>) -> Result<(), String> {
        let wanted = wanted_by(wanted);
        make(&self.domains().await?, wanted.clone()).await.map_err(told)?;
        self.made.retain(|it| it.name != wanted.name);
        self.made.push(wanted.clone());
        // As `nile` does, it waits until the domain is heard.
        let (stl, at) = (self.core.stl(), at(node_of(self.entry(&wanted.name).await?.place), 0));
        let compute = async || AckermannClient::find_at(&stl, at).await?.compute(2, 3).await;
        until(&self.core, compute).await.map(drop).map_err(told)
    }

    async fn begin_to_create(&mut self, wanted: &Wanted<'_>, after: Duration) {
        let (domains, wanted) = (self.domains().await, wanted_by(wanted));
        let work = async move {
            if let Ok(domains) = domains {
                drop(make(&domains, wanted).await);
            }
        };
        self.begin(work, after).await;
    }

    async fn resize(&mut self, name: &str, to: Resize) -> Result<(), String> {
        self.domains().await?.resize(name.into(), change(to)).await.map(drop).map_err(told)
    }

    async fn begin_to_resize(&mut self, name: &str, to: Resize, after: Duration) {
        let (domains, name) = (self.domains().await, name.to_string());
        let work = async move {
            if let Ok(domains) = domains {
                drop(domains.resize(name, change(to)).await);
            }
        };
        self.begin(work, after).await;
    }

    async fn lend(
        &mut self,
        (from, to): (&str, &str),
        cores: u16,
        span: Duration,
    ) -> Result<(), String> {
        let (domains, millis) = (self.domains().await?, span.as_millis() as u32);
        domains.lend(from.into(), to.into(), cores, millis).await.map_err(told)
    }

    async fn recall(&mut self, name: &str) -> Result<(), String> {
        self.domains().await?.recall(name.into()).await.map_err(told)
    }

    async fn destroy(&mut self, name: &str, force: bool) -> Result<(), String> {
        self.domains().await?.destroy(name.into(), force).await.map_err(told)
    }

    async fn restart(&mut self, name: &str) -> Result<(), String> {
        let again = self.made.iter().find(|it| it.name == name).cloned();
        let again = again.ok_or_else(|| format!("no domain {name}"))?;
        self.destroy(name, false).await?;
        make(&self.domains().await?, again).await.map_err(told)
    }

    async fn share(&mut self, name: &str, units: u32, with: &[&str]) -> Result<(), String> {
        for domain in with {
            let place = self.entry(domain).await?.place;
            let shared =
                self.domains().await?.share(name.into(), units, vec![domain.to_string()]).await;
            let shared = shared.map_err(told)?;
            let share = Some(SharedUnits { first: shared.first, place });
            let manager = self.of::<CoreManagerClient>(domain, 0).await?;
            let bytes = u64::from(units) << 21;
            manager.make_region(name.into(), bytes, share).await.map_err(told)?;
        }
        Ok(())
    }

    async fn unshare(&mut self, name: &str, from: &[&str]) -> Result<(), String> {
        let places = self.shared(name).await?.places;
        let all = self.machine().await?.domains;
        let has = |it: &&DomainEntry| places.contains(&it.place);
        let having: Vec<String> = all.iter().filter(has).map(|it| it.name.clone()).collect();
        let meant: Vec<String> = match from {
            [] => having.clone(),
            some => some.iter().map(|it| it.to_string()).collect(),
        };
        for domain in meant {
            if !having.contains(&domain) {
                return Err(format!("{domain} does not share {name}"));
            }
            let manager = self.of::<CoreManagerClient>(&domain, 0).await?;
            match manager.drop_region(name.into()).await {
                Err(error) if error.status != Status::NotFound => return Err(told(error)),
                _ => {
                    self.domains().await?.unshare(name.into(), vec![domain]).await.map_err(told)?
                }
            }
        }
        Ok(())
    }

    async fn look(&mut self) -> Result<Seen, String> {
        let machine = self.machine().await?;
        let all = &machine.domains;
        let named = |place: u8| all.iter().find(|it| it.place == place).map(|it| it.name.clone());
        let shared = machine.shared.iter().map(|it| {
            (it.name.clone(), it.places.iter().filter_map(|place| named(*place)).collect())
        });
        let domain = |it: &DomainEntry| Domain {
            name: it.name.clone(),
            cores: it.cores.clone(),
            units: it.units,
        };
        Ok(Seen {
            domains: all.iter().map(domain).collect(),
            free_cores: machine.free_cores.clone(),
            free_units: machine.free_units,
            shared: shared.collect(),
        })
    }

    async fn compute(&mut self, domain: &str, core: u16) -> Result<u64, String> {
        self.of::<AckermannClient>(domain, core).await?.compute(2, 3).await.map_err(told)
    }

    async fn generation(&mut self, domain: &str) -> Result<u64, String> {
        Ok(self.entry(domain).await?.generation.into())
    }

    async fn running(&mut self, domain: &str) -> Result<Vec<(u16, u32)>, String> {
        let cores = self.of::<CoreManagerClient>(domain, 0).await?.list().await.map_err(told)?;
        let run = cores.iter().filter(|it| it.phase == CorePhase::Running);
        Ok(run.map(|it| (it.core, it.generation)).collect())
    }

    async fn knows(&mut self, domain: &str, other: &str) -> Result<bool, String> {
        let other = node_of(self.entry(other).await?.place);
        let gossip = self.of::<GossipClient>(domain, 0).await?;
        let all = gossip.everyone().await.map_err(told)?;
        Ok(all.iter().any(|it| it.identity.node == other))
    }

    async fn end_manager(&mut self, of: Option<&str>) -> Result<(), String> {
        let manager = match of {
            Some(domain) => self.of::<CoreManagerClient>(domain, 0).await?,
            None => self.service::<CoreManagerClient>(CoreId::BOOT.into()).await?,
        };
        // It may be gone before it has answered.
        match manager.end_core(0).await {
            Err(error) if error.status != Status::Dead => Err(told(error)),
            _ => Ok(()),
        }
    }

    async fn start(
        &mut self,
        (domain, core): (&str, u16),
        package: &str,
        argument: &str,
    ) -> Result<(), String> {
        let packages = self.of::<PackagesClient>(domain, core).await?;
        let argument = Bytes::from(argument.as_bytes());
        packages.start(package, argument, 10_000, false).await.map_err(told)
    }

    async fn stop(&mut self, (domain, core): (&str, u16), package: &str) -> Result<(), String> {
        self.of::<PackagesClient>(domain, core).await?.stop(package).await.map_err(told)
    }

    async fn packages(&mut self, (domain, core): (&str, u16)) -> Result<Vec<Package>, String> {
        let all = self.of::<PackagesClient>(domain, core).await?.list().await.map_err(told)?;
        let package = |it: nile_interfaces::packages::PackageState| Package {
            name: it.name,
            begun: it.begun,
            said: it.said,
        };
        Ok(all.into_iter().map(package).collect())
    }

    async fn pause(&mut self, span: Duration) {
        self.core.sleep(span).await;
    }
}
