//! Kernel images that cores get while they shift. What a core runs is what the managing core says;
//! an image that fails on trial is followed by the former one, and what is refused changes nothing.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use nile_abi::{CoreId, Status};
use nile_interfaces::core_manager::CoreManagerClient;
use nile_kernel::Core;
use nile_platform::{Fault, Machine};
use nile_stl::{CallError, CallResult};

use super::{ChurnClient, PATIENCE_MS};
use crate::conduct::Findings;

/// A file that is handed to the node, by its place among [`File::ALL`], or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum File {
    /// An image that does what the node's own does.
    First,
    /// Another one.
    Second,
    /// One that fails before it does anything.
    FailsAtOnce,
    /// An image with another ABI.
    OtherAbi,
    /// What is no image.
    NoImage,
    /// One that fails in the midst of what it does, which may be a call that is lost with it.
    FailsLater,
    /// No file.
    Missing,
}

impl File {
    /// All that there may be.
    pub const ALL: [File; 6] = [
        File::First,
        File::Second,
        File::FailsAtOnce,
        File::OtherAbi,
        File::NoImage,
        File::FailsLater,
    ];

    /// Zero is none, and the others follow.
    pub(super) fn of(number: u64) -> File {
        let place = number.checked_sub(1).and_then(|it| usize::try_from(it).ok());
        place.and_then(|it| File::ALL.get(it)).copied().unwrap_or(File::Missing)
    }

    fn fails(self) -> bool {
        matches!(self, File::FailsAtOnce | File::FailsLater)
    }

    /// Whether a core may be found running it.
    fn runs(self) -> bool {
        matches!(self, File::First | File::Second | File::FailsLater)
    }
}

/// What cores have been given.
#[derive(Default)]
pub struct Deployed {
    /// The images of each core in turn: their files and names. What a core runs is the last, or
    /// one before if all after that may fail.
    given: RefCell<BTreeMap<CoreId, Vec<(File, u64)>>>,
    /// The name of each file's image.
    names: RefCell<BTreeMap<u64, u64>>,
    /// Cores that were given what fails.
    meant_to_fail: RefCell<BTreeSet<CoreId>>,
    /// Orders that have not come to their ends.
    under_way: Cell<u32>,
    /// Images that cores got, and that they did not keep.
    pub done: Cell<u64>,
    pub failed: Cell<u64>,
    /// Whether a core was given what fails in the midst of its work.
    pub may_be_lost: Rc<Cell<bool>>,
}

impl Deployed {
    /// Orders an image for a core.
    pub async fn deploy(
        &self,
        manager: &CoreManagerClient,
        findings: &Findings,
        core: CoreId,
        file: File,
    ) -> CallResult<()> {
        if file.fails() {
            self.meant_to_fail.borrow_mut().insert(core);
            self.may_be_lost.set(self.may_be_lost.get() || file == File::FailsLater);
        }
        self.under_way.set(self.under_way.get() + 1);
        let ordered = manager.deploy(core.0, file as u64, PATIENCE_MS).await;
        self.under_way.set(self.under_way.get() - 1);
        let result = ordered.map(|name| u64::from_str_radix(&name, 16).unwrap_or_default());
        match &result {
            Ok(name) => {
                findings.check(file.runs(), format_args!("core {core} took {file:?}"));
                let known = *self.names.borrow_mut().entry(file as u64).or_insert(*name);
                findings.check(known == *name, format_args!("{file:?} is {name:x}, and {known:x}"));
                self.given.borrow_mut().entry(core).or_default().push((file, *name));
                self.done.set(self.done.get() + 1);
            }
            Err(error) if error.status == Status::Failed => {
                self.failed.set(self.failed.get() + 1);
                findings.check(file.fails(), format_args!("{file:?} on {core}: {error}"));
            }
            Err(error) => {
                let refusals: &[Status] = match file {
                    File::OtherAbi | File::NoImage => &[Status::Invalid],
                    File::Missing => &[Status::NotFound],
                    _ => &[],
                };
                // The core does not run what can be replaced, or others change one.
                let busy = [Status::Denied, Status::Busy, Status::Dead];
                let is_one = refusals.contains(&error.status) || busy.contains(&error.status);
                findings.check(is_one, format_args!("{file:?} on {core}: {error}"));
            }
        }
        result.map(drop)
    }

    /// Whether a core may have failed by now, and in this way.
    pub fn is_meant(&self, core: CoreId, fault: Fault) -> bool {
        fault.kind == Fault::PANIC && self.meant_to_fail.borrow().contains(&core)
    }

    /// What a core runs is what the node says, and what it was given.
    pub async fn check<M: Machine>(&self, core: &Core<M>, findings: &Findings, other: CoreId) {
        let (stl, board) = (core.stl(), core.machine().board());
        let generation = || board.record(other).generation();
        let before = generation();
        let asked = async { ChurnClient::find_at(&stl, other).await?.image().await };
        let runs = match asked.await {
            Ok(runs) => runs,
            // Where an incarnation has failed, a call of it is lost.
            Err(error) => {
                let is_away = error.status == Status::NotFound || error.was_not_made();
                let is_lost = self.may_be_lost(&error);
                let what = format_args!("core {other} does not say what it runs: {error}");
                return findings.check(is_away || is_lost, what);
            }
        };
        let Ok(node) = stl.node() else { return };
        if generation() != before || self.under_way.get() > 0 {
            return;
        }
        let said = node.image_of(other);
        findings.check(runs == said, format_args!("core {other} runs {runs:x}, and not {said:x}"));
        if node.may_have_image(other) {
            self.saw(findings, other, runs);
        }
    }

    /// A core runs an image. Those that it was given later have failed.
    fn saw(&self, findings: &Findings, core: CoreId, runs: u64) {
        let mut given = self.given.borrow_mut();
        let given = given.entry(core).or_default();
        while let Some((file, name)) = given.last().copied().filter(|(_, name)| *name != runs) {
            let what = format_args!("core {core} runs {runs:x}, and was given {name:x}");
            findings.check(file == File::FailsLater, what);
            given.pop();
        }
        let is_own = given.is_empty() && runs == 0;
        let what = format_args!("core {core} runs {runs:x}, which it was not given");
        findings.check(is_own || !given.is_empty(), what);
    }

    /// Cores that may run what fails.
    pub fn may_fail(&self) -> Vec<CoreId> {
        let given = self.given.borrow();
        let fails = |of: &Vec<(File, u64)>| of.last().is_some_and(|(file, _)| file.fails());
        given.iter().filter(|(_, of)| fails(of)).map(|(core, _)| *core).collect()
    }

    /// Whether a call may end so, as its core had an image that fails.
    pub fn may_be_lost(&self, error: &CallError) -> bool {
        error.status == Status::Dead && self.may_be_lost.get()
    }

    /// A core is to run this one.
    pub fn runs<M: Machine>(&self, core: &Core<M>, findings: &Findings, other: CoreId, file: File) {
        let runs = core.stl().node().map_or(0, |node| node.image_of(other));
        let wanted = self.names.borrow().get(&(file as u64)).copied();
        let what = format_args!("core {other} runs {runs:x}, and not {file:?}");
        findings.check(Some(runs) == wanted, what);
        if let Some(given) = self.given.borrow_mut().get_mut(&other) {
            given.clear();
            given.push((file, runs));
        }
    }
}
