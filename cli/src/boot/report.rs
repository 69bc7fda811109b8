//! The boot report as a person reads it.

use nile_kernel::report::{CoreReport, Report};

use crate::size::Bytes;
use crate::table;

/// The report in tables, fit for a terminal.
pub fn describe(report: &Report) -> String {
    let mut text = format!(
        "{} booted in {}: {}, {}, kernel image {}\n",
        report.machine,
        millis(report.boot_us),
        count(report.cores.len() as u64, "core"),
        Bytes(report.memory.total_bytes),
        Bytes(report.image_bytes),
    );
    let steps: Vec<_> =
        report.steps.iter().map(|step| vec![step.name.clone(), millis(step.us)]).collect();
    section(&mut text, "start", &steps);
    section(&mut text, "cores", &cores(&report.cores));
    section(&mut text, "memory", &memory(report));
    let facts: Vec<_> = report.facts.iter().map(|fact| vec![fact.clone()]).collect();
    section(&mut text, "machine", &facts);
    if let Some(program) = &report.program {
        let verdict = if program.passed { "passed" } else { "failed" };
        let mut rows = vec![vec![verdict.to_string()]];
        rows.extend(program.failures.iter().map(|failure| vec![failure.clone()]));
        let figures = program.figures.iter();
        rows.extend(figures.map(|(name, value)| vec![name.clone(), value.to_string()]));
        section(&mut text, &program.name, &rows);
    }
    text
}

fn section(text: &mut String, title: &str, rows: &[Vec<String>]) {
    if !rows.is_empty() {
        text.push_str(&format!("\n{title}\n{}", table::columns("  ", rows)));
    }
}

fn cores(cores: &[CoreReport]) -> Vec<Vec<String>> {
    let title = ["id", "roles", "hardware", "generation", "state", "interrupts"];
    let mut rows = vec![title.map(String::from).to_vec()];
    for core in cores {
        let mut state = core.state.clone();
        if let Some(fault) = &core.fault {
            state.push_str(&format!(", after {} at {:#x}", fault.kind, fault.at));
        }
        rows.push(vec![
            format!("c{}", core.id),
            core.roles.join(", "),
            core.hardware_id.to_string(),
            core.generation.to_string(),
            state,
            interrupts(core),
        ]);
    }
    rows
}

/// The causes that have counted something.
fn interrupts(core: &CoreReport) -> String {
    let counted = core.interrupts.iter().filter(|(_, count)| **count > 0);
    let counted: Vec<_> = counted.map(|(cause, count)| format!("{cause} {count}")).collect();
    match counted.is_empty() {
        true => "none".into(),
        false => counted.join(", "),
    }
}

fn memory(report: &Report) -> Vec<Vec<String>> {
    let memory = &report.memory;
    let free = [
        count(memory.free_1g, "collection") + " of 1 GiB",
        format!("{} of 2 MiB", memory.free_2m),
        count(memory.free_4k, "single frame"),
    ];
    let tables = format!(
        "{}, {} with private tables; {} of the pool free",
        Bytes(memory.table_bytes),
        Bytes(memory.private_table_bytes),
        memory.free_tables,
    );
    [
        ("usable", Bytes(memory.total_bytes).to_string()),
        ("free", format!("{}: {}", Bytes(memory.free_bytes), free.join(", "))),
        ("page tables", tables),
    ]
    .map(|(name, value)| vec![name.to_string(), value])
    .to_vec()
}

fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn millis(micros: u64) -> String {
    format!("{}.{:03} ms", micros / 1000, micros % 1000)
}
