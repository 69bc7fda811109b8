//! What stays of a package that has ended: the text of one that was shipped, until the next one
//! comes. The same package finds it there, any other one does not, and it is nobody's for ever.

use alloc::rc::Rc;

use nile_abi::{Role, RoleSet, Status};
use nile_kernel::packages::NoServices;
use nile_kernel::{Core, Ended, PackageLimits};
use nile_package::Image;
use nile_platform::Machine;

use crate::conduct::{Findings, conduct, conducts};
use crate::talk::Talk;

/// Asks a worker to run a package.
const RUN: u32 = 26;

/// What a worker may run, with its argument.
const PACKAGES: [(&str, &[u8]); 2] = [("hello", b"text"), ("syscalls", b"10")];

/// In a request: the package comes as a file; as the very file that came last.
const SHIPPED: u64 = 1 << 32;
const KEPT: u64 = 1 << 33;

/// What a worker says: the package did its work; it found its text; packages are files here.
const DONE: u64 = 1;
const FOUND: u64 = 1 << 1;
const FILES: u64 = 1 << 2;

/// One package after the other: which, and whether its text is there.
const STEPS: [(u64, bool); 12] = [
    (0, false),
    // Of those that the node was started with nothing stays.
    (0, false),
    (SHIPPED, false),
    (SHIPPED, true),
    (SHIPPED | KEPT, true),
    (SHIPPED | 1, false),
    (SHIPPED | 1, true),
    (SHIPPED | KEPT | 1, true),
    // That its file is the one of before does not say that its text is there.
    (SHIPPED | KEPT, false),
    (SHIPPED, true),
    // The same text, wherever the file is from.
    (0, true),
    (0, false),
];

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>) {
    Talk::serve(core, RUN, answer);
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "package-text", move |findings| async move {
            findings.expect(check(&core, &findings).await, "a worker does not answer");
        });
    }
}

/// Runs the packages that it is asked for.
async fn answer<M: Machine>(core: &Core<M>, talk: &Talk<M>) -> Result<(), Status> {
    let mut kept: [Option<Rc<[u8]>>; PACKAGES.len()] = [None, None];
    loop {
        let asked = talk.listen().await?;
        let number = (asked & !(SHIPPED | KEPT)) as usize;
        let package = PACKAGES.get(number);
        let (name, argument) = *package.ok_or(Status::Invalid)?;
        let own = core.find_package(name).ok_or(Status::NotFound)?;
        let (image, are_files) = match own {
            Image::Elf(contents) if asked & SHIPPED != 0 => {
                let file = kept[number].take().filter(|_| asked & KEPT != 0);
                let file = file.unwrap_or_else(|| Rc::from(contents));
                kept[number] = Some(file.clone());
                (Image::Shipped(file), FILES)
            }
            Image::Elf(file) => (Image::Elf(file), FILES),
            other => (other, 0),
        };
        let limits = PackageLimits::default();
        let report = core.run_package(image, argument, limits, NoServices)?.ended().await;
        let done = match report.ended {
            Ended::Exited(_) => DONE,
            other => {
                core.machine().log(format_args!("{name} has {other}"));
                0
            }
        };
        let found = if report.found_text { FOUND } else { 0 };
        talk.tell(done | found | are_files).await?;
    }
}

async fn check<M: Machine>(core: &Core<M>, findings: &Findings) -> Result<(), Status> {
    let board = core.machine().board();
    let only_worker = RoleSet::EMPTY.with(Role::Worker);
    let worker = core.peers().find(|id| board.record(*id).roles() == only_worker);
    let Some(worker) = worker else {
        findings.check(false, format_args!("no core of this node is a worker and nothing else"));
        return Ok(());
    };
    let talk = Talk::start(core, worker, RUN).await?;
    // The first one only makes the node take apart what it gives out in small pieces.
    talk.ask(0).await?;
    let before = core.memory_statistics().await?;
    for (number, (asked, finds)) in STEPS.into_iter().enumerate() {
        let told = talk.ask(asked).await?;
        findings.check(told & DONE != 0, format_args!("package {number} has failed"));
        let are_files = told & FILES != 0;
        let (found, finds) = (told & FOUND != 0, finds && are_files);
        findings.check(
            found == finds,
            format_args!("package {number}: its text was there: {found}, not {finds}"),
        );
        let after = core.memory_statistics().await?;
        let (stays, expected) = (after != before, asked & SHIPPED != 0 && are_files);
        findings.check(
            stays == expected,
            format_args!("behind package {number}: {before:?} before, {after:?} after"),
        );
    }
    Ok(())
}
