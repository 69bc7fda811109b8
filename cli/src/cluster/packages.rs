//! `nile package`: packages that have a worker core, for themselves or with others.

pub mod args;

use std::path::{Path, PathBuf};

use nile_abi::Status;
use nile_bosml::Bytes;
use nile_interfaces::packages::{PackageState, PackagesClient};
use nile_stl::CallError;
use serde_json::{Value, json};

use super::args::{Place, Query, Said, Which};
use super::session::Session;
use crate::data::service;
use crate::data::stores::{Stores, is_silent};
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::known::Target;
use crate::run::code;
use crate::table;
use args::{Package, PackageAction};

/// Does what is asked for.
pub fn run(options: &Package) -> Result<(), Failure> {
    match &options.action {
        PackageAction::Start { file, on, share, argument, patience, query } => {
            let file = file_of(file)?;
            let mut cores = Cores::open(query)?;
            let on = on.map(|on| on.on(&query.which)).transpose()?;
            let core = cores.free(on)?;
            let source = cores.put(&file, query)?;
            let patience_ms = patience.as_millis().clamp(1, 60_000) as u32;
            cores.stores.session.patience += *patience;
            cores.ask(core, async |it| {
                let argument = Bytes(argument.as_bytes().into());
                it.start(&source, argument, patience_ms, *share).await
            })?;
            say(query, core, "is started on")
        }
        PackageAction::List(query) => list(&mut Cores::open(query)?, query.json),
        PackageAction::Replace { package, file, query } => {
            let file = file_of(file)?;
            let mut cores = Cores::open(query)?;
            let (core, name) = cores.named(&query.which, package)?;
            cores.replace((core, &name), &file, query)?;
            say(query, core, "is replaced on")
        }
        PackageAction::Stop { package, query } => {
            let mut cores = Cores::open(query)?;
            let (core, name) = cores.named(&query.which, package)?;
            cores.ask(core, async |it| it.stop(&name).await)?;
            say(query, core, "is stopped on")
        }
    }
}

/// Whether a package is named, and not its file: one of the project's own.
pub fn names_own(options: &Package) -> bool {
    match &options.action {
        PackageAction::Start { file, .. } | PackageAction::Replace { file, .. } => is_name(file),
        PackageAction::List(_) | PackageAction::Stop { .. } => false,
    }
}

/// Whether this is no path, but may be the name of a package of the project.
pub(super) fn is_name(file: &Path) -> bool {
    let text = file.to_str().unwrap_or_default();
    let plain = |it: u8| it.is_ascii_alphanumeric() || b"-_".contains(&it);
    !text.is_empty() && text.bytes().all(plain) && !file.exists()
}

/// The file that is meant; a package is in it.
pub(super) fn file_of(file: &Path) -> Result<PathBuf, Failure> {
    let is_own = is_name(file);
    let path = if is_own { code::own(&file.to_string_lossy())? } else { file.into() };
    if is_own && !path.exists() {
        let name = file.display();
        let message = format!("{name}: neither a file nor a package of the project");
        return Err(Failure::request(message));
    }
    code::check(&path)?;
    Ok(path)
}

/// The worker cores of a cluster.
pub(super) struct Cores {
    stores: Stores,
    all: Vec<Target>,
}

impl Cores {
    pub fn open(query: &Query) -> Result<Cores, Failure> {
        let mut stores = Stores::open(query)?;
        let none = || Failure::failed("no node has a worker core that answers");
        let all = service::find::<PackagesClient>(&mut stores.session)?.ok_or_else(none)?;
        Ok(Cores { stores, all })
    }

    /// What each has; those on nodes that do not answer are left out (`unless_all_asked`).
    pub fn states(&mut self) -> Result<Vec<(Target, Vec<PackageState>)>, Failure> {
        let mut states = Vec::new();
        for target in self.all.clone() {
            if self.stores.absent().contains(&target.node) {
                continue;
            }
            match self.call(target, async |it| it.list().await)? {
                Ok(state) => states.push((target, state)),
                Err(failed) if is_silent(&failed) => self.stores.leave_out_node(target.node),
                Err(failed) => return Err(refused(target, failed)),
            }
        }
        Ok(states)
    }

    /// The core that is meant, or one that is free.
    fn free(&mut self, on: Option<Place>) -> Result<Target, Failure> {
        if let Some(place) = on {
            return self.core(place);
        }
        let free: Vec<Target> =
            self.states()?.into_iter().filter(|it| it.1.is_empty()).map(|it| it.0).collect();
        let first = free.first().map(|it| it.node);
        let mut of_first = free.into_iter().filter(|it| Some(it.node) == first);
        let none = || Failure::request("each worker core has a package: `nile package list`");
        of_first.next_back().ok_or_else(none)
    }

    /// A worker core.
    pub fn core(&self, place: Place) -> Result<Target, Failure> {
        let is_it = |it: &&Target| Some(it.core) == place.core && it.node == place.node;
        let none = || Failure::request(format!("{place} is no worker core that answers"));
        self.all.iter().find(is_it).copied().ok_or_else(none)
    }

    /// The core of the package that is meant, and its name: by that, by its core, or by both.
    pub fn named(&mut self, which: &Which, package: &str) -> Result<(Target, String), Failure> {
        let (place, name) = match package.split_once('/') {
            Some((place, name)) => (place, Some(name)),
            None => (package, None),
        };
        if let Ok(said) = place.parse::<Said>()
            && said.is_core()
        {
            let core = self.core(said.on(which)?)?;
            return match name {
                Some(name) => Ok((core, name.into())),
                None => self.only_one(core).map(|name| (core, name)),
            };
        }
        let has_it =
            |(_, states): &(Target, Vec<PackageState>)| states.iter().any(|it| it.name == package);
        let found = self.states()?.into_iter().filter(has_it);
        let found: Vec<Target> = found.map(|it| it.0).collect();
        match found[..] {
            [core] => Ok((core, package.into())),
            [] => {
                let nobody = format!("has a package {package} that stays");
                // It may be on a node that could not be asked.
                let Err(failure) = self.stores.unless_all_asked() else {
                    let advice = "`nile package list`";
                    return Err(Failure::request(format!("no core {nobody}: {advice}")));
                };
                Err(failure.calling("nodes", &format!("no core that answers {nobody}; nodes")))
            }
            [..] => {
                let place = |it: &Target| format!("{}/{package}", it.place());
                let places: Vec<String> = found.iter().map(place).collect();
                Err(Failure::request(format!("name one: {}", places.join(", "))))
            }
        }
    }

    /// The name of the package that a core has.
    fn only_one(&mut self, core: Target) -> Result<String, Failure> {
        let mut states = self.ask(core, async |it| it.list().await)?;
        let place = core.place();
        match (states.pop(), &states[..]) {
            (Some(state), []) => Ok(state.name),
            (Some(last), others) => {
                let names = others.iter().chain([&last]).map(|it| format!("{place}/{}", it.name));
                let names: Vec<String> = names.collect();
                Err(Failure::request(format!("name one: {}", names.join(", "))))
            }
            (None, _) => Err(Failure::request(format!("{place}: no package has this core"))),
        }
    }

    /// The way to the cluster.
    pub fn session(&mut self) -> &mut Session {
        &mut self.stores.session
    }

    /// Fails if some nodes did not answer.
    pub fn unless_all_asked(&self) -> Result<(), Failure> {
        self.stores.unless_all_asked()
    }

    /// Has a core run another file of one of its packages.
    pub fn replace(
        &mut self,
        (core, name): (Target, &str),
        file: &Path,
        query: &Query,
    ) -> Result<(), Failure> {
        let source = self.put(file, query)?;
        self.ask(core, async |it| it.replace(name, &source).await)
    }

    fn put(&mut self, file: &Path, query: &Query) -> Result<String, Failure> {
        code::put(&mut self.stores, &query.which, file)
    }

    pub fn ask<T>(
        &mut self,
        target: Target,
        ask: impl AsyncFnOnce(PackagesClient) -> Result<T, CallError>,
    ) -> Result<T, Failure> {
        self.call(target, ask)?.map_err(|failed| refused(target, failed))
    }

    fn call<T>(
        &mut self,
        target: Target,
        ask: impl AsyncFnOnce(PackagesClient) -> Result<T, CallError>,
    ) -> Result<Result<T, CallFailed>, Failure> {
        let session = &mut self.stores.session;
        session.peer.work(session.patience, async |clients| {
            ask(clients.at(target)).await.map_err(CallFailed::from)
        })
    }
}

fn refused(target: Target, failed: CallFailed) -> Failure {
    let place = target.place();
    match failed.status {
        Status::NotFound | Status::Exists | Status::Busy | Status::Invalid => {
            Failure::request(format!("{place}: {}", failed.message))
        }
        _ => Failure::failed(format!("{place}: {failed}")),
    }
}

fn say(query: &Query, core: Target, what: &str) -> Result<(), Failure> {
    let place = core.place();
    match query.json {
        true => crate::print(&format!("{}\n", json!({ "core": place.to_string() }))),
        false => crate::print(&format!("the package {what} {place}\n")),
    }
}

fn list(cores: &mut Cores, as_json: bool) -> Result<(), Failure> {
    let of_core = |(core, states): (Target, Vec<PackageState>)| {
        states.into_iter().map(move |state| (core, state))
    };
    let states: Vec<_> = cores.states()?.into_iter().flat_map(of_core).collect();
    if as_json {
        let document = |(core, it): &(Target, PackageState)| {
            json!({
                "core": core.place().to_string(),
                "name": it.name,
                "source": it.source,
                "state": it.state.name(),
                "begun": it.begun,
                "since_us": it.since_us,
                "former": it.former.as_deref().unwrap_or_default(),
                "said": it.said,
            })
        };
        let all: Vec<Value> = states.iter().map(document).collect();
        crate::print(&format!("{}\n", json!({ "packages": all })))?;
        return cores.stores.unless_all_asked();
    }
    let title = ["core", "package", "state", "begun", "for", "last end"];
    let mut rows = vec![title.map(String::from).to_vec()];
    for (core, it) in &states {
        rows.push(vec![
            core.place().to_string(),
            it.name.clone(),
            it.state.name().into(),
            it.begun.to_string(),
            format!("{:.1} s", it.since_us as f64 / 1e6),
            if it.said.is_empty() { "-".into() } else { it.said.clone() },
        ]);
    }
    crate::print(&table::columns("", &rows))?;
    cores.stores.unless_all_asked()
}
