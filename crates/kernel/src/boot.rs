//! The first program of a node: wait until every core's loop runs, say what was found and how
//! long it took, and power off.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{Instant, Status};
use nile_platform::{CorePhase, Machine, Manager as _, Outcome};

use crate::core::Core;
use crate::pool::Pool;
use crate::report::{self, MemoryReport, ProgramReport, Report, StepReport};

/// How often the management core looks whether all cores run.
const LOOK: Duration = Duration::from_micros(50);

/// How long cores may take to start before the node gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A node whose loops all run.
pub struct Booted {
    /// From the first kernel instruction to every loop running.
    pub took: Duration,
}

impl<M: Machine> Core<M> {
    /// Waits until the loop of every core runs. `Timeout` if one does not start.
    pub async fn all_running(&self) -> Result<Booted, Status> {
        let board = self.machine.board();
        let before = self.now();
        while !report::all_running(board) {
            if self.now() - before > PATIENCE {
                return Err(Status::Timeout);
            }
            self.sleep(LOOK).await;
        }
        Ok(Booted { took: self.now() - Instant::START })
    }

    /// The node's boot report. Management core only: `Denied` elsewhere.
    pub fn report(
        &self,
        booted: &Booted,
        program: Option<ProgramReport>,
    ) -> Result<Report, Status> {
        let manager = self.manager.as_ref().ok_or(Status::Denied)?.borrow();
        let node = manager.node();
        let boot_us = booted.took.as_micros() as u64;
        let mut steps: Vec<StepReport> = node.steps.iter().map(StepReport::from).collect();
        let known: u64 = steps.iter().map(|step| step.us).sum();
        let us = boot_us.saturating_sub(known);
        steps.push(StepReport { name: "loops".to_string(), us });
        Ok(Report {
            machine: node.machine.clone(),
            image_bytes: node.image_bytes,
            boot_us,
            steps,
            memory: MemoryReport { pool: self.pool().map(Pool::report), ..manager.memory_report() },
            cores: report::cores(self.machine.board()),
            facts: node.facts.clone(),
            program,
        })
    }

    /// Prints a report for the program that started the node, and ends the node. Management core
    /// only.
    pub fn conclude(&self, report: &Report) {
        let passed = report.program.as_ref().is_none_or(|program| program.passed);
        let printed = self.print(report);
        self.finish(if passed && printed { Outcome::Success } else { Outcome::Failure });
    }

    /// Prints a report; whether that was possible.
    fn print(&self, report: &Report) -> bool {
        match (serde_json::to_string(report), self.machine.manager()) {
            (Ok(document), Some(manager)) => {
                manager.report(&document);
                true
            }
            _ => false,
        }
    }

    /// Boots, reports, powers off: what `nile boot` asks for.
    pub fn boot_and_report(&self) {
        self.boot(|core, report| core.conclude(report));
    }

    /// Boots, reports, and stays: a node of a cluster.
    pub fn boot_and_serve(&self) {
        self.boot(|core, report| {
            core.print(report);
        });
    }

    fn boot(&self, then: impl FnOnce(&Core<M>, &Report) + 'static) {
        if self.manager.is_none() {
            return;
        }
        let core = self.clone();
        self.spawn(async move {
            let report = match core.all_running().await {
                Ok(booted) => core.report(&booted, None),
                Err(status) => Err(status),
            };
            match report {
                Ok(report) => then(&core, &report),
                Err(status) => {
                    core.log_missing(status);
                    core.finish(Outcome::Failure);
                }
            }
        });
    }

    fn log_missing(&self, status: Status) {
        let board = self.machine.board();
        for core in board.core_ids() {
            let phase = board.record(core).phase();
            if phase != CorePhase::Running {
                self.machine.log(format_args!("core {core} is {}: {status}", phase.name()));
            }
        }
    }
}
