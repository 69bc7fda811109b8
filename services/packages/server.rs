//! A package that stays, from the moment that it gets its core until it gives it back. Others may
//! have the core beside it.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{CorePhase, Instant, Status};
use nile_interfaces::packages::{PackagePhase, PackageState};
use nile_stl::node::{PackageLimits, PackageSource, RunningPackage, Stay};
use nile_stl::{CallError, CallResult, Stl};
use nile_sync::Notify;

use super::room::Room;
use crate::worker::plain;

/// How often it is looked whether the job's package that is here has gone.
const LOOK: Duration = Duration::from_millis(1);

/// How long a file that replaces another has to prove itself, and how soon after its first turn it
/// is told that it does not even begin.
const TRIAL: Duration = Duration::from_secs(10);
const AT_ONCE: Duration = Duration::from_millis(20);

/// How long one that is replaced has to answer the calls that it has seen, and how often it is
/// looked whether it has.
const ANSWERING: Duration = Duration::from_secs(1);
const ANSWERED: Duration = Duration::from_micros(50);

/// How long one waits to begin that ends as soon as it has begun: at first and at most.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(5)];

/// How long one has to run to have begun well.
const WELL: Duration = Duration::from_secs(1);

/// What is run.
#[derive(Clone)]
pub struct Code {
    /// What it is called.
    pub source: String,
    /// Its file; none for a package that the node was started with.
    pub file: Option<Rc<[u8]>>,
}

impl Code {
    fn source(&self) -> PackageSource<'_> {
        match &self.file {
            Some(file) => PackageSource::File(file.clone()),
            None => PackageSource::Named(&self.source),
        }
    }
}

/// A package that has this core.
pub struct Server {
    stl: Stl,
    room: Rc<Room>,
    stay: Stay,
    argument: Vec<u8>,
    code: RefCell<Code>,
    /// What is run again if `code` fails, and until when.
    former: RefCell<Option<(Code, Instant)>>,
    running: RefCell<Option<Rc<dyn RunningPackage>>>,
    begun: Cell<u32>,
    since: Cell<Instant>,
    said: RefCell<String>,
    /// The last one has exited with 0.
    is_done: Cell<bool>,
    is_stopped: Cell<bool>,
    is_over: Cell<bool>,
    /// Any of this has changed.
    changes: Notify,
}

impl Server {
    /// One that has yet to begin.
    pub fn new(stl: &Stl, room: &Rc<Room>, stay: Stay, code: Code, argument: Vec<u8>) -> Server {
        Server {
            stl: stl.clone(),
            room: room.clone(),
            stay,
            argument,
            code: RefCell::new(code),
            former: RefCell::default(),
            running: RefCell::default(),
            begun: Cell::new(0),
            since: Cell::new(stl.host().now()),
            said: RefCell::default(),
            is_done: Cell::new(false),
            is_stopped: Cell::new(false),
            is_over: Cell::new(false),
            changes: Notify::default(),
        }
    }

    /// The package's name.
    pub fn name(&self) -> String {
        plain(&self.code.borrow().source).into()
    }

    /// Whether it has given the core back.
    pub fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// How it stands.
    pub fn state(&self) -> PackageState {
        let running = self.running.borrow();
        let number = running.as_ref().map(|it| it.id());
        let usage = running.as_ref().map(|it| it.usage()).unwrap_or_default();
        let now = self.stl.host().now();
        let former = self.former_until(now).map(|(code, _)| code.source);
        let state = match (self.is_stopped.get(), number) {
            (true, _) => PackagePhase::Ends,
            (false, Some(_)) => PackagePhase::Runs,
            (false, None) => PackagePhase::Waits,
        };
        PackageState {
            name: self.name(),
            source: self.code.borrow().source.clone(),
            state,
            number: number.unwrap_or_default(),
            begun: self.begun.get(),
            since_us: now.since(self.since.get()).as_micros() as u64,
            former,
            said: self.said.borrow().clone(),
            uses_frames: running.as_ref().is_some_and(|it| it.uses_frames()),
            memory_bytes: usage.memory_bytes,
            busy_us: usage.busy.as_micros() as u64,
            system_calls: usage.system_calls,
        }
    }

    /// What is run again if the present one fails now.
    fn former_until(&self, now: Instant) -> Option<(Code, Instant)> {
        self.former.borrow().clone().filter(|(_, until)| *until > now)
    }

    /// Takes the core from jobs, and begins. When it cannot, the core is as it was.
    pub async fn begin(self: &Rc<Self>, patience: Duration) -> CallResult<()> {
        if let Err(error) = self.room.enter().await {
            self.is_over.set(true);
            return Err(error);
        }
        if let Err(error) = self.run(patience).await {
            self.give_back().await;
            return Err(error);
        }
        let server = self.clone();
        self.stl.host().spawn(Box::pin(async move { server.go_on().await }));
        let failed = self.ends_at_once(1).await;
        match failed {
            Some(text) => {
                self.stop().await;
                Err(CallError::new(Status::Failed, text))
            }
            None => Ok(()),
        }
    }

    /// Runs another file of the same package in place of this one.
    pub async fn replace(&self, code: Code) -> CallResult<()> {
        // What it has seen it answers; what comes waits for the other one.
        let running = self.running.borrow().clone();
        if let Some(running) = running {
            running.pause();
            let host = self.stl.host();
            let limit = host.now() + ANSWERING;
            while running.works_on() > 0 && host.now() < limit {
                host.pause(ANSWERED).await;
            }
        }
        let begun = self.begun.get();
        let former = self.code.replace(code);
        let until = self.stl.host().now() + TRIAL;
        *self.former.borrow_mut() = Some((former, until));
        // It may have ended by itself, and have begun anew.
        if let Some(running) = &*self.running.borrow() {
            running.stop();
        }
        self.changes.notify();
        let has_begun = || (self.begun.get() > begun || self.is_over.get()).then_some(());
        self.changes.until(has_begun).await;
        let failed = self.ends_at_once(begun + 1).await;
        match failed {
            Some(text) => {
                let message = format!("{text}; the former one is run again");
                Err(CallError::new(Status::Failed, message))
            }
            None => Ok(()),
        }
    }

    /// Ends it, and waits until it has given the core back. What it was, to be begun elsewhere.
    pub async fn stop(&self) -> (Code, Vec<u8>) {
        self.is_stopped.set(true);
        if let Some(running) = &*self.running.borrow() {
            running.stop();
        }
        self.changes.notify();
        self.changes.until(|| self.is_over.get().then_some(())).await;
        (self.code.borrow().clone(), self.argument.clone())
    }

    /// What it says if the incarnation of this number fails as soon as it has begun.
    async fn ends_at_once(&self, number: u32) -> Option<String> {
        let host = self.stl.host();
        let limit = async {
            let begun = host.now();
            // On a busy host it may not have a turn for a while.
            let waits =
                || self.running.borrow().as_ref().is_some_and(|it| it.usage().busy.is_zero());
            while waits() && host.now() < begun + WELL {
                host.pause(LOOK).await;
            }
            host.sleep_until(host.now() + AT_ONCE).await;
            None
        };
        let ends = self.changes.until(|| {
            let is_gone = self.begun.get() != number || self.running.borrow().is_none();
            is_gone.then(|| (!self.is_done.get()).then(|| self.said.borrow().clone()))
        });
        nile_sync::first(ends, limit).await
    }

    /// Starts the package once, as soon as the one that is here has gone.
    async fn run(&self, patience: Duration) -> CallResult<()> {
        let (node, host) = (self.stl.node()?, self.stl.host().clone());
        let until = host.now() + patience;
        loop {
            let started = {
                let code = self.code.borrow();
                let stays = Some(self.stay);
                let limits = PackageLimits { stays, shares: true, ..PackageLimits::default() };
                node.run_package(code.source(), &self.argument, limits)
            };
            match started {
                Ok(running) => {
                    // Who was to end it meanwhile found nothing to end.
                    if self.is_stopped.get() {
                        running.stop();
                    }
                    *self.running.borrow_mut() = Some(running);
                    self.begun.set(self.begun.get() + 1);
                    self.since.set(host.now());
                    self.changes.notify();
                    return Ok(());
                }
                Err(Status::Exists) if host.now() < until => host.pause(LOOK).await,
                Err(Status::Exists) => {
                    let message = "a job works on this core: try again, or take another";
                    return Err(CallError::new(Status::Busy, message));
                }
                Err(status) => {
                    let name = &self.code.borrow().source;
                    let message = match status {
                        Status::NotFound => format!("this node has no package {name}"),
                        _ => format!("{name} cannot be run here"),
                    };
                    return Err(CallError::new(status, message));
                }
            }
        }
    }

    /// Begins anew whenever the package has ended, until it is to be no more.
    async fn go_on(self: Rc<Self>) {
        let host = self.stl.host().clone();
        let mut pause = PAUSES[0];
        loop {
            let Some(running) = self.running.borrow().clone() else { break };
            let end = running.ended().await;
            self.running.take();
            let lived = host.now().since(self.since.get());
            *self.said.borrow_mut() = end.text.clone();
            self.is_done.set(end.code == Some(0));
            self.changes.notify();
            if !self.goes_on() {
                break;
            }
            let is_new = self.fall_back(end.kind != "stopped");
            if lived >= WELL || is_new {
                pause = PAUSES[0];
            } else {
                self.wait(pause).await;
                pause = (pause * 2).min(PAUSES[1]);
            }
            if self.is_stopped.get() {
                break;
            }
            while let Err(error) = self.run(PAUSES[1]).await {
                *self.said.borrow_mut() = format!("{error}");
                if !self.fall_back(true) {
                    self.wait(PAUSES[1]).await;
                }
                if self.is_stopped.get() {
                    break;
                }
            }
        }
        self.give_back().await;
    }

    /// Whether it is to begin anew now that it has ended.
    fn goes_on(&self) -> bool {
        let host = self.stl.host();
        let phase = self.stl.node().ok().and_then(|node| node.state_of(host.core()));
        let leaves = phase.is_some_and(|it| it.phase == CorePhase::Leaving);
        let is_done = self.is_done.get() && self.former_until(host.now()).is_none();
        !self.is_stopped.get() && !leaves && !is_done
    }

    /// Whether another file is run next than the one that has ended: one that replaces it, or, if
    /// it has failed, the one that it has replaced.
    fn fall_back(&self, has_failed: bool) -> bool {
        let Some((former, _)) = self.former_until(self.stl.host().now()) else { return false };
        if has_failed {
            self.former.take();
            let failed = self.code.replace(former);
            let (source, said) = (&failed.source, self.said.borrow());
            self.stl.host().log(format_args!("{source} {said}; the former one is run again"));
        }
        true
    }

    /// Waits so long, or until it is to end.
    async fn wait(&self, span: Duration) {
        let host = self.stl.host();
        let limit = host.sleep_until(host.now() + span);
        let stops = self.changes.until(|| self.is_stopped.get().then_some(()));
        nile_sync::first(stops, limit).await;
    }

    /// It is here no longer.
    async fn give_back(&self) {
        if let Ok(node) = self.stl.node() {
            node.end_stay(self.stay);
        }
        self.room.leave().await;
        self.is_over.set(true);
        self.changes.notify();
    }
}
