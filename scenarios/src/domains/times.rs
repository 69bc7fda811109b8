//! How long commands about domains take on a PC, a round after the other: to make a domain and to
//! end it, by its own doing and by force, and to give a domain a core or memory and take that back.
//! `nile bench hotplug` has Linux do the same in the same machine.

use alloc::format;
use core::time::Duration;

use nile_domain::{Command, Create, Limits, Name, Phase, Resize};
use nile_kernel::Core;
use nile_platform::Machine;

use super::supervise::Running;
use crate::arguments::Arguments;
use crate::conduct::{Findings, conduct, conducts};

/// What a domain is made with: 2 cores and 128 MiB.
const CORES: u16 = 2;
const UNITS: u32 = 64;

/// The memory that it gets beside that: 512 MiB.
const MORE: u32 = 256;

/// How long cores and memory may take to be free again.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts this core's part: so many `rounds`, in which each is done so many `times`.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    if !conducts(core) {
        return;
    }
    let rounds = arguments.number("rounds", 3);
    let times = arguments.number("times", 1);
    let core = core.clone();
    conduct(&core.clone(), "domain-times", move |findings| async move {
        match (Running::new(&core), Name::new(b"web")) {
            (Some(mut running), Some(name)) => {
                running.are_nodes = true;
                let mut clock = Clock { core, running, findings, name, times };
                clock.running.all_parked(PATIENCE).await;
                clock.rounds(rounds).await;
            }
            _ => findings.check(false, format_args!("this node supervises no machine")),
        }
    });
}

struct Clock<M: Machine> {
    core: Core<M>,
    running: Running<M>,
    findings: Findings,
    name: Name,
    times: u64,
}

impl<M: Machine> Clock<M> {
    async fn rounds(&mut self, rounds: u64) {
        let limits = Limits { cores: (1, CORES + 1), units: (1, UNITS + MORE), priority: 0 };
        let create = Command::Create(Create {
            name: self.name,
            cores: CORES,
            units: UNITS,
            limits,
            device: None,
        });
        let destroy = |force| Command::Destroy { name: self.name, force };
        let (asked, forced) = (destroy(false), destroy(true));
        let (cores, memory) = (|it| self.resize(Some(it), None), |it| self.resize(None, Some(it)));
        let (core_more, core_less) = (cores(CORES + 1), cores(CORES));
        let (memory_more, memory_less) = (memory(UNITS + MORE), memory(UNITS));
        for round in 0..rounds {
            self.both(round, ["create", "destroy"], [&create, &asked]).await;
            self.both(round, ["create again", "destroy by force"], [&create, &forced]).await;
            self.carry_out(&create).await;
            self.both(round, ["core more", "core less"], [&core_more, &core_less]).await;
            self.both(round, ["memory more", "memory less"], [&memory_more, &memory_less]).await;
            self.carry_out(&asked).await;
            self.settle("the end").await;
        }
    }

    fn resize(&self, cores: Option<u16>, units: Option<u32>) -> Command {
        Command::Resize(Resize { name: self.name, cores, units, force: false })
    }

    /// Measures a command and the one that undoes it.
    async fn both(&mut self, round: u64, names: [&str; 2], [there, back]: [&Command; 2]) {
        for (name, last, other) in [(names[0], there, back), (names[1], back, there)] {
            let begun = self.core.now();
            for time in 0..self.times {
                if time > 0 {
                    self.carry_out(other).await;
                    self.settle(name).await;
                }
                self.carry_out(last).await;
            }
            let took = self.core.now().since(begun).as_micros() as u64;
            self.findings.figure(format!("{name} {round}"), took);
            self.settle(name).await;
        }
    }

    /// Waits until what was given back is zero: no command waits for what one before has left.
    async fn settle(&mut self, after: &str) {
        let is_clean = |it: &Running<M>| it.ledger().units_with(|it| it.phase == Phase::Dirty) == 0;
        let clean = self.running.until(PATIENCE, is_clean).await;
        self.findings.check(clean, format_args!("memory stays dirty after {after}"));
    }

    async fn carry_out(&mut self, command: &Command) {
        let done = self.running.carry_out(command).await;
        self.findings.expect(done, &format!("{command:?}"));
    }
}
