//! `nile domain attack`: a machine of its own in QEMU, on which a domain reaches for what is not
//! its own, with a guard and without one.

use std::collections::BTreeMap;
use std::io::Write;

use clap::Parser;
use nile_kernel::report::Report;
use nile_platform::Attack;
use serde_json::json;
use tempfile::NamedTempFile;

use super::args::AttackOptions;
use crate::args::{Boot, Command, Nile};
use crate::boot;
use crate::failure::Failure;
use crate::table;

/// What the supervisor of that machine keeps.
const KEEPS: &str = "[supervisor]\ncores = 1\nmemory = \"96M\"\ndisks = 0\n";

/// What is attacked, as the scenario's figures name it.
const AIMS: [&str; 10] = [
    "supervisor",
    "ledger",
    "domain",
    "core",
    "machine",
    "seat",
    "messages",
    "frames",
    "parked",
    "hold",
];

/// Runs all attacks, or one, and says for each whether it did harm. Blocks until the machine is
/// off.
pub fn run(options: &AttackOptions) -> Result<(), Failure> {
    if options.list {
        let rows: Vec<Vec<String>> =
            Attack::ALL.iter().map(|it| vec![it.name().into(), it.what().into()]).collect();
        return crate::print(&table::columns("", &rows));
    }
    let program = match wanted(options)? {
        Some(attack) => format!("domain-attacks attack={}", attack as u8),
        None => "domain-attacks".into(),
    };
    let mut config = NamedTempFile::new()
        .map_err(|error| Failure::failed(format!("a temporary file: {error}")))?;
    config
        .write_all(KEEPS.as_bytes())
        .map_err(|error| Failure::failed(format!("{}: {error}", config.path().display())))?;
    let (document, outcome) = boot::qemu::boot(&machine(&config, &program)?)?;
    let Some(document) = document else { return outcome };
    let report: Report = serde_json::from_str(&document)
        .map_err(|error| Failure::failed(format!("the node's report is damaged: {error}")))?;
    let program = report.program.ok_or_else(|| Failure::failed("the node reports no attacks"))?;
    tell(&program.figures, options.json)?;
    match &program.failures[..] {
        [] => outcome,
        wrong => Err(Failure::failed(wrong.join("\n"))),
    }
}

/// The attack that is wanted alone, if one is.
pub fn wanted(options: &AttackOptions) -> Result<Option<Attack>, Failure> {
    let Some(name) = options.name.as_deref() else { return Ok(None) };
    let found = Attack::ALL.into_iter().find(|it| it.name() == name);
    found.map(Some).ok_or_else(|| {
        Failure::request(format!("no attack `{name}`; `nile domain attack --list` shows all"))
    })
}

fn machine(config: &NamedTempFile, program: &str) -> Result<Boot, Failure> {
    let path = config.path().display().to_string();
    // The domain that attacks has the disk.
    let words = ["nile", "boot", "--cores", "4", "--memory", "256M", "--disk", "8M", "--iommu"];
    let words = words.into_iter().chain(["--config", &path]);
    let parsed = Nile::try_parse_from(words.chain(["--program", program]));
    match parsed.map_err(|error| Failure::failed(error.to_string()))?.command {
        Command::Boot(boot) => Ok(boot),
        _ => Err(Failure::failed("the machine cannot be described")),
    }
}

/// A line for each attack: on what, whether it did harm with a guard, and without.
fn tell(figures: &BTreeMap<String, u64>, as_json: bool) -> Result<(), Failure> {
    let of = |attack: &str, aim: &str, how: &str| {
        figures.get(&format!("{attack} {aim} {how}")).map(|harm| *harm != 0)
    };
    let said = |harm: Option<bool>, yes: &str, no: &str| match harm {
        Some(true) => yes.to_string(),
        Some(false) => no.to_string(),
        None => "-".into(),
    };
    let mut rows = vec![["attack", "on", "guarded", "without"].map(String::from).to_vec()];
    let mut document = Vec::new();
    for attack in Attack::ALL.map(Attack::name) {
        for aim in AIMS {
            let (guarded, without) = (of(attack, aim, "guarded"), of(attack, aim, "without"));
            if guarded.or(without).is_none() {
                continue;
            }
            let cells = [said(guarded, "broken", "contained"), said(without, "broken", "no harm")];
            rows.push([attack.into(), aim.into()].into_iter().chain(cells).collect());
            document.push(json!({ "attack": attack, "on": aim, "broken": guarded,
                "broken_without": without }));
        }
    }
    match as_json {
        true => crate::print(&format!("{}\n", json!({ "attacks": document }))),
        false => crate::print(&table::columns("", &rows)),
    }
}
