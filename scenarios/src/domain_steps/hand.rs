//! A user's hand on a machine: what can be commanded, and what is seen.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::check;

/// How long anything may take that is waited for, in looks of [`Hand::pause`].
const LOOKS: usize = 1000;
const LOOK: Duration = Duration::from_millis(20);

/// What a domain is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Cores.
    pub cores: u16,
    /// The fewest.
    pub least: u16,
    /// The most.
    pub most: u16,
    /// Memory in units of 2 MiB.
    pub units: u32,
    /// The most.
    pub most_units: u32,
    /// Before whom it goes.
    pub priority: u8,
    /// Whether packages are started on it.
    pub has_packages: bool,
}

impl<'a> Wanted<'a> {
    /// A domain that stays as it is.
    pub const fn new(name: &'a str, cores: u16) -> Wanted<'a> {
        let units = 16;
        Wanted {
            name,
            cores,
            least: cores,
            most: cores,
            units,
            most_units: units,
            priority: 0,
            has_packages: false,
        }
    }

    /// One that can have so few cores and so many.
    pub const fn within(self, least: u16, most: u16) -> Wanted<'a> {
        Wanted { least, most, ..self }
    }

    /// One for packages.
    pub const fn for_packages(self) -> Wanted<'a> {
        Wanted { units: 32, most_units: 32, has_packages: true, ..self }
    }
}

/// A domain that is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domain {
    /// What it is called.
    pub name: String,
    /// The machine's cores that it has.
    pub cores: Vec<u16>,
    /// Its memory in units of 2 MiB.
    pub units: u32,
}

/// A machine, as its user sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The domains, in the order of their places.
    pub domains: Vec<Domain>,
    /// Cores that nobody has.
    pub free_cores: Vec<u16>,
    /// Memory that nobody has.
    pub free_units: u32,
    /// What is shared, and by whom.
    pub shared: Vec<(String, Vec<String>)>,
}

impl Seen {
    /// The domain of this name.
    pub fn domain(&self, name: &str) -> Result<&Domain, String> {
        let found = self.domains.iter().find(|it| it.name == name);
        found.ok_or_else(|| format!("no domain {name} in {self:?}"))
    }
}

/// A package that a core has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// How often it has begun.
    pub begun: u32,
    /// How it has ended last.
    pub said: String,
}

/// How a machine is told what its user wants. An error is what the user reads.
#[expect(async_fn_in_trait, reason = "one thread does all that is done to a machine")]
pub trait Hand {
    /// How long after a command began its user gives up who gives up: while a domain is put
    /// together, while it starts, and later.
    fn moments(&self) -> &'static [Duration];

    /// Makes a domain, and waits until it runs.
    async fn create(&mut self, wanted: &Wanted<'_>) -> Result<(), String>;

    /// Begins to make one, and waits no longer than so, whatever comes of it.
    async fn begin_to_create(&mut self, wanted: &Wanted<'_>, after: Duration);

    /// Gives a domain cores and memory, or takes some.
    async fn resize(&mut self, name: &str, to: Resize) -> Result<(), String>;

    /// Begins to, and waits no longer than so.
    async fn begin_to_resize(&mut self, name: &str, to: Resize, after: Duration);

    /// Has a domain have cores of another one for so long.
    async fn lend(&mut self, loan: (&str, &str), cores: u16, span: Duration) -> Result<(), String>;

    /// Gives back what a domain has from others.
    async fn recall(&mut self, name: &str) -> Result<(), String>;

    /// Ends a domain.
    async fn destroy(&mut self, name: &str, force: bool) -> Result<(), String>;

    /// Ends one and makes it anew.
    async fn restart(&mut self, name: &str) -> Result<(), String>;

    /// Has domains share memory.
    async fn share(&mut self, name: &str, units: u32, with: &[&str]) -> Result<(), String>;

    /// Has these share it no more; without any, all.
    async fn unshare(&mut self, name: &str, from: &[&str]) -> Result<(), String>;

    /// What there is.
    async fn look(&mut self) -> Result<Seen, String>;

    /// Has a core of a domain compute `ackermann(2, 3)`.
    async fn compute(&mut self, domain: &str, core: u16) -> Result<u64, String>;

    /// The generation of a domain's node.
    async fn generation(&mut self, domain: &str) -> Result<u64, String>;

    /// The cores of a domain that run, with their incarnations.
    async fn running(&mut self, domain: &str) -> Result<Vec<(u16, u32)>, String>;

    /// Whether a domain has heard of another one.
    async fn knows(&mut self, domain: &str, other: &str) -> Result<bool, String>;

    /// Ends the incarnation of the managing core of a domain, or of the supervisor.
    async fn end_manager(&mut self, of: Option<&str>) -> Result<(), String>;

    /// Starts a package on a domain's core.
    async fn start(
        &mut self,
        place: (&str, u16),
        package: &str,
        argument: &str,
    ) -> Result<(), String>;

    /// Ends it.
    async fn stop(&mut self, place: (&str, u16), package: &str) -> Result<(), String>;

    /// Those that a core has.
    async fn packages(&mut self, place: (&str, u16)) -> Result<Vec<Package>, String>;

    /// Lets time pass.
    async fn pause(&mut self, span: Duration);

    /// Waits until the machine is so.
    async fn until(&mut self, what: &str, done: impl Fn(&Seen) -> bool) -> Result<Seen, String> {
        let mut last = Err(String::new());
        for _ in 0..LOOKS {
            last = self.look().await;
            match &last {
                Ok(seen) if done(seen) => return last,
                _ => self.pause(LOOK).await,
            }
        }
        Err(format!("waited in vain until {what}: {last:?}"))
    }

    /// Has all cores of a domain compute, of which some may just have come: so many.
    async fn all_compute(&mut self, domain: &str, cores: u16) -> Result<(), String> {
        let mut all = Vec::new();
        for _ in 0..LOOKS {
            // Its managing core may begin anew.
            all = self.running(domain).await.unwrap_or_default();
            if all.len() == usize::from(cores) {
                break;
            }
            self.pause(LOOK).await;
        }
        check(all.len() == usize::from(cores), format_args!("of {domain} run {all:?}"))?;
        for (core, _) in all {
            let mut last = Err(String::new());
            for _ in 0..LOOKS {
                last = self.compute(domain, core).await;
                if last.is_ok() {
                    break;
                }
                self.pause(LOOK).await;
            }
            check(last == Ok(9), format_args!("core {core} of {domain} computes {last:?}"))?;
        }
        Ok(())
    }

    /// Starts a package that cannot do what it is for, and says why by this code.
    async fn fails(
        &mut self,
        place: (&str, u16),
        [package, argument]: [&str; 2],
        code: u64,
    ) -> Result<(), String> {
        let why = format!("exited with {code}");
        let said = self.start(place, package, argument).await;
        if let Err(said) = &said {
            return check(said.contains(&why), format_args!("not {why:?}, but: {said}"));
        }
        // It was quick: it runs once more already, or is about to.
        for _ in 0..LOOKS {
            let all = self.packages(place).await?;
            if all.iter().any(|it| it.said.contains(&why)) {
                return self.stop(place, package).await;
            }
            self.pause(LOOK).await;
        }
        Err(format!("{argument:?} of {package} has not {why}: {:?}", self.packages(place).await))
    }

    /// Waits until all packages of a core have done what they were to do.
    async fn all_done(&mut self, place: (&str, u16)) -> Result<(), String> {
        let mut last = Ok(Vec::new());
        for _ in 0..LOOKS {
            last = self.packages(place).await;
            match &last {
                Ok(none) if none.is_empty() => return Ok(()),
                Ok(some) if some.iter().any(|it| it.begun > 1) => break,
                _ => self.pause(LOOK).await,
            }
        }
        Err(format!("packages of {place:?} have not ended well: {last:?}"))
    }
}

/// What a domain is to have from now on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Resize {
    /// Cores.
    pub cores: Option<u16>,
    /// Memory in units of 2 MiB.
    pub units: Option<u32>,
    /// Whether cores that it keeps are taken.
    pub force: bool,
}

impl Resize {
    /// So many cores.
    pub const fn cores(cores: u16) -> Resize {
        Resize { cores: Some(cores), units: None, force: false }
    }

    /// So much memory.
    pub const fn units(units: u32) -> Resize {
        Resize { cores: None, units: Some(units), force: false }
    }
}
