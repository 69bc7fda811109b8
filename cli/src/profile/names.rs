//! What is at the addresses of samples: functions, by the symbols of the node's program and of the
//! package.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::Path;
use std::rc::Rc;

use addr2line::Loader;
use nile_abi::NodeId;
use nile_package::Package;
use nile_platform_hosted::samples::Frame;

use crate::needs::{HOSTED, KERNEL_SYMBOLS, PACKAGES, PACKAGES_SYMBOLS};

/// What is in no file of ours: the C library as a rule.
pub const LIBRARY: &str = "[library]";

/// What is behind the name of a function that was inlined, as tools for flame graphs have it.
pub const INLINED: &str = "_[i]";

/// Where code is without a name.
const UNKNOWN: &str = "[unknown]";

/// Functions by their addresses.
pub struct Names {
    program: Option<Loader>,
    package: Option<(Loader, u64)>,
    known: HashMap<(Frame, bool), Rc<[String]>>,
}

/// What runs on nodes of both sorts.
pub struct Programs {
    hosted: Names,
    qemu: Names,
    in_qemu: Vec<NodeId>,
}

impl Programs {
    /// With the project's package of this name. The nodes `in_qemu` are; the others are hosted.
    pub fn of_package(package: &str, in_qemu: Vec<NodeId>) -> Programs {
        let [hosted, qemu] = [HOSTED, KERNEL_SYMBOLS].map(|program| Names::of(program, package));
        Programs { hosted, qemu, in_qemu }
    }

    /// What runs on a node.
    pub fn of(&mut self, node: NodeId) -> &mut Names {
        if self.in_qemu.contains(&node) { &mut self.qemu } else { &mut self.hosted }
    }
}

impl Names {
    /// Those of a node whose program is where `program` says and that runs the project's package of
    /// this name. Where files have no symbols, or are not there, code has no name.
    fn of(program: &str, package: &str) -> Names {
        let path = |variable: &str| env::var_os(variable).map(std::path::PathBuf::from);
        let program = path(program).and_then(|path| Loader::new(path).ok());
        let packaged = path(PACKAGES).and_then(|it| entry(&it.join(format!("{package}.elf"))));
        let symbols = path(PACKAGES_SYMBOLS).and_then(|it| Loader::new(it.join(package)).ok());
        Names { program, package: symbols.zip(packaged), known: HashMap::new() }
    }

    /// The function at a frame, and behind it those that were inlined there, outermost first.
    /// `is_leaf` says that this very instruction is meant, and not the call before it.
    pub fn at(&mut self, frame: Frame, is_leaf: bool) -> Rc<[String]> {
        if let Some(known) = self.known.get(&(frame, is_leaf)) {
            return known.clone();
        }
        let before = u64::from(!is_leaf);
        let found = match (frame, &self.program, &self.package) {
            (Frame::Elsewhere, ..) => vec![LIBRARY.into()],
            (Frame::Program(at), Some(program), _) => {
                functions(program, address(at).wrapping_sub(before))
            }
            (Frame::Package(at), _, Some((symbols, entry))) => {
                functions(symbols, entry.wrapping_add_signed(at).wrapping_sub(before))
            }
            _ => vec![UNKNOWN.into()],
        };
        let found: Rc<[String]> = found.into();
        self.known.insert((frame, is_leaf), found.clone());
        found
    }
}

/// Where code is in the file of its program: an address that does not move has lost its upper byte,
/// which is as its uppermost bit.
fn address(at: u64) -> u64 {
    ((at << 8) as i64 >> 8) as u64
}

/// The entry point of the package at `path`.
fn entry(path: &Path) -> Option<u64> {
    let file = fs::read(path).ok()?;
    Package::parse(&file).ok().map(|package| package.entry())
}

fn functions(symbols: &Loader, address: u64) -> Vec<String> {
    if address == u64::MAX {
        // No instruction is there, and what finds functions would look behind it.
        return vec![UNKNOWN.into()];
    }
    // The symbol has the whole path of the function; what debuggers read has less of it.
    let mut names = vec![symbols.find_symbol(address).map_or(UNKNOWN.into(), readable)];
    let mut inlined = Vec::new();
    let mut frames = symbols.find_frames(address).ok();
    while let Some(Ok(Some(frame))) = frames.as_mut().map(|frames| frames.next()) {
        let name = frame.function.as_ref().and_then(|it| it.raw_name().ok());
        inlined.push(name.map_or(UNKNOWN.into(), |name| readable(&name) + INLINED));
    }
    // The outermost is the function itself.
    inlined.pop();
    names.extend(inlined.into_iter().rev());
    names
}

/// A symbol as people read it: without the hash, and without what would end a frame of a folded
/// stack.
fn readable(symbol: &str) -> String {
    let name = addr2line::demangle_auto(symbol.into(), None);
    let hash = |it: &&str| it.len() == 16 && it.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = match name.rsplit_once("::h") {
        Some((front, _)) if name.rsplit("::h").next().as_ref().is_some_and(hash) => front,
        _ => &name,
    };
    name.replace(';', ",").replace(['\n', '\r'], " ")
}

#[cfg(test)]
impl Programs {
    /// Nothing has a name.
    pub fn none() -> Programs {
        Programs { hosted: Names::none(), qemu: Names::none(), in_qemu: Vec::new() }
    }
}

#[cfg(test)]
impl Names {
    fn none() -> Names {
        Names { program: None, package: None, known: HashMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn here() -> u64 {
        std::hint::black_box(5)
    }

    /// This program with its symbols.
    fn own() -> Names {
        let program = Loader::new(env::current_exe().unwrap()).ok();
        Names { program, ..Names::none() }
    }

    /// How far behind the start of this program an address is.
    fn offset(address: usize) -> u64 {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let program = env::current_exe().unwrap();
        let line = maps.lines().find(|it| it.ends_with(program.to_str().unwrap())).unwrap();
        (address - usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap()) as u64
    }

    #[test]
    fn code_has_the_name_of_its_function() {
        assert_eq!(here(), 5);
        let at = Frame::Program(offset(here as fn() -> u64 as usize));
        let mut names = own();
        for _ in 0..2 {
            let found = names.at(at, true);
            assert!(found[0].ends_with("names::tests::here"), "{found:?}");
        }
        // What returns to the first instruction was called by another function.
        assert!(!names.at(at, false)[0].ends_with("names::tests::here"));
        assert_eq!(*names.at(Frame::Elsewhere, true), [LIBRARY.to_string()]);
        assert_eq!(*names.at(Frame::Package(4), true), [UNKNOWN.to_string()]);
        assert_eq!(*names.at(Frame::Program(u64::MAX >> 8), true), [UNKNOWN.to_string()]);
    }

    #[test]
    fn an_address_that_does_not_move_is_whole_again() {
        let kernel = 0xffff_ffff_8014_514a;
        assert_eq!(address(kernel & ((1 << 56) - 1)), kernel);
        assert_eq!(address(0x1234_5678), 0x1234_5678);
    }

    #[test]
    fn names_are_what_a_folded_stack_can_have() {
        assert_eq!(readable("_ZN4core3ptr4drop17h0123456789abcdefE"), "core::ptr::drop");
        assert_eq!(readable("main"), "main");
        assert_eq!(readable("a;b\nc"), "a,b c");
    }
}
