//! The transport layer of one core, or of one package: its services, and calls to any service.

use alloc::format;
use alloc::rc::{Rc, Weak};
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{CoreId, Generation, Instant, Status};
use nile_order::SortedMap;
use nile_policy::Subject;
use nile_registry::{Caller as Binder, Layer, Place as At};

use crate::calls::{Calls, NEVER};
use crate::documents::Documents;
use crate::host::{Directory, Gateway, Host, Place, Upstream};
use crate::quality::Measures;
use crate::serving::Serving;
use crate::{
    CallError, CallResult, Described, Half, Origin, Published, Registration, ServiceNumber,
};

/// How long a call waits that says nothing about it.
pub const DEFAULT_PATIENCE: Duration = Duration::from_secs(10);

/// The number of the first service that a core publishes: on the managing core, the registry.
pub const FIRST_SERVICE: ServiceNumber = ServiceNumber(1);

/// An instance on this core.
pub(crate) struct Local {
    pub published: Published,
    pub place: Place,
    /// Until it is unpublished.
    pub live: Cell<bool>,
    pub half: Half,
    /// By what this core's policies know it.
    pub subject: Subject,
}

/// The transport layer, as one service or program uses it. Cheap to clone.
#[derive(Clone)]
pub struct Stl {
    pub(crate) core: Rc<Inner>,
    binder: Binder,
    /// Who makes calls.
    pub(crate) origin: Origin,
    patience: Duration,
}

pub(crate) struct Inner {
    pub host: Rc<dyn Host>,
    numbers: RefCell<SortedMap<ServiceNumber, Rc<Local>>>,
    /// The one that was looked for last is the first. A core has a few tens, most of them with
    /// names of different lengths: looking at one after the other is quicker than a tree.
    names: RefCell<Vec<(String, Rc<Local>)>>,
    next: Cell<u16>,
    pub calls: Rc<Calls>,
    pub serving: Rc<Serving>,
    /// Told of every core whose incarnation ended.
    pub mourners: RefCell<Vec<Mourner>>,
    /// Whether the services of this core take no calls of others.
    pub is_withdrawn: Cell<bool>,
    engaged: Rc<Cell<usize>>,
    /// Services of this core that the directory is not to know.
    hidden: RefCell<Vec<Place>>,
    directory: RefCell<Option<Rc<dyn Directory>>>,
    gateway: RefCell<Option<Rc<dyn Gateway>>>,
    pub upstream: Option<Rc<dyn Upstream>>,
    /// Where services of this node were found, until one is not there any more.
    found: RefCell<SortedMap<String, Place>>,
    pub documents: Documents,
    pub measures: Measures,
    /// What services of this core have in common.
    shared: RefCell<Vec<Weak<dyn Any>>>,
}

/// What keeps a core from leaving as planned, as long as it is there.
#[derive(Debug)]
#[must_use = "the core may leave once it is dropped"]
pub struct Engaged(Rc<Cell<usize>>);

impl Drop for Engaged {
    fn drop(&mut self) {
        self.0.update(|it| it.saturating_sub(1));
    }
}

/// Who is told of a core whose incarnation ended.
pub(crate) type Mourner = Rc<dyn Fn(CoreId, Generation)>;

/// Where a name leads.
#[derive(Clone)]
pub(crate) enum Resolved {
    /// To an instance here.
    Here(Rc<Local>),
    /// To another core.
    At(Place),
    /// To the kernel beneath this package.
    Up,
}

/// How long until other nodes have heard, as a rule, of what the directory has no longer.
const HEARSAY: Duration = Duration::from_millis(20);

impl Stl {
    /// The transport layer of a core's kernel.
    pub fn kernel(host: Rc<dyn Host>) -> Stl {
        Stl::new(host, None, Binder::Operator)
    }

    /// The transport layer of a package, over its kernel's.
    pub fn user(host: Rc<dyn Host>, upstream: Rc<dyn Upstream>) -> Stl {
        Stl::new(host, Some(upstream), Binder::User)
    }

    fn new(host: Rc<dyn Host>, upstream: Option<Rc<dyn Upstream>>, binder: Binder) -> Stl {
        let inner = Inner {
            host,
            numbers: RefCell::default(),
            names: RefCell::default(),
            next: Cell::new(FIRST_SERVICE.0),
            calls: Rc::new(Calls::new()),
            serving: Rc::default(),
            mourners: RefCell::default(),
            is_withdrawn: Cell::new(false),
            engaged: Rc::default(),
            hidden: RefCell::default(),
            directory: RefCell::default(),
            gateway: RefCell::default(),
            upstream,
            found: RefCell::default(),
            documents: Documents::default(),
            measures: Measures::new(),
            shared: RefCell::default(),
        };
        let origin = if binder == Binder::User { Origin::Package } else { Origin::Kernel };
        Stl { core: Rc::new(inner), binder, origin, patience: DEFAULT_PATIENCE }
    }

    /// The same, for a caller of another standing: its calls are held to the rule of the layers.
    #[must_use]
    pub fn acting_as(&self, binder: Binder) -> Stl {
        Stl { binder, ..self.clone() }
    }

    /// The same, for the package on this core.
    #[must_use]
    pub fn for_package(&self) -> Stl {
        Stl { binder: Binder::User, origin: Origin::Package, ..self.clone() }
    }

    /// The same, for whom of another node this core passes calls on.
    #[must_use]
    pub fn on_behalf_of(&self, origin: Origin) -> Stl {
        Stl { origin, ..self.clone() }
    }

    /// The same, with calls that wait so long.
    #[must_use]
    pub fn with_patience(&self, patience: Duration) -> Stl {
        Stl { patience, ..self.clone() }
    }

    /// Where services of other cores are looked for.
    pub fn set_directory(&self, directory: Rc<dyn Directory>) {
        *self.core.directory.borrow_mut() = Some(directory);
    }

    /// How services of other nodes are called.
    pub fn set_gateway(&self, gateway: Rc<dyn Gateway>) {
        *self.core.gateway.borrow_mut() = Some(gateway);
    }

    /// The way to other nodes, if this node is one of a cluster.
    pub(crate) fn gateway(&self) -> Option<Rc<dyn Gateway>> {
        self.core.gateway.borrow().clone()
    }

    /// Has `told` called whenever the incarnation of a core that this one had a link with ends.
    pub fn on_death(&self, told: impl Fn(CoreId, Generation) + 'static) {
        self.core.mourners.borrow_mut().push(Rc::new(told));
    }

    /// The core beneath.
    pub fn host(&self) -> &Rc<dyn Host> {
        &self.core.host
    }

    /// The one `T` that the services of this core have in common, as long as one of them keeps it;
    /// `make` gives it to the first that asks.
    pub fn shared<T: Any>(&self, make: impl FnOnce() -> CallResult<Rc<T>>) -> CallResult<Rc<T>> {
        let known: Vec<Rc<dyn Any>> =
            self.core.shared.borrow().iter().filter_map(Weak::upgrade).collect();
        if let Some(known) = known.into_iter().find_map(|it| it.downcast().ok()) {
            return Ok(known);
        }
        let made = make()?;
        let weak: Weak<T> = Rc::downgrade(&made);
        let mut shared = self.core.shared.borrow_mut();
        shared.retain(|it| it.strong_count() > 0);
        shared.push(weak);
        Ok(made)
    }

    /// How many calls services here work on, and how many calls were made here that have not ended.
    pub fn open_calls(&self) -> (usize, usize) {
        (self.core.serving.len(), self.core.calls.len())
    }

    /// Something is under way here besides calls: this core does not leave as planned before that
    /// is dropped.
    pub fn engage(&self) -> Engaged {
        self.core.engaged.update(|it| it + 1);
        Engaged(self.core.engaged.clone())
    }

    /// How much of that there is.
    pub fn engaged(&self) -> usize {
        self.core.engaged.get()
    }

    /// When a call that is made now stops waiting. In a package the kernel beneath keeps the time,
    /// so that a call within the package need not ask for it.
    pub fn deadline(&self) -> Instant {
        match self.core.upstream {
            Some(_) => NEVER,
            None => self.core.host.now() + self.patience,
        }
    }

    /// How long a call waits.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// Makes a service callable on this core. `Exists` if one of this name is here already,
    /// `NoMemory` when all numbers of this incarnation are used up.
    pub fn install(
        &self,
        registration: &'static Registration,
        make: fn(&Stl) -> Half,
    ) -> CallResult<Place> {
        self.install_as(Published::Linked(registration), |stl, _| make(stl))
    }

    fn install_as(
        &self,
        published: Published,
        make: impl FnOnce(&Stl, Place) -> Half,
    ) -> CallResult<Place> {
        let name = published.name();
        if self.core.names.borrow().iter().any(|(known, _)| known == name) {
            return Err(CallError::new(Status::Exists, format!("{name} is on this core already")));
        }
        let number = self.core.next.get();
        let next = number.checked_add(1);
        self.core.next.set(next.ok_or(CallError::new(
            Status::NoMemory,
            "all service numbers of this core are used up until it restarts",
        ))?);
        let (host, number) = (&self.core.host, ServiceNumber(number));
        let (core, generation) = (host.core(), host.generation());
        let place = Place { node: Place::HERE, core, generation, number };
        // What it starts is its own.
        let subject = host.subject(name);
        let before = host.act_as(subject);
        let half = make(&self.acting_as(Binder::Service(published.layer())), place);
        host.act_as(before);
        let name = String::from(name);
        let local = Rc::new(Local { published, place, live: Cell::new(true), half, subject });
        self.core.numbers.borrow_mut().insert(number, local.clone());
        self.core.names.borrow_mut().push((name, local));
        Ok(place)
    }

    /// Makes a service callable on this core and tells the node. As [`Stl::install`], or what the
    /// directory says; then it is not callable.
    pub async fn publish(
        &self,
        registration: &'static Registration,
        make: impl FnOnce(&Stl) -> Half,
    ) -> CallResult<Place> {
        self.publish_as(Published::Linked(registration), |stl, _| make(stl)).await
    }

    /// The same for a service that is described at run time; `make` gets its place.
    pub async fn publish_described(
        &self,
        described: Described,
        make: impl FnOnce(Place) -> Half,
    ) -> CallResult<Place> {
        let name = &described.schema.name;
        if self.core.directory.borrow().as_ref().is_some_and(|it| it.is_reserved(name)) {
            let message = format!("{name} is a service of the node");
            return Err(CallError::new(Status::Denied, message));
        }
        let published = Published::Described(Rc::new(described));
        self.publish_as(published, |_, place| make(place)).await
    }

    async fn publish_as(
        &self,
        published: Published,
        make: impl FnOnce(&Stl, Place) -> Half,
    ) -> CallResult<Place> {
        let place = self.install_as(published.clone(), make)?;
        let directory = self.core.directory.borrow().clone();
        if let Some(directory) = directory
            && let Err(error) = directory.publish(published.clone(), place).await
        {
            self.remove(published.name());
            return Err(error);
        }
        Ok(place)
    }

    /// Ends an instance on this core: calls to it end with `Dead` from now on. `NotFound` if
    /// there is none of this name.
    pub async fn unpublish(&self, name: &str) -> CallResult<()> {
        let missing = || CallError::new(Status::NotFound, format!("{name} is not on this core"));
        let local = self.remove(name).ok_or_else(missing)?;
        let directory = self.core.directory.borrow().clone();
        match directory {
            Some(directory) => directory.unpublish(local.place).await,
            None => Ok(()),
        }
    }

    fn remove(&self, name: &str) -> Option<Rc<Local>> {
        let mut names = self.core.names.borrow_mut();
        let at = names.iter().position(|(known, _)| known == name)?;
        let (_, local) = names.swap_remove(at);
        drop(names);
        self.core.numbers.borrow_mut().remove(&local.place.number);
        local.live.set(false);
        Some(local)
    }

    /// The end of the core: drops every service, what they work on, and the directory, which hold
    /// this layer.
    pub fn close(&self) {
        self.core.serving.close();
        let names = core::mem::take(&mut *self.core.names.borrow_mut());
        let numbers = core::mem::take(&mut *self.core.numbers.borrow_mut());
        let directory = self.core.directory.borrow_mut().take();
        let gateway = self.core.gateway.borrow_mut().take();
        let mourners = core::mem::take(&mut *self.core.mourners.borrow_mut());
        drop((names, numbers, directory, gateway, mourners));
    }

    /// Nobody is to find a service of this core any more, until it is [shown](Stl::show); whoever
    /// has found it may call it. `NotFound` if there is none of this name.
    pub async fn hide(&self, name: &str) -> CallResult<()> {
        let missing = || CallError::new(Status::NotFound, format!("{name} is not on this core"));
        let place = self.installed_as(name).ok_or_else(missing)?.place;
        self.core.hidden.borrow_mut().push(place);
        let directory = self.core.directory.borrow().clone();
        match directory {
            Some(directory) => directory.unpublish(place).await,
            None => Ok(()),
        }
    }

    /// It may be found again.
    pub async fn show(&self, name: &str) -> CallResult<()> {
        let missing = || CallError::new(Status::NotFound, format!("{name} is not on this core"));
        let local = self.installed_as(name).ok_or_else(missing)?;
        self.core.hidden.borrow_mut().retain(|place| *place != local.place);
        let directory = self.core.directory.borrow().clone();
        match directory.filter(|_| !self.core.is_withdrawn.get()) {
            Some(directory) => directory.publish(local.published.clone(), local.place).await,
            None => Ok(()),
        }
    }

    /// Nobody is to call the services of this core any more: the directory gives them to nobody,
    /// and when other nodes have heard of that, callers are told *gone*. What is worked on goes on.
    pub async fn withdraw(&self) {
        let directory = self.core.directory.borrow().clone();
        if let Some(directory) = directory {
            for (_, place) in self.findable() {
                // A directory that is not there has nothing of this core.
                let _ = directory.unpublish(place).await;
            }
        }
        if self.gateway().is_some() {
            self.core.host.pause(HEARSAY).await;
        }
        self.core.is_withdrawn.set(true);
    }

    /// They may be called again.
    pub async fn restore(&self) {
        self.core.is_withdrawn.set(false);
        let Some(directory) = self.core.directory.borrow().clone() else { return };
        for (published, place) in self.findable() {
            if let Err(error) = directory.publish(published.clone(), place).await {
                let name = published.name();
                self.core.host.log(format_args!("service {name} is not found again: {error}"));
            }
        }
    }

    /// What is installed here.
    pub fn installed(&self) -> Vec<(Published, Place)> {
        let numbers = self.core.numbers.borrow();
        numbers.values().map(|local| (local.published.clone(), local.place)).collect()
    }

    /// What of that others are to find.
    pub fn findable(&self) -> Vec<(Published, Place)> {
        let mut all = self.installed();
        let hidden = self.core.hidden.borrow();
        all.retain(|(_, place)| !hidden.contains(place));
        all
    }

    /// Where the service of this name is: here if it can be.
    pub(crate) async fn resolve(&self, name: &str) -> CallResult<Resolved> {
        if let Some(resolved) = self.resolve_here(name)? {
            return Ok(resolved);
        }
        let place = self.directory(name)?.find(self.binder, name).await?;
        // An instance of another node is not the nearest for ever: this node's may have ended, and
        // its successor not be found yet.
        if place.is_here() {
            self.core.found.borrow_mut().insert(name.into(), place);
        }
        Ok(Resolved::At(place))
    }

    /// Where the service is, if that is known without asking anybody.
    fn resolve_here(&self, name: &str) -> CallResult<Option<Resolved>> {
        if let Some(local) = self.installed_as(name) {
            self.check_layer(&local.published)?;
            return Ok(Some(Resolved::Here(local)));
        }
        if self.core.upstream.is_some() {
            return Ok(Some(Resolved::Up));
        }
        // The rule of the layers was kept when it was found, by whoever found it.
        let known = self.binder == Binder::Operator;
        Ok(self.core.found.borrow().get(name).filter(|_| known).copied().map(Resolved::At))
    }

    /// The instance of this name on this core.
    #[inline]
    pub(crate) fn installed_as(&self, name: &str) -> Option<Rc<Local>> {
        let names = self.core.names.borrow();
        if let Some((first, local)) = names.first()
            && first == name
        {
            return Some(local.clone());
        }
        drop(names);
        self.search(name)
    }

    #[inline(never)]
    fn search(&self, name: &str) -> Option<Rc<Local>> {
        let mut names = self.core.names.borrow_mut();
        let at = names.iter().position(|(known, _)| known == name)?;
        // Who calls by name calls again.
        names.swap(0, at);
        Some(names[0].1.clone())
    }

    /// The instance of a service on one core, of any node. `NotFound` if there is none.
    pub async fn find_at(&self, at: impl Into<At>, service: &str) -> CallResult<Place> {
        self.directory(service)?.find_at(self.binder, at.into(), service).await
    }

    /// Tells the node how instances elsewhere were found to serve since it was told last; waits
    /// until it has heard. It is told now and then by itself: this is for who is about to ask.
    pub async fn report_quality(&self) -> CallResult<()> {
        let Some(directory) = self.core.directory.borrow().clone() else { return Ok(()) };
        let news = self.core.measures.news(&*self.core.host);
        if news.is_empty() {
            return Ok(());
        }
        directory.observe(news).await
    }

    fn directory(&self, service: &str) -> CallResult<Rc<dyn Directory>> {
        let missing = || CallError::new(Status::NotFound, format!("no service {service}"));
        self.core.directory.borrow().clone().ok_or_else(missing)
    }

    /// The instance here with this number, if it is the one that is meant.
    pub(crate) fn local(&self, place: Place) -> Option<Rc<Local>> {
        let host = &self.core.host;
        if !place.is_here() || place.core != host.core() || place.generation != host.generation() {
            return None;
        }
        self.core.numbers.borrow().get(&place.number).cloned()
    }

    /// A place where a service was found is not the right one any more.
    pub(crate) fn forget_place(&self, name: &str, place: Place) {
        let mut found = self.core.found.borrow_mut();
        if found.get(name) == Some(&place) {
            found.remove(name);
        }
    }

    #[inline]
    pub(crate) fn check_layer(&self, published: &Published) -> CallResult<()> {
        if self.binder == Binder::Operator {
            return Ok(());
        }
        self.may_bind(published.name(), published.layer())
    }

    /// Whether the rule of the layers lets the caller call a service of a layer. `Denied` if not.
    pub fn may_bind(&self, name: &str, layer: Layer) -> CallResult<()> {
        self.binder
            .may_bind(layer)
            .map_err(|error| CallError::new(Status::Denied, format!("{name}: {error}")))
    }
}
