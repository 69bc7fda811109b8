//! What samples say, as tables: what the cores of each role did with their time, and the functions
//! with most time of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::Core;
use super::stacks::{Folded, KERNEL, PACKAGE};
use crate::table;

/// Functions that are shown of a role.
const SHOWN: usize = 8;

/// Characters of a function's name that are shown.
const WIDTH: usize = 90;

/// What the cores of a role did; the shares are of their time, from 0 to 1.
#[derive(Clone, PartialEq, Debug)]
pub struct Share {
    role: String,
    cores: usize,
    package: f64,
    kernel: f64,
    linux: f64,
}

/// A function; the share is of the processor time of the role's cores.
#[derive(Clone, PartialEq, Debug)]
pub struct Function {
    role: String,
    share: f64,
    mode: &'static str,
    name: String,
}

/// What the cores of each role did in `took`, in which the timer of each goes round `rate` times a
/// second.
pub fn shares(
    folded: &BTreeMap<Folded, u64>,
    cores: &[&Core],
    took: Duration,
    rate: u32,
) -> Vec<Share> {
    let mut roles: BTreeMap<String, usize> = BTreeMap::new();
    cores.iter().for_each(|core| *roles.entry(core.role()).or_default() += 1);
    let share = |(role, cores): (String, usize)| {
        let all = (cores as f64 * took.as_secs_f64() * f64::from(rate)).max(1.0);
        let part = |is_part: &dyn Fn(&Folded) -> bool| {
            let own = folded.iter().filter(|(it, _)| it.role == role && is_part(it));
            own.map(|(_, periods)| *periods).sum::<u64>() as f64 / all
        };
        let package = part(&|it| it.mode == PACKAGE);
        let kernel = part(&|it| it.mode == KERNEL && !it.is_linux());
        let linux = part(&|it| it.is_linux());
        Share { role, cores, package, kernel, linux }
    };
    roles.into_iter().map(share).collect()
}

impl Share {
    /// What is left: asleep, or waiting for a processor.
    fn idle(&self) -> f64 {
        (1.0 - self.package - self.kernel - self.linux).max(0.0)
    }
}

/// The functions with most time of their own, role by role.
pub fn functions(folded: &BTreeMap<Folded, u64>) -> Vec<Function> {
    let mut roles: BTreeMap<&str, BTreeMap<(&'static str, &str), u64>> = BTreeMap::new();
    for (stack, periods) in folded {
        let role = roles.entry(&stack.role).or_default();
        *role.entry((stack.mode, stack.leaf())).or_default() += periods;
    }
    let top = |(role, found): (&str, BTreeMap<(&'static str, &str), u64>)| {
        let all = found.values().sum::<u64>() as f64;
        let function = |((mode, name), periods): ((&'static str, &str), u64)| Function {
            role: role.into(),
            share: periods as f64 / all,
            mode,
            name: name.into(),
        };
        let mut functions: Vec<Function> = found.into_iter().map(function).collect();
        functions.sort_by(|one, other| other.share.total_cmp(&one.share));
        functions.truncate(SHOWN);
        functions
    };
    roles.into_iter().flat_map(top).collect()
}

fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// Both as tables.
pub fn text(shares: &[Share], functions: &[Function]) -> String {
    let title = ["cores", "number", "package %", "kernel %", "Linux %", "idle %"];
    let row = |it: &Share| {
        let times = [it.package, it.kernel, it.linux, it.idle()].map(percent);
        [vec![it.role.clone(), it.cores.to_string()], times.to_vec()].concat()
    };
    let shares = with_title(title.map(String::from).to_vec(), shares.iter().map(row));
    let title = ["cores", "self %", "in", "function"];
    let row =
        |it: &Function| vec![it.role.clone(), percent(it.share), it.mode.into(), short(&it.name)];
    let functions = with_title(title.map(String::from).to_vec(), functions.iter().map(row));
    format!("{shares}\n{functions}")
}

fn with_title(title: Vec<String>, rows: impl Iterator<Item = Vec<String>>) -> String {
    table::columns("", &std::iter::once(title).chain(rows).collect::<Vec<_>>())
}

fn short(name: &str) -> String {
    match name.char_indices().nth(WIDTH) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name.into(),
    }
}

/// Both as JSON.
pub fn documents(shares: &[Share], functions: &[Function]) -> (Vec<Value>, Vec<Value>) {
    let share = |it: &Share| {
        json!({
            "role": it.role, "cores": it.cores, "package_share": it.package,
            "kernel_share": it.kernel, "linux_share": it.linux, "idle_share": it.idle(),
        })
    };
    let function = |it: &Function| {
        let Function { role, share, mode, name } = it;
        json!({ "role": role, "self_share": share, "in": mode, "function": name })
    };
    (shares.iter().map(share).collect(), functions.iter().map(function).collect())
}

#[cfg(test)]
mod tests {
    use super::super::names::Programs;
    use super::super::stacks::{fold, tests::collected};
    use super::super::tests::seen;
    use super::*;

    #[test]
    fn shares_are_of_the_time_of_all_cores_of_a_role() {
        let (seen, collected) = (seen(), collected());
        let folded = fold(&collected, &seen.cores, &mut Programs::none());
        let cores: Vec<&Core> = seen.cores.iter().collect();
        let shares = shares(&folded, &cores, collected.took, 100);
        let expected = [("management", 1, 0.0, 0.05, 0.0), ("worker", 2, 0.2, 0.0, 0.02)];
        let expected = expected.map(|(role, cores, package, kernel, linux)| Share {
            role: role.into(),
            cores,
            package,
            kernel,
            linux,
        });
        assert_eq!(shares, expected);
        assert!((shares[1].idle() - 0.78).abs() < 1e-9);
        let functions = functions(&folded);
        let said: Vec<(&str, &str, &str)> =
            functions.iter().map(|it| (it.role.as_str(), it.mode, it.name.as_str())).collect();
        let expected = [
            ("management", KERNEL, "[library]"),
            ("unknown", KERNEL, ""),
            ("worker", PACKAGE, "[library]"),
            ("worker", KERNEL, "[Linux]"),
        ];
        assert_eq!(said, expected);
        assert!((functions[2].share - 40.0 / 44.0).abs() < 1e-9);
        let text = text(&shares, &functions);
        assert!(
            text.contains("worker           2       20.0       0.0      2.0    78.0"),
            "{text}"
        );
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        assert_eq!(short(&"é".repeat(200)).chars().count(), WIDTH + 1);
        assert_eq!(short("main"), "main");
    }
}
