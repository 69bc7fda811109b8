//! A node in QEMU: the kernel file by its PVH entry, or an ISO image through firmware and GRUB.
//! Log and report share the serial line.

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nile_abi::MacAddress;
use tempfile::{NamedTempFile, TempDir};

use super::{Node, NodeEnd, Ran};
use crate::args::{Boot, Firmware};
use crate::child;
use crate::config;
use crate::disk::Files;
use crate::failure::Failure;
use crate::needs::{self, KERNEL, KERNEL_SYMBOLS, ROOT, SCENARIOS, SCENARIOS_SYMBOLS};
use crate::packages;
use crate::path;
use crate::symbols::Symbols;

/// Where Debian's package `ovmf` puts the UEFI firmware and its empty variables.
const OVMF: &str = "/usr/share/OVMF/OVMF_CODE_4M.fd";
const OVMF_VARIABLES: &str = "/usr/share/OVMF/OVMF_VARS_4M.fd";

/// The most cores that QEMU's emulation has interrupt controllers for.
const MOST_CORES: u16 = 255;

/// Runs a node in QEMU to its end.
pub fn boot(options: &Boot) -> Result<Ran, Failure> {
    check_cores(options.cores)?;
    let mut command = child::command(program()?);
    machine(&mut command, options.cores, options.memory.0, options.count_instructions);
    if options.iommu {
        iommu(&mut command);
    }
    if let Some(cpu) = &options.cpu {
        // The last one counts.
        command.args(["-cpu", cpu]);
    }
    // These live until the node has ended.
    let disks = Files::prepare(&options.disks)?;
    disks.to_qemu(&mut command, options.disk_bus, options.iommu);
    let mut firmware_state = None;
    let archive = packages::archive(options, options.config.as_ref())?;
    let config = options.config.as_ref().map(config::File::handed_on).transpose()?;
    match &options.iso {
        None => {
            let config = config.as_ref().map(config::Handed::path);
            let module = archive.as_ref().map(NamedTempFile::path).or(config);
            kernel(&mut command, kernel_of(options).0, options.program.as_str(), module)?;
        }
        Some(iso) => firmware_state = image(&mut command, iso, options.firmware)?,
    }
    let provided = |name| std::env::var_os(name).map(PathBuf::from);
    let symbols = Symbols::new(provided(kernel_of(options).1), provided(ROOT));
    let from_image = options.iso.is_some();
    let node = Node { name: "QEMU", symbols: &symbols };
    let ran = node.run(options, &mut command, |status| match status {
        // An image knows nothing of QEMU: its kernel powers the machine off, as on real ones.
        Some(0) if from_image => Some(NodeEnd::Success),
        // QEMU's debug exit turns the kernel's value V into the status 2V + 1.
        Some(33) => Some(NodeEnd::Success),
        Some(35) => Some(NodeEnd::Failure),
        Some(37) => Some(NodeEnd::WrongRequest),
        _ => None,
    });
    drop((firmware_state, archive, config, disks));
    ran
}

/// Refuses more cores than QEMU has.
pub fn check_cores(cores: u16) -> Result<(), Failure> {
    match cores > MOST_CORES {
        true => Err(Failure::request(format!(
            "--cores {cores} is more than the {MOST_CORES} that QEMU emulates"
        ))),
        false => Ok(()),
    }
}

/// QEMU itself.
pub fn program() -> Result<PathBuf, Failure> {
    needs::tool("qemu-system-x86_64", "qemu-system-x86")
}

/// The machine itself, with so many bytes of memory: nothing in it but what a node uses. Its
/// serial line is QEMU's standard output.
pub fn machine(command: &mut Command, cores: u16, memory: u64, count_instructions: bool) {
    match (count_instructions, kvm()) {
        // The cores take turns, and when all sleep, time jumps to the next timer.
        (true, _) => command
            .args(["-accel", "tcg,thread=single", "-cpu", "max"])
            .args(["-icount", "shift=0,sleep=off"]),
        (false, true) => command.args(["-accel", "kvm", "-cpu", "host"]),
        (false, false) => command.args(["-accel", "tcg,thread=multi", "-cpu", "max"]),
    };
    command.args(["-machine", "q35", "-nodefaults", "-no-user-config", "-no-reboot"]);
    command.args(["-display", "none", "-serial", "stdio", "-monitor", "none"]);
    command.args(["-smp", &cores.to_string()]);
    command.args(["-m", &format!("{memory}B")]);
}

/// Gives the machine an IOMMU, which devices go through that come after it and say so.
pub fn iommu(command: &mut Command) {
    command.args(["-device", "intel-iommu"]);
}

/// Which kernel the node boots, and which is the same with symbols: scenarios have one of their
/// own.
fn kernel_of(options: &Boot) -> (&'static str, &'static str) {
    match options.only_boots() || options.iso.is_some() {
        true => (KERNEL, KERNEL_SYMBOLS),
        false => (SCENARIOS, SCENARIOS_SYMBOLS),
    }
}

/// Whether this host can run guests natively. A device file alone says nothing: it can be there
/// on a host whose own machine does not let it use the feature.
fn kvm() -> bool {
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let capable = flags.split_whitespace().any(|flag| flag == "vmx" || flag == "svm");
    capable && OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok()
}

/// Has the machine boot the kernel that the environment provides as `image`, and run `program`.
pub fn kernel(
    command: &mut Command,
    image: &str,
    program: &str,
    module: Option<&Path>,
) -> Result<(), Failure> {
    load(command, &needs::provided(image)?, &format!("exit=debug program={program}"), module);
    command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]);
    Ok(())
}

/// Has the machine boot a kernel's file with this command line and, maybe, this module.
pub fn load(command: &mut Command, image: &Path, line: &str, module: Option<&Path>) {
    command.arg("-kernel").arg(image).arg("-append").arg(line);
    if let Some(module) = module {
        command.arg("-initrd").arg(module);
    }
}

/// Gives the machine its network card of this number, whose frames go to whoever connects to
/// `socket`, four bytes with their length before each.
pub fn card(command: &mut Command, index: usize, socket: &Path, address: MacAddress) {
    let port = format!("stream,id=net{index},server=on,addr.type=unix,addr.path=");
    command.arg("-netdev").arg(path::joined(port, path::qemu_listed(socket)));
    let address = address.0.map(|byte| format!("{byte:02x}")).join(":");
    let device = format!("virtio-net-pci,netdev=net{index},romfile=,mac={address}");
    command.args(["-device", &device]);
}

fn image(
    command: &mut Command,
    iso: &Path,
    firmware: Firmware,
) -> Result<Option<TempDir>, Failure> {
    let wrong = |why: &dyn Display| Failure::request(format!("--iso {}: {why}", iso.display()));
    let kind = iso.metadata().map_err(|error| wrong(&error))?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(wrong(&"it is neither a regular file nor a block device"));
    }
    fs::File::open(iso).map_err(|error| wrong(&error))?;
    command.args(["-boot", "d", "-cdrom"]).arg(path::qemu(iso));
    match firmware {
        Firmware::Bios => Ok(None),
        Firmware::Uefi => uefi(command).map(Some),
    }
}

/// Puts OVMF in place of SeaBIOS. It writes to its variables, so each run has its own.
fn uefi(command: &mut Command) -> Result<TempDir, Failure> {
    if !Path::new(OVMF).exists() {
        return Err(Failure::request(format!(
            "{OVMF} is missing; install it with: sudo apt-get install ovmf"
        )));
    }
    let cannot = |error| Failure::failed(format!("cannot copy {OVMF_VARIABLES}: {error}"));
    let folder = tempfile::tempdir().map_err(cannot)?;
    let variables = folder.path().join("variables.fd");
    fs::copy(OVMF_VARIABLES, &variables).map_err(cannot)?;
    command.args(["-drive", &format!("if=pflash,format=raw,readonly=on,file={OVMF}")]);
    let variables = path::qemu_listed(&variables);
    command.arg("-drive").arg(path::joined("if=pflash,format=raw,file=", variables));
    Ok(folder)
}
