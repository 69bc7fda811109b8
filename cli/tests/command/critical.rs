//! Instructions that could undo what keeps a domain to its part, in a kernel's code as a
//! disassembler reads it (`objdump` of binutils).

use std::path::Path;
use std::process::Command;

/// Writes to model-specific registers and descriptor tables; the caches dropped; ports. Writes to
/// control and debug registers are told by their operands.
const CRITICAL: [&str; 14] = [
    "wrmsr", "lgdt", "lidt", "lldt", "ltr", "lmsw", "xsetbv", "invd", "wbinvd", "vmxon",
    "vmlaunch", "getsec", "out", "outs",
];

/// Where critical instructions are in what spaces map as code, and whether that is where they may
/// be: from `critical_start` to `critical_end`, and on the page that is the way into a space.
pub fn found(image: &Path) -> Vec<(String, bool)> {
    let places = objdump(image, &["--syms"]);
    let place = |name: &str| {
        let line = places.lines().find(|line| line.ends_with(&format!(" {name}")));
        let word = line.and_then(|line| line.split(' ').next()).expect("the image has its symbols");
        u64::from_str_radix(word, 16).expect("a symbol has an address")
    };
    let allowed = [("critical_start", "critical_end"), ("gate_start", "gate_end")];
    let allowed = allowed.map(|(start, end)| place(start)..place(end));
    let code = objdump(
        image,
        &["--disassemble", "-M", "intel", "--no-show-raw-insn", "-j", ".text", "-j", ".gate"],
    );
    let lines = code.lines().filter_map(|line| line.split_once(":\t"));
    let mut found = Vec::new();
    for (at, instruction) in lines.filter(|(_, instruction)| is_critical(instruction)) {
        let at = u64::from_str_radix(at.trim(), 16).expect("an instruction has an address");
        found.push((format!("{at:#x}: {instruction}"), allowed.iter().any(|it| it.contains(&at))));
    }
    found
}

fn is_critical(instruction: &str) -> bool {
    let (name, operands) = instruction.split_once(' ').unwrap_or((instruction, ""));
    let first = operands.trim_start();
    let writes = |kind: &str| first.starts_with(kind) && !first.starts_with("cr2,");
    CRITICAL.contains(&name.trim()) || name == "mov" && (writes("cr") || writes("dr"))
}

fn objdump(image: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("objdump");
    let output = command.args(arguments).arg(image).output();
    let output = output.expect("objdump is installed: Debian's package binutils");
    assert!(output.status.success(), "{}: {:?}", image.display(), output.status);
    String::from_utf8(output.stdout).expect("objdump writes text")
}
