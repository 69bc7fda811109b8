//! Kernel images that come to a node in pieces, on the core that manages it: they are put into
//! memory that the cores have for them, and entered in these cores' tables while the cores are
//! away. What the machine has of that, [`ImageMemory`] says; on a machine where images are files
//! that are handed to it, nothing of this is used but [`Core::begin_image`].
//!
//! One image comes at a time. If the next piece does not come, it is forgotten.

use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, IMAGE_HEAD, ImageDigest, ImageRefused, PageSize, Status};
use nile_platform::image_memory::Other;
use nile_platform::{CorePhase, Grant, ImageMemory, Machine, Manager as _};

use crate::core::Core;
use crate::leave::BEGINNING;
use crate::memory::Frame;

/// How long the next piece may take to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a core is looked at whose image is on trial.
const LOOK: Duration = Duration::from_millis(10);

/// Words of a frame that an image comes to.
const WORDS: usize = PageSize::Large.bytes() as usize / 8;

/// An image that comes.
pub(crate) struct Upload<M: Machine> {
    core: CoreId,
    bytes: u64,
    /// How much of it has come.
    at: u64,
    digest: ImageDigest,
    /// The memory for what is behind the head.
    frames: Vec<Frame<M>>,
}

impl<M: Machine> Upload<M> {
    /// Takes the bytes that follow. `NoFile`: they do not.
    fn take(&mut self, at: u64, piece: &[u8]) -> Result<(), ImageRefused> {
        let left = self.bytes - self.at;
        let (words, rest) = piece.as_chunks::<8>();
        if at != self.at || piece.len() as u64 > left || !rest.is_empty() || words.is_empty() {
            return Err(ImageRefused::NoFile);
        }
        for word in words {
            let word = u64::from_le_bytes(*word);
            self.digest = self.digest.with(word);
            if let Some(behind) = self.at.checked_sub(IMAGE_HEAD as u64) {
                let index = (behind / 8) as usize;
                let frame = self.frames.get(index / WORDS).ok_or(ImageRefused::NoFile)?;
                let place = frame.words().get(index % WORDS).ok_or(ImageRefused::NoFile)?;
                place.store(word, core::sync::atomic::Ordering::Relaxed);
            }
            self.at += 8;
        }
        Ok(())
    }
}

impl<M: Machine> Core<M> {
    fn images(&self) -> Option<&dyn ImageMemory> {
        self.machine.manager()?.images()
    }

    /// Takes a piece of an image of `bytes` bytes for a core: the bytes from `at` on, each piece in
    /// its turn. The first has the image's head. `NoFile` if this is not the next piece.
    pub(crate) async fn take_image(
        &self,
        core: CoreId,
        bytes: u64,
        at: u64,
        piece: &[u8],
    ) -> Result<(), ImageRefused> {
        if at == 0 {
            self.begin_upload(core, bytes, piece).await?;
        }
        let mut upload = self.upload.borrow_mut();
        let is_it = |it: &&mut Upload<M>| it.core == core && it.bytes == bytes;
        upload.as_mut().filter(is_it).ok_or(ImageRefused::NoFile)?.take(at, piece)
    }

    async fn begin_upload(
        &self,
        core: CoreId,
        bytes: u64,
        head: &[u8],
    ) -> Result<(), ImageRefused> {
        let images = self.images().ok_or(ImageRefused::Stays)?;
        if !head.is_empty() && head.len() < IMAGE_HEAD {
            return Err(ImageRefused::NotAnImage);
        }
        let needs = images.needs(core, head, bytes)?;
        self.forget_upload();
        let mut frames = Vec::new();
        for _ in 0..needs.div_ceil(PageSize::Large.bytes()) {
            let frame = self.allocate(PageSize::Large).await;
            frames.push(frame.map_err(|_| ImageRefused::NoMemory)?);
        }
        let grants: Vec<Grant> = frames.iter().map(Frame::grant).collect();
        // Somebody else may have begun meanwhile.
        images.settle(core);
        self.forget_upload();
        self.keep(&grants);
        images.stage(core, head, &grants);
        let upload = Upload { core, bytes, at: 0, digest: ImageDigest::EMPTY, frames };
        *self.upload.borrow_mut() = Some(upload);
        self.spawn(expect(self.clone(), core));
        Ok(())
    }

    /// Forgets what has come, if not all of it was loaded.
    fn forget_upload(&self) {
        if let Some(upload) = self.upload.take()
            && let Some(manager) = self.machine.manager()
        {
            manager.unload_image(upload.core);
            drop(upload);
        }
        self.free_unused();
    }

    fn keep(&self, grants: &[Grant]) {
        let Some(manager) = &self.manager else { return };
        for grant in grants {
            if let Err(status) = manager.borrow_mut().keep_image(*grant) {
                self.machine.log(format_args!("memory of an image is not kept: {status}"));
            }
        }
    }

    /// Gives back the memory of images that no core has any use for.
    fn free_unused(&self) {
        let (Some(manager), Some(images)) = (&self.manager, self.images()) else { return };
        for grant in images.unused() {
            if let Err(status) = manager.borrow_mut().drop_image(grant) {
                self.machine.log(format_args!("memory of an image is not free: {status}"));
            }
        }
    }

    /// Has a core run another image from its next incarnation on: the file that was handed to the
    /// node under this name, or the image of this name that has come in pieces.
    pub(crate) fn load_image(&self, core: CoreId, file: u64) -> Result<u64, ImageRefused> {
        let manager = self.machine.manager().ok_or(ImageRefused::Stays)?;
        if manager.images().is_some() {
            let is_whole = |it: &mut Upload<M>| {
                it.core == core && it.at == it.bytes && it.digest.name() == file
            };
            let upload = self.upload.borrow_mut().take_if(is_whole);
            // Whoever has it from now on is not this core.
            drop(upload.ok_or(ImageRefused::NoFile)?);
        }
        manager.load_image(core, file)
    }

    /// Takes back what was loaded for a core.
    pub(crate) fn unload_image(&self, core: CoreId) {
        if let Some(manager) = self.machine.manager() {
            manager.unload_image(core);
            self.free_unused();
        }
    }

    /// Has a core that is away begin with the image that was loaded for it, and waits until it
    /// runs: with that, or with its former one if that failed. Fails as [`Core::call_back_core`],
    /// and with `NoTables`.
    pub(crate) async fn begin_image(&self, core: CoreId) -> Result<(), Status> {
        let changed = self.change_image(core, Other::Loaded);
        match self.images() {
            Some(_) if changed.is_ok() => drop(self.spawn(watch_trial(self.clone(), core))),
            Some(_) => self.unload_image(core),
            None => {}
        }
        let back = self.call_back_core(core).await;
        changed.and(back)
    }

    fn is_parked(&self, core: CoreId) -> bool {
        self.machine.manager().is_some_and(|manager| manager.is_gone(core))
    }

    fn change_image(&self, core: CoreId, to: Other) -> Result<(), Status> {
        let (Some(manager), Some(images)) = (&self.manager, self.images()) else { return Ok(()) };
        if !self.is_parked(core) {
            return Err(Status::Busy);
        }
        let change = images.change(core, to).ok_or(Status::NotFound)?;
        manager.borrow_mut().change_image(core, &change)?;
        images.changed(core, to);
        Ok(())
    }

    /// Goes on, in a new incarnation of this core, with what the last one knew of images.
    pub(crate) fn recover_images(&self) {
        let Some(images) = self.images() else { return };
        self.keep(&images.memory());
        for core in self.peers() {
            self.unload_image(core);
            if images.is_on_trial(core) {
                self.spawn(watch_trial(self.clone(), core));
            }
        }
    }
}

/// Forgets an image of which no piece comes any more.
async fn expect<M: Machine>(own: Core<M>, core: CoreId) {
    let mut last = u64::MAX;
    loop {
        own.sleep(PATIENCE).await;
        let now = own.upload.borrow().as_ref().filter(|it| it.core == core).map(|it| it.at);
        match now {
            None => return,
            Some(at) if at == last => return own.forget_upload(),
            Some(at) => last = at,
        }
    }
}

/// Has a core begin with its former image if the present one fails on trial; then the memory of the
/// other one is free.
async fn watch_trial<M: Machine>(own: Core<M>, core: CoreId) {
    let record = own.machine.board().record(core);
    let wanted_away = || own.machine.board().record(own.id()).is_away(core);
    let limit = own.now() + BEGINNING / 2;
    let mut has_run = false;
    while let Some(images) = own.images().filter(|it| it.is_on_trial(core)) {
        own.sleep(LOOK).await;
        has_run |= record.phase() == CorePhase::Running;
        let hangs = !has_run && own.now() > limit && !wanted_away();
        if hangs {
            images.take_away(core);
        }
        if wanted_away() || !own.is_parked(core) {
            continue;
        }
        let how = record.fault().filter(|_| has_run).map_or("did not begin", |it| it.kind_name());
        match own.change_image(core, Other::Former) {
            Ok(()) => own.machine.log(format_args!(
                "the image of {core} failed while it was on trial ({how}); the core runs its \
                 former image again"
            )),
            Err(status) => {
                own.machine.log(format_args!("{core} does not get its former image: {status}"));
                continue;
            }
        }
        if let Err(status) = own.call_back_core(core).await {
            own.machine.log(format_args!("{core} does not begin with its former image: {status}"));
        }
    }
    own.free_unused();
}
