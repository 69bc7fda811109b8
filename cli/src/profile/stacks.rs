//! Stacks as text: one a line, the root first, with how often it was found behind it. That is what
//! tools for flame graphs read, and what the tables are made of.
//!
//! The root is the role of the core; then comes whether the kernel or a package was interrupted,
//! then the functions. Where the kernel was in a system call of Linux's, the last one is
//! [`LINUX`].

use std::collections::BTreeMap;

use nile_platform_hosted::samples::{Frame, Mode};

use super::Core;
use super::names::{INLINED, Names, Programs};
use super::samples::{Collected, Stack};

/// What stands for all that Linux does in a system call.
pub const LINUX: &str = "[Linux]";

/// A stack with names, and what whoever counts stacks wants to know of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Folded {
    pub role: String,
    pub mode: &'static str,
    /// Outermost first.
    pub functions: Vec<String>,
}

/// The kernel and its services.
pub const KERNEL: &str = "kernel";
/// The code of a job.
pub const PACKAGE: &str = "package";

impl Folded {
    /// The function that was interrupted; what is inlined into it counts as its own.
    pub fn leaf(&self) -> &str {
        let mut own = self.functions.iter().rev().filter(|it| !it.ends_with(INLINED));
        own.next().map_or("", String::as_str)
    }

    /// Whether Linux was at work.
    pub fn is_linux(&self) -> bool {
        self.leaf() == LINUX
    }
}

/// How often each stack with names was found, in periods of the timer.
pub fn fold(all: &Collected, cores: &[Core], programs: &mut Programs) -> BTreeMap<Folded, u64> {
    let mut folded = BTreeMap::new();
    for (stack, periods) in &all.stacks {
        *folded.entry(named(stack, cores, programs.of(stack.node))).or_default() += periods;
    }
    folded
}

fn named(stack: &Stack, cores: &[Core], names: &mut Names) -> Folded {
    let core = cores.iter().find(|it| (it.node, it.core) == (stack.node, stack.core));
    let role = core.map_or("unknown".into(), Core::role);
    let mode = if stack.mode == Mode::Package { PACKAGE } else { KERNEL };
    let mut functions: Vec<String> = Vec::new();
    for (index, frame) in own(stack).iter().enumerate().rev() {
        functions.extend(names.at(*frame, index == 0).iter().cloned());
    }
    if stack.mode == Mode::Linux {
        functions.push(LINUX.into());
    }
    Folded { role, mode, functions }
}

/// The frames of whoever was interrupted: below a package's are those of the kernel that has
/// started it.
fn own(stack: &Stack) -> &[Frame] {
    let is_package = |frame: &Frame| matches!(frame, Frame::Package(_));
    match stack.frames.iter().rposition(is_package) {
        Some(last) if stack.mode == Mode::Package => &stack.frames[..=last],
        _ => &stack.frames,
    }
}

/// As text.
pub fn text(folded: &BTreeMap<Folded, u64>) -> String {
    let line = |(stack, periods): (&Folded, &u64)| {
        let frames = [stack.role.as_str(), stack.mode].into_iter();
        let frames: Vec<&str> = frames.chain(stack.functions.iter().map(String::as_str)).collect();
        format!("{} {periods}\n", frames.join(";"))
    };
    folded.iter().map(line).collect()
}

#[cfg(test)]
pub mod tests {
    use nile_abi::{CoreId, NodeId};

    use super::super::tests::seen;
    use super::*;

    /// Stacks of two worker cores and of one that manages.
    pub fn collected() -> Collected {
        let stack = |node, core, mode, frames: &[Frame]| Stack {
            node: NodeId(node),
            core: CoreId(core),
            mode,
            frames: frames.to_vec(),
        };
        let (code, library) = (Frame::Package(1), Frame::Elsewhere);
        let stacks = [
            (stack(1, 2, Mode::Package, &[library, code, Frame::Program(7)]), 30),
            (stack(2, 2, Mode::Package, &[library, code]), 10),
            (stack(2, 2, Mode::Linux, &[library]), 4),
            (stack(1, 0, Mode::Kernel, &[library]), 5),
            (stack(9, 0, Mode::Kernel, &[]), 1),
        ];
        let took = std::time::Duration::from_secs(1);
        Collected { stacks: stacks.into_iter().collect(), samples: 17, lost: 3, took }
    }

    #[test]
    fn equal_stacks_are_one_line_with_their_sum() {
        let folded = fold(&collected(), &seen().cores, &mut Programs::none());
        let expected = "management;kernel;[library] 5\n\
                        unknown;kernel 1\n\
                        worker;kernel;[library];[Linux] 4\n\
                        worker;package;[unknown];[library] 40\n";
        assert_eq!(text(&folded), expected);
        let linux: Vec<bool> = folded.keys().map(Folded::is_linux).collect();
        assert_eq!(linux, [false, false, true, false]);
    }
}
