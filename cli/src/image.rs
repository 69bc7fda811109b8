//! `nile image`: the kernel and its configuration on an ISO image that GRUB starts by Multiboot2,
//! under BIOS and under UEFI.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::args::Image;
use crate::child;
use crate::config;
use crate::failure::Failure;
use crate::needs::{self, KERNEL, KERNEL_ONLY};
use crate::serial::Said;
use crate::size::Bytes;
use crate::write;

/// What GRUB does: the serial line is the console where there is one, and nothing is asked.
const GRUB_CONFIGURATION: &str = "\
if serial --unit=0 --speed=115200; then terminal_output --append serial; fi
multiboot2 /boot/nile program=boot
module2 /boot/nile.toml nile.toml
boot
";

/// The GRUB modules that the image carries: what the configuration above uses, and every kind of
/// partition that GRUB's own start looks for.
const GRUB_MODULES: &str = "multiboot2 normal iso9660 all_video serial test \
    part_acorn part_amiga part_apple part_bsd part_dfly part_dvh part_gpt part_msdos part_plan \
    part_sun part_sunpc";

/// Making an image takes about a second.
const LIMIT: Duration = Duration::from_secs(120);

/// Writes the image. The file appears whole or not at all.
pub fn run(options: &Image) -> Result<(), Failure> {
    check(options)?;
    let kernel = needs::provided(if options.only.is_empty() { KERNEL } else { KERNEL_ONLY })?;
    let grub = needs::tool("grub-mkrescue", "grub-common grub-pc-bin grub-efi-amd64-bin")?;
    needs::tool("xorriso", "xorriso")?;
    needs::tool("mformat", "mtools")?;
    needs::tool("xz", "xz-utils")?;
    let failed = |error: io::Error| {
        Failure::failed(format!("{}: cannot lay out its files: {error}", options.iso.display()))
    };
    Failure::at_signals()?;
    let work = tempfile::tempdir().map_err(failed)?;
    let tree = work.path().join("tree");
    let config = options.config.as_ref().map_or(Ok(""), config::File::text)?;
    fill(&tree, &kernel, config).map_err(failed)?;
    let unfinished = work.path().join("image.iso");
    make(&grub, work.path(), &tree, &unfinished)?;
    let image = fs::read(&unfinished).map_err(failed)?;
    let written = write::all(&options.iso, &image)?;
    let size = Bytes(image.len() as u64);
    written.say(&format!("{}: {size}\n", options.iso.display()))
}

/// Refuses a configuration that no kernel would accept, and a place that no file can have.
pub fn check(options: &Image) -> Result<(), Failure> {
    match &options.only[..] {
        [] => config::read(options.config.as_ref()).map(drop)?,
        names => needs::only(names, options.config.as_ref()).map(drop)?,
    }
    write::check(&options.iso)
}

fn fill(tree: &Path, kernel: &Path, config: &str) -> io::Result<()> {
    let boot = tree.join("boot");
    fs::create_dir_all(boot.join("grub"))?;
    fs::copy(kernel, boot.join("nile"))?;
    fs::write(boot.join("nile.toml"), config)?;
    fs::write(boot.join("grub/grub.cfg"), GRUB_CONFIGURATION)
}

/// Makes `image` of `tree`; what GRUB needs for itself goes to `work`, which will be removed.
fn make(grub: &Path, work: &Path, tree: &Path, image: &Path) -> Result<(), Failure> {
    let mut command = child::command(grub);
    command.env("TMPDIR", work);
    command.arg(format!("--install-modules={GRUB_MODULES}"));
    command.args(["--fonts=", "--locales=", "--themes=", "--compress=xz", "--output"]);
    command.arg(image).arg(tree);
    let mut log = Vec::new();
    let status = child::listen(&mut command, LIMIT, |said| {
        if let Said::Line(line) = said {
            log.push(line);
        }
    })
    .map_err(|error| error.of("grub-mkrescue"))?;
    match status.success() {
        true => Ok(()),
        false => {
            Err(Failure::failed(format!("grub-mkrescue failed ({}):\n{}", status, log.join("\n"))))
        }
    }
}
