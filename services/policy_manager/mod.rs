//! The policy manager of a core (Dhara, IV.A): binds what runs here to scheduling policies.
//!
//! The registry says which policy that is and keeps who is bound to it; the core's executor takes
//! the subject from its policy before and gives it to this one, in one step. What the registry has
//! forgotten, since its core has restarted, it is told again.
//!
//! * `ahead`: policies of packages, which are asked for orders of turns.
//! * `expelled`: what is said of policies that were expelled.

mod ahead;
mod expelled;

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{CoreId, Status};
use nile_interfaces::policy_manager::{PolicyEntry, PolicyManagerKernel, SubjectEntry};
use nile_interfaces::registry::{Asker, Binding, NamedValue, RegistryClient, Wanted};
use nile_interfaces::scheduling::TYPE;
use nile_policy::policies::Ahead;
use nile_policy::{Manager, Parameters, Refusal, Statistics, SubjectState};
use nile_registry::{AttributeValue, Caller as Binder, priority::PRIORITY};
use nile_stl::{CallError, CallResult, Place, Published, Registration, Start, Stl, service};

use crate::ALL;
use ahead::Elsewhere;

/// How often the registry is told what it has forgotten while it is not there yet, and how long
/// that waits in between.
const MOST_ATTEMPTS: u32 = 1_000;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(1);

/// A binding, as it was asked for.
struct Asked {
    asker: Asker,
    subject: String,
    wanted: Wanted,
    parameters: Vec<NamedValue>,
    /// The policy that was found.
    policy: String,
}

/// What is bound here.
pub struct PolicyManager(Rc<Shared>);

struct Shared {
    stl: Stl,
    bound: RefCell<Vec<Asked>>,
    /// Of which instances the policies here are: one that was expelled is another's when it is
    /// published anew.
    instances: RefCell<Vec<(String, Place)>>,
    /// The policies of packages that somebody was bound to.
    elsewhere: RefCell<Vec<Rc<Elsewhere>>>,
    /// Whether somebody waits for policies that are expelled.
    watches: Cell<bool>,
}

impl Start for PolicyManager {
    fn start(stl: &Stl) -> PolicyManager {
        let stl = stl.acting_as(Binder::Operator);
        let shared = Rc::new(Shared {
            stl,
            bound: RefCell::default(),
            instances: RefCell::default(),
            elsewhere: RefCell::default(),
            watches: Cell::default(),
        });
        let again = Rc::downgrade(&shared);
        shared.stl.on_death(move |core, _| {
            if let Some(shared) = again.upgrade().filter(|_| core == CoreId::BOOT) {
                let stl = shared.stl.clone();
                stl.host().spawn(Box::pin(async move { shared.tell_again().await }));
            }
        });
        // One that has ended the last incarnation of this core.
        if !shared.expelled().is_empty() {
            let shared = shared.clone();
            let stl = shared.stl.clone();
            stl.host().spawn(Box::pin(async move { shared.tell_all_expelled().await }));
        }
        PolicyManager(shared)
    }
}

#[service(on = every, keywords(policy = 5, scheduling = 3, bind = 2))]
impl PolicyManagerKernel for PolicyManager {
    fn subjects(&self) -> CallResult<Vec<SubjectEntry>> {
        let subjects = self.0.manager()?.subjects();
        Ok(subjects
            .into_iter()
            .map(|it| SubjectEntry { name: it.name, policy: it.policy })
            .collect())
    }

    fn policies(&self) -> CallResult<Vec<PolicyEntry>> {
        let manager = self.0.manager()?;
        let subjects = manager.subjects();
        let known = manager.policies().into_iter();
        let mut all: Vec<PolicyEntry> = known.map(|it| entry(it, &subjects)).collect();
        // Those that nobody here has been bound to yet.
        for registration in ALL.into_iter().filter(|it| it.policy.is_some()) {
            if !all.iter().any(|it| it.name == registration.name()) {
                let unused = unused(registration);
                let place = all.iter().take_while(|it| it.priority >= unused.priority).count();
                all.insert(place, unused);
            }
        }
        Ok(all)
    }

    async fn bind(
        &self,
        asker: Asker,
        subject: String,
        wanted: Wanted,
        parameters: Vec<NamedValue>,
    ) -> CallResult<Binding> {
        self.0.bind(Asked { asker, subject, wanted, parameters, policy: String::new() }).await
    }

    async fn unbind(&self, subject: String) -> CallResult<bool> {
        self.0.unbind(&subject).await
    }
}

impl Shared {
    fn manager(&self) -> CallResult<Rc<dyn Manager>> {
        Ok(self.stl.node()?.policies())
    }

    /// The number of a subject in the registry of the node: its place among those of its core.
    fn number_of(&self, subject: &str) -> CallResult<u64> {
        let subjects = self.manager()?.subjects();
        let found = subjects.iter().position(|it| it.name == subject);
        let Some(index) = found else {
            let names: Vec<&str> = subjects.iter().map(|it| it.name.as_str()).collect();
            let (core, names) = (self.stl.host().core(), names.join(", "));
            let message = format!("core {core} has no subject {subject}; it has {names}");
            return Err(CallError::new(Status::NotFound, message));
        };
        Ok(u64::from(self.stl.host().core().0) << 32 | index as u64)
    }

    async fn bind(self: &Rc<Shared>, mut asked: Asked) -> CallResult<Binding> {
        let number = self.number_of(&asked.subject)?;
        let registry = RegistryClient::find(&self.stl).await?;
        let Asked { asker, wanted, parameters, .. } = &asked;
        there_is(&registry, wanted).await?;
        let binding = registry.bind(*asker, number, wanted.clone(), parameters.clone()).await?;
        let place = Place::from(binding.found);
        let name = &binding.name;
        if let Err(error) = self.schedule(&asked, name, place) {
            // The registry has what is: it is bound as before.
            self.restore(&registry, number, &asked).await;
            return Err(error);
        }
        asked.policy = binding.name.clone();
        let mut bound = self.bound.borrow_mut();
        bound.retain(|it| it.subject != asked.subject);
        bound.push(asked);
        drop(bound);
        if !self.watches.replace(true) {
            let shared = self.clone();
            self.stl.host().spawn(Box::pin(async move { shared.watch().await }));
        }
        Ok(binding)
    }

    /// Has the core's executor schedule a subject by the policy of this name, which is a package's
    /// if there is nothing that makes one.
    fn schedule(&self, asked: &Asked, name: &str, instance: Place) -> CallResult<()> {
        let (priority, make) = match self.policy(name) {
            Some((registration, make)) => (priority_of(registration), Some(make)),
            None => (ahead::PRIORITY, None),
        };
        let mut parameters = Parameters::none();
        for value in &asked.parameters {
            let attribute = value.attribute(&[]);
            let AttributeValue::Int(number) = attribute.value else {
                let message = format!("{} is {}, and not a whole number", value.name, value.value);
                return Err(CallError::new(Status::Invalid, message));
            };
            parameters = parameters.with(value.name.clone(), number);
        }
        let manager = self.manager()?;
        let expelled = |it: &Statistics| it.name == name && it.expelled.is_some();
        let is_expelled = manager.policies().iter().any(expelled);
        let known = self.instances.borrow().iter().find(|it| it.0 == name).map(|it| it.1);
        // One that ended the last incarnation of this core is not known, and expelled.
        let is_new = known.map_or(!is_expelled, |known| is_expelled && known != instance);
        if is_new {
            let policy = match make {
                Some(make) => make(),
                None => self.elsewhere(name, instance),
            };
            manager.install(name, priority, policy);
        }
        if is_new || known.is_none() {
            let mut instances = self.instances.borrow_mut();
            instances.retain(|it| it.0 != name);
            instances.push((name.into(), instance));
        }
        manager.bind(&asked.subject, name, &parameters).map_err(refused)?;
        let elsewhere = self.elsewhere.borrow();
        if let Some(it) = elsewhere.iter().find(|it| it.name == name).filter(|_| make.is_none()) {
            it.ask_at(instance, &self.stl, manager.clone());
        }
        Ok(())
    }

    /// A policy that has its orders from a package.
    fn elsewhere(&self, name: &str, place: Place) -> Box<dyn nile_policy::Scheduling> {
        let new = Rc::new(Elsewhere::new(name, place));
        let policy = Box::new(Ahead::new(new.plan.clone()));
        let mut elsewhere = self.elsewhere.borrow_mut();
        elsewhere.retain(|it| it.name != name);
        elsewhere.push(new);
        policy
    }

    /// The policy of this name, published here or part of every node.
    fn policy(&self, name: &str) -> Option<(&'static Registration, MakePolicy)> {
        let installed =
            self.stl.installed().into_iter().filter_map(|(published, _)| match published {
                Published::Linked(registration) => Some(registration),
                Published::Described(_) => None,
            });
        let mut all = installed.chain(ALL).filter(|it| it.name() == name);
        all.find_map(|it| Some((it, it.policy?)))
    }

    async fn unbind(&self, subject: &str) -> CallResult<bool> {
        let number = self.number_of(subject)?;
        let Some(asked) = self.forget(subject) else { return Ok(false) };
        let was_bound = self.manager()?.unbind(subject);
        let registry = RegistryClient::find(&self.stl).await?;
        registry.unbind(number, &asked.wanted.type_name).await?;
        Ok(was_bound)
    }

    fn forget(&self, subject: &str) -> Option<Asked> {
        let mut bound = self.bound.borrow_mut();
        let index = bound.iter().position(|it| it.subject == subject)?;
        Some(bound.remove(index))
    }

    /// Has the registry say again what a subject was bound to before `refused` was asked for.
    async fn restore(&self, registry: &RegistryClient, number: u64, refused: &Asked) {
        let before = self
            .bound
            .borrow()
            .iter()
            .find(|it| it.subject == refused.subject)
            .map(|it| (it.asker, it.wanted.clone(), it.parameters.clone()));
        let restored = match before {
            Some((asker, wanted, parameters)) => {
                registry.bind(asker, number, wanted, parameters).await.map(|_| ())
            }
            None => registry.unbind(number, &refused.wanted.type_name).await.map(|_| ()),
        };
        if let Err(error) = restored {
            let subject = &refused.subject;
            self.stl.host().log(format_args!("the registry has {subject} bound wrongly: {error}"));
        }
    }

    /// Tells a registry that is new who is bound here, and what is expelled.
    async fn tell_again(&self) {
        let subjects: Vec<String> =
            self.bound.borrow().iter().map(|it| it.subject.clone()).collect();
        for subject in subjects {
            if let Err(error) = self.tell(&subject).await {
                self.stl.host().log(format_args!("{subject} is not bound again: {error}"));
            }
        }
        self.tell_all_expelled().await;
    }

    async fn tell(&self, subject: &str) -> CallResult<()> {
        let number = self.number_of(subject)?;
        patiently(&self.stl, || self.tell_once(number, subject)).await
    }

    async fn tell_once(&self, number: u64, subject: &str) -> CallResult<()> {
        let asked = self
            .bound
            .borrow()
            .iter()
            .find(|it| it.subject == subject)
            .map(|it| (it.asker, it.wanted.clone(), it.parameters.clone()));
        // It was unbound meanwhile.
        let Some((asker, wanted, parameters)) = asked else { return Ok(()) };
        let registry = RegistryClient::find(&self.stl).await?;
        registry.bind(asker, number, wanted, parameters).await.map(|_| ())
    }
}

/// Asks a registry that may not be there yet, or not know a policy yet.
async fn patiently(stl: &Stl, ask: impl AsyncFn() -> CallResult<()>) -> CallResult<()> {
    let host = stl.host();
    let mut attempts = 0;
    loop {
        match ask().await {
            Err(CallError { status: Status::Dead | Status::NotFound | Status::Gone, .. })
                if attempts < MOST_ATTEMPTS =>
            {
                attempts += 1;
                host.sleep_until(host.now() + BETWEEN_ATTEMPTS).await;
            }
            result => return result,
        }
    }
}

/// Whether there is what is wanted: whoever binds by a keyword means a policy that has it, and not
/// the default, which the registry finds for whatever nobody matches.
async fn there_is(registry: &RegistryClient, wanted: &Wanted) -> CallResult<()> {
    let Wanted { type_name, keywords, .. } = wanted;
    let missing = |message| Err(CallError::new(Status::NotFound, message));
    let ours = &TYPE.name;
    if type_name != ours {
        let all = registry.order(type_name).await.unwrap_or_default();
        if !all.iter().any(|it| it.extends.iter().any(|it| it == ours)) {
            return missing(format!("no type of policies is `{type_name}`; there is {ours}"));
        }
    }
    if keywords.is_empty() {
        return Ok(());
    }
    let known = registry.keywords(type_name).await?;
    match keywords.iter().find(|word| !known.contains(word)) {
        None => Ok(()),
        Some(unknown) => {
            let known = known.join(", ");
            missing(format!("no policy has the keyword `{unknown}`; there is {known}"))
        }
    }
}

type MakePolicy = fn() -> Box<dyn nile_policy::Scheduling>;

fn priority_of(registration: &Registration) -> i64 {
    let priority = registration.attributes.iter().find(|it| it.name == PRIORITY);
    match priority.map(|it| &it.value) {
        Some(AttributeValue::Int(priority)) => *priority,
        _ => 0,
    }
}

fn unused(registration: &Registration) -> PolicyEntry {
    PolicyEntry {
        name: registration.name().into(),
        priority: priority_of(registration),
        subjects: 0,
        ready: 0,
        decisions: 0,
        refused: 0,
        reserved: 0,
        ran_ns: 0,
        expelled: None,
        last: Vec::new(),
    }
}

fn entry(it: Statistics, subjects: &[SubjectState]) -> PolicyEntry {
    let last = it.expelled.as_ref().map(|it| expelled::decisions(&it.last, subjects));
    PolicyEntry {
        name: it.name,
        priority: it.priority,
        subjects: it.subjects,
        ready: it.ready,
        decisions: it.decisions,
        refused: it.refused,
        reserved: it.reserved,
        ran_ns: u64::try_from(it.ran.as_nanos()).unwrap_or(u64::MAX),
        expelled: it.expelled.as_ref().map(expelled::said),
        last: last.unwrap_or_default(),
    }
}

fn refused(refusal: Refusal) -> CallError {
    let status = match refusal {
        Refusal::NoPolicy | Refusal::NoSubject => Status::NotFound,
        Refusal::Expelled => Status::Denied,
        Refusal::Overcommitted { .. } | Refusal::Deciding => Status::Busy,
        Refusal::Unknown { .. } | Refusal::OutOfRange { .. } | Refusal::Incomplete(_) => {
            Status::Invalid
        }
    };
    CallError::new(status, refusal.to_string())
}
