//! The boot report: what the node found, how long each step of its start took, and what each core
//! has counted. The kernel writes it as one JSON document and the command line reads it back with
//! the same types; fields may be added, none is ever renamed.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use nile_platform::{Board, Cause, CorePhase, Step};
use serde::{Deserialize, Serialize};

/// One booted node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Which machine: `qemu`, `kvm`, `bare`, `hosted`, `sim`.
    pub machine: String,
    /// Bytes of the kernel image, symbols not counted.
    pub image_bytes: u64,
    /// Microseconds from the first kernel instruction to every loop running.
    pub boot_us: u64,
    /// Where those microseconds went.
    pub steps: Vec<StepReport>,
    /// The node's memory.
    pub memory: MemoryReport,
    /// The node's cores, by id.
    pub cores: Vec<CoreReport>,
    /// What the machine can do, one line each.
    pub facts: Vec<String>,
    /// The end of the program that the node was started for, if that was more than to boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramReport>,
}

/// One step of the start.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StepReport {
    /// What was done.
    pub name: String,
    /// Microseconds it took.
    pub us: u64,
}

/// The node's memory, in bytes and in what could be given out now of each size.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MemoryReport {
    /// Usable memory.
    pub total_bytes: u64,
    /// What of it nobody holds.
    pub free_bytes: u64,
    /// Free 4 KiB frames, those of free collections included.
    pub free_4k: u64,
    /// Free 2 MiB collections, those of free 1 GiB collections included.
    pub free_2m: u64,
    /// Free 1 GiB collections.
    pub free_1g: u64,
    /// Memory that page tables take: every core's upper levels and the shared pool.
    pub table_bytes: u64,
    /// What they would take if every core had last-level tables of its own.
    pub private_table_bytes: u64,
    /// Last-level tables in the shared pool that no core uses.
    pub free_tables: u64,
    /// The buffers that all cores share, if the node has a pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolReport>,
    /// The regions that firmware names.
    pub regions: Vec<RegionReport>,
}

/// The node's pool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PoolReport {
    /// Its memory. It does not count as usable.
    pub bytes: u64,
    /// Bytes of each buffer.
    pub buffer_bytes: u64,
    /// How many buffers it has.
    pub buffers: u64,
    /// How many of them nobody has.
    pub free_buffers: u64,
}

/// One region of memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RegionReport {
    /// Its first byte.
    pub start: u64,
    /// Its length.
    pub bytes: u64,
    /// What it is for.
    pub kind: String,
}

/// One core.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CoreReport {
    /// Its number in the node.
    pub id: u16,
    /// What it is for.
    pub roles: Vec<String>,
    /// Its name in the machine: APIC id, thread or process id.
    pub hardware_id: u64,
    /// Its incarnation.
    pub generation: u32,
    /// How far it has come.
    pub state: String,
    /// Interrupts since the node started, by cause.
    pub interrupts: BTreeMap<String, u64>,
    /// Those of them that came while it slept, and broke into nothing.
    pub wakes: u64,
    /// Passes of its loop.
    pub turns: u64,
    /// Times it went to sleep.
    pub sleeps: u64,
    /// System calls of its packages.
    #[serde(default)]
    pub system_calls: u64,
    /// Why its last incarnation that ended did so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<FaultReport>,
}

/// Why an incarnation of a core ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FaultReport {
    /// What happened.
    pub kind: String,
    /// The machine's code for it.
    pub code: u64,
    /// The instruction's address.
    pub at: u64,
    /// The address that was touched.
    pub address: u64,
}

/// How a program that the node was started for ended.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ProgramReport {
    /// Its name.
    pub name: String,
    /// Whether everything it checked held.
    pub passed: bool,
    /// What did not hold.
    pub failures: Vec<String>,
    /// What it measured.
    pub figures: BTreeMap<String, u64>,
}

impl From<&Step> for StepReport {
    fn from(step: &Step) -> StepReport {
        StepReport { name: step.name.to_string(), us: step.micros }
    }
}

/// What the board says about every core.
pub fn cores(board: &Board) -> Vec<CoreReport> {
    let report = |id: nile_abi::CoreId| {
        let record = board.record(id);
        CoreReport {
            id: id.0,
            roles: record.roles().iter().map(|role| role.name().to_string()).collect(),
            hardware_id: record.hardware_id(),
            generation: record.generation().0,
            state: record.phase().name().to_string(),
            interrupts: Cause::ALL
                .into_iter()
                .map(|cause| (cause.name().to_string(), record.interrupts(cause)))
                .collect(),
            wakes: record.wakes(),
            turns: record.turns(),
            sleeps: record.sleeps(),
            system_calls: record.system_calls(),
            fault: record.fault().map(|fault| FaultReport {
                kind: fault.kind_name().to_string(),
                code: fault.code,
                at: fault.at,
                address: fault.address,
            }),
        }
    };
    board.core_ids().map(report).collect()
}

/// Whether every core's loop runs.
pub fn all_running(board: &Board) -> bool {
    let is_in = |phase| matches!(phase, CorePhase::Running | CorePhase::Away);
    board.core_ids().all(|core| is_in(board.record(core).phase()))
}
