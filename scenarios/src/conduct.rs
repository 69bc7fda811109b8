//! What every scenario shares: it starts when all loops run, has a time limit, collects what did
//! not hold, and ends the node with a report.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::time::Duration;

use nile_abi::CoreId;
use nile_kernel::boot::Booted;
use nile_kernel::{Core, ProgramReport};
use nile_platform::{Machine, Outcome};

/// How long a scenario may take before it has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// What a scenario has found so far.
#[derive(Clone, Default)]
pub struct Findings(Rc<RefCell<ProgramReport>>);

impl Findings {
    /// Notes a failure unless `holds`.
    pub fn check(&self, holds: bool, what: fmt::Arguments<'_>) {
        if !holds {
            self.0.borrow_mut().failures.push(format!("{what}"));
        }
    }

    /// The value, or a failure.
    pub fn expect<T, E: fmt::Display>(&self, result: Result<T, E>, what: &str) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.check(false, format_args!("{what}: {error}"));
                None
            }
        }
    }

    /// Notes a measured number.
    pub fn figure(&self, name: impl Into<String>, value: u64) {
        self.0.borrow_mut().figures.insert(name.into(), value);
    }
}

/// A scenario that is given what it is to note its findings in.
type Scenario = dyn FnOnce(Findings) -> Pin<Box<dyn Future<Output = ()>>>;

/// On the management core: runs `scenario` once every loop runs, then ends the node with a report.
/// `scenario` gets what it is to note its findings in.
pub fn conduct<M, F>(core: &Core<M>, name: &str, scenario: impl FnOnce(Findings) -> F + 'static)
where
    M: Machine,
    F: Future<Output = ()> + 'static,
{
    conduct_boxed(core, name, Box::new(|findings| Box::pin(scenario(findings))));
}

/// One for all scenarios.
fn conduct_boxed<M: Machine>(core: &Core<M>, name: &str, scenario: Box<Scenario>) {
    let findings = Findings::default();
    findings.0.borrow_mut().name = name.into();
    let over = Rc::new(Cell::new(false));
    let (conductor, watchdog) = (core.clone(), core.clone());
    let (noted, finished) = (findings.clone(), over.clone());
    core.spawn(async move {
        match conductor.all_running().await {
            Ok(booted) => {
                scenario(noted.clone()).await;
                finished.set(true);
                conclude(&conductor, &booted, &noted);
            }
            Err(status) => {
                finished.set(true);
                conductor.machine().log(format_args!("not all cores started: {status}"));
                conductor.finish(Outcome::Failure);
            }
        }
    });
    core.spawn(async move {
        watchdog.sleep(LIMIT).await;
        if !over.get() {
            findings.check(false, format_args!("not over after {} s", LIMIT.as_secs()));
            conclude(&watchdog, &Booted { took: Duration::ZERO }, &findings);
        }
    });
}

fn conclude<M: Machine>(core: &Core<M>, booted: &Booted, findings: &Findings) {
    let mut program = findings.0.borrow_mut();
    program.passed = program.failures.is_empty();
    match core.report(booted, Some(program.clone())) {
        Ok(report) => core.conclude(&report),
        Err(status) => {
            core.machine().log(format_args!("no report: {status}"));
            core.finish(Outcome::Failure);
        }
    }
}

/// Whether this core conducts the scenario.
pub fn conducts<M: Machine>(core: &Core<M>) -> bool {
    core.id() == CoreId::BOOT
}
