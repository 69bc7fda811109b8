//! Files that a command writes for whoever called it. A regular file is there when all of it is: it
//! is written beside its place and then takes it, with the mode of the one that it replaces, or
//! that which new files have. What is no regular file (a device, a pipe, this command's own output)
//! stays what it is and is written to. Symbolic links are followed.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, OFlags, access};
use tempfile::NamedTempFile;

use crate::failure::Failure;
use crate::interrupt;

/// How often it is looked for Ctrl-C while a pipe has no reader, or one that does not read.
const LOOK: Duration = Duration::from_millis(50);

/// What a new file may be, as far as the umask lets it.
const MODE: u32 = 0o666;

/// The most symbolic links that lead to a file; Linux follows as many.
const MOST_LINKS: usize = 40;

/// A file that is being written.
pub struct Output {
    /// As it was named.
    path: PathBuf,
    to: To,
}

enum To {
    /// A file beside the place that it will take.
    Beside { file: NamedTempFile, place: PathBuf },
    /// What is there.
    Straight(File),
    /// This command's own standard output.
    Stdout(File),
}

/// Where a file has been written: what is said of it must not get into it.
pub struct Written {
    to_stdout: bool,
}

impl Written {
    /// Says something of it, on standard output if that is not what was written.
    pub fn say(&self, text: &str) -> Result<(), Failure> {
        match self.to_stdout {
            false => crate::print(text),
            true => {
                crate::say(format_args!("{}", text.trim_end()));
                Ok(())
            }
        }
    }
}

/// Refuses a place where no file can be.
pub fn check(path: &Path) -> Result<(), Failure> {
    let shown = path.display();
    let wrong = |why: String| Err(Failure::request(format!("{shown} cannot be written: {why}")));
    if path.is_dir() {
        return wrong("it is a folder; name a file".into());
    }
    if path.as_os_str().as_bytes().ends_with(b"/") || path.file_name().is_none() {
        return wrong("that is no file's name".into());
    }
    let place = resolved(path);
    let folder = folder_of(&place);
    // What is there needs none: it may have no name any more, and be reached as /dev/fd/N.
    match path.exists() || folder.is_dir() {
        true => Ok(()),
        false => wrong(format!("there is no folder {}", folder.display())),
    }
}

/// Refuses a folder that is there and cannot be written to, or is not there and cannot be made:
/// whoever writes there does so after long work. `option` names it.
pub fn check_folder(option: &str, folder: &Path) -> Result<(), Failure> {
    let shown = folder.display();
    let wrong = |why: String| Err(Failure::request(format!("{option} {shown} {why}")));
    let there = folder.ancestors().find(|it| it.as_os_str().is_empty() || it.exists());
    let there = there.filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !there.is_dir() {
        return wrong(match there == folder {
            true => "is no folder".into(),
            false => format!("would be in {}, which is no folder", there.display()),
        });
    }
    match access(there, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Ok(()),
        Err(error) => wrong(format!("cannot be written: {error}")),
    }
}

impl Output {
    /// Begins to write. Blocks until somebody reads, if it is a pipe with a name.
    pub fn create(path: &Path) -> Result<Output, Failure> {
        check(path)?;
        let to = To::open(path).map_err(|error| unwritable(path, &error))?;
        Ok(Output { path: path.into(), to })
    }

    /// Writes what comes next. Blocks while a pipe's reader does not read, until Ctrl-C.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        let path = &self.path;
        let file = match &mut self.to {
            To::Beside { file, .. } => file.as_file_mut(),
            To::Straight(file) | To::Stdout(file) => file,
        };
        while !bytes.is_empty() {
            match file.write(bytes) {
                Ok(0) => return Err(unwritable(path, &ErrorKind::WriteZero.into())),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => wait(file)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(unwritable(path, &error)),
            }
        }
        Ok(())
    }

    /// Writes to such a file as [`fresh`](Output::fresh) gives, from byte `at` on.
    pub fn write_at(&self, at: u64, bytes: &[u8]) -> Result<(), Failure> {
        let Some(file) = self.fresh() else { return Ok(()) };
        file.write_all_at(bytes, at).map_err(|error| unwritable(&self.path, &error))
    }

    /// The file, if it is a regular one that was made for this.
    pub fn fresh(&self) -> Option<&File> {
        match &self.to {
            To::Beside { file, .. } => Some(file.as_file()),
            To::Straight(_) | To::Stdout(_) => None,
        }
    }

    /// Says why such a file, which others have written to and which is not wanted any more, cannot
    /// be written to behind its first `bytes` bytes, if that is so.
    pub fn probe(&self, bytes: u64) -> Result<(), Failure> {
        let Some(file) = self.fresh() else { return Ok(()) };
        // More than what may be left of a file system's last block.
        let end = file.metadata().map_or(0, |it| it.len()).max(bytes);
        let written = file.write_all_at(&[1; 1 << 20], end);
        written.map_err(|error| unwritable(&self.path, &error))
    }

    /// All is written: a regular file takes its place now.
    pub fn finish(self) -> Result<Written, Failure> {
        let failed = |error| unwritable(&self.path, &error);
        let to_stdout = matches!(self.to, To::Stdout(_));
        if let To::Beside { file, place } = self.to {
            file.as_file().sync_all().map_err(failed)?;
            file.persist(place).map_err(|error| failed(error.error))?;
        }
        Ok(Written { to_stdout })
    }
}

/// Writes a file that is there already in memory.
pub fn all(path: &Path, bytes: &[u8]) -> Result<Written, Failure> {
    let mut output = Output::create(path)?;
    output.write(bytes)?;
    output.finish()
}

impl To {
    fn open(path: &Path) -> io::Result<To> {
        let there = match fs::metadata(path) {
            Ok(there) => there,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return To::beside(resolved(path), None);
            }
            Err(error) => return Err(error),
        };
        // Written anew it would not have what else goes there, now or later.
        if let Some(file) = own(&stdout(), &there)? {
            return Ok(To::Stdout(file));
        }
        if let Some(file) = own(&stderr(), &there)? {
            return Ok(To::Straight(file));
        }
        let place = resolved(path);
        // A file without a name can still be reached, as /dev/fd/N.
        let has_place = fs::metadata(&place).is_ok_and(|it| is_same(&it, &there));
        if !there.is_file() || !has_place {
            return straight(path).map(To::Straight);
        }
        // Who may not write to a file may not replace it.
        access(path, Access::WRITE_OK)?;
        match To::beside(place, Some(&there)) {
            // The folder takes no other file: then this one is written.
            Err(_) => straight(path).map(To::Straight),
            to => to,
        }
    }

    /// A file beside `place`, of which `replaced` is there.
    fn beside(place: PathBuf, replaced: Option<&Metadata>) -> io::Result<To> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".nile-").permissions(Permissions::from_mode(MODE));
        // The name that it was given says nothing to anybody.
        let made = builder.tempfile_in(folder_of(&place));
        let file = made.map_err(|error| io::Error::from(error.kind()))?;
        if let Some(replaced) = replaced {
            // Only root may give a file away. Whoever may not has one of their own.
            let _ = fchown(file.as_file(), Some(replaced.uid()), Some(replaced.gid()));
            file.as_file().set_permissions(Permissions::from_mode(replaced.mode() & 0o7777))?;
        }
        Ok(To::Beside { file, place })
    }
}

/// One of this process's own streams, if it is what is `there`.
fn own(stream: &impl AsFd, there: &Metadata) -> io::Result<Option<File>> {
    let Ok(stream) = stream.as_fd().try_clone_to_owned() else { return Ok(None) };
    let file = File::from(stream);
    Ok(is_same(&file.metadata()?, there).then_some(file))
}

/// Opens what is there to write to it.
fn straight(path: &Path) -> io::Result<File> {
    // Nobody could end a command that waits within the call.
    let flags = OFlags::NONBLOCK.bits() as i32;
    loop {
        let opened = OpenOptions::new().write(true).truncate(true).custom_flags(flags).open(path);
        match opened {
            // Nobody has opened the pipe to read it, yet.
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error())
                    && !interrupt::requested() =>
            {
                thread::sleep(LOOK);
            }
            opened => return opened,
        }
    }
}

/// Waits until `file` takes something.
fn wait(file: &File) -> Result<(), Failure> {
    if interrupt::requested() {
        return Err(Failure::Interrupted);
    }
    let look = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
    // Whatever comes of it is seen at the next write.
    let _ = poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&look));
    Ok(())
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Where a path leads by its symbolic links, whether something is there or not.
fn resolved(path: &Path) -> PathBuf {
    let mut place = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        let Ok(next) = fs::read_link(&place) else { break };
        place = folder_of(&place).join(next);
    }
    place
}

/// The folder that a file is in.
fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    match interrupt::requested() {
        true => Failure::Interrupted,
        false => Failure::failed(format!("cannot write {}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::{FileTypeExt, symlink};

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    /// What is in the folder besides.
    fn names(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<PathBuf> =
            entries.map(|entry| entry.unwrap().file_name().into()).collect();
        names.sort();
        names
    }

    #[test]
    fn files_keep_their_mode_and_new_ones_have_the_usual_one() {
        let folder = tempfile::tempdir().unwrap();
        let (file, usual) = (folder.path().join("file"), folder.path().join("usual"));
        all(&file, b"one").unwrap();
        fs::write(&usual, "").unwrap();
        assert_eq!(mode(&file), mode(&usual));
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let before = fs::metadata(&file).unwrap().ino();
        all(&file, b"other").unwrap();
        assert_eq!((fs::read(&file).unwrap(), mode(&file)), (b"other".into(), 0o640));
        assert_ne!(fs::metadata(&file).unwrap().ino(), before, "it took the old one's place");
        assert_eq!(names(folder.path()), ["file", "usual"].map(PathBuf::from));
    }

    #[test]
    fn what_is_not_finished_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        for before in [None, Some("before")] {
            before.iter().for_each(|text| fs::write(&file, text).unwrap());
            let mut output = Output::create(&file).unwrap();
            output.write(b"half").unwrap();
            drop(output);
            assert_eq!(fs::read_to_string(&file).ok().as_deref(), before);
        }
        assert_eq!(names(folder.path()), [PathBuf::from("file")]);
    }

    #[test]
    fn links_stay_links_and_lead_to_what_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("sub")).unwrap();
        symlink("sub/there", at("direct")).unwrap();
        symlink("direct", at("link")).unwrap();
        // The first time there is nothing at the end of it.
        for text in ["one", "two"] {
            all(&at("link"), text.as_bytes()).unwrap();
            assert!(at("link").is_symlink() && at("direct").is_symlink());
            assert_eq!(fs::read_to_string(at("sub/there")).unwrap(), text);
        }
        symlink("/nonexistent/x", at("nowhere")).unwrap();
        let Err(Failure::Request(message)) = all(&at("nowhere"), b"") else { panic!() };
        assert!(message.contains("there is no folder /nonexistent"), "{message}");
        symlink("circle", at("circle")).unwrap();
        assert!(matches!(all(&at("circle"), b""), Err(Failure::Failed(_))));
    }

    #[test]
    fn what_is_no_file_stays_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let reader = {
            let pipe = pipe.clone();
            thread::spawn(move || {
                // It comes late, and is slow.
                thread::sleep(2 * LOOK);
                let (mut bytes, mut file) = (Vec::new(), File::open(pipe).unwrap());
                bytes.resize(10, 0);
                file.read_exact(&mut bytes).unwrap();
                thread::sleep(2 * LOOK);
                file.read_to_end(&mut bytes).unwrap();
                bytes
            })
        };
        let bytes: Vec<u8> = (0..300_000_u32).map(|it| (it % 251) as u8).collect();
        all(&pipe, &bytes).unwrap();
        assert!(reader.join().unwrap() == bytes, "all of it came in order");
        assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
        all(Path::new("/dev/null"), &bytes).unwrap();
        assert!(fs::symlink_metadata("/dev/null").unwrap().file_type().is_char_device());
        let Err(Failure::Failed(message)) = all(Path::new("/dev/full"), &bytes) else { panic!() };
        assert!(message.starts_with("cannot write /dev/full: No space"), "{message}");
    }

    #[test]
    fn folders_that_cannot_be_are_refused_before() {
        let folder = tempfile::tempdir().unwrap();
        for there in [folder.path().to_path_buf(), folder.path().join("a/b"), "new".into()] {
            check_folder("--to", &there).unwrap();
        }
        for (place, said) in [
            ("/dev/null", "--to /dev/null is no folder"),
            ("/dev/null/a/b", "--to /dev/null/a/b would be in /dev/null, which is no folder"),
        ] {
            let Err(Failure::Request(message)) = check_folder("--to", Path::new(place)) else {
                panic!("{place}")
            };
            assert_eq!(message, said);
        }
    }

    #[test]
    fn a_file_without_a_name_can_be_written() {
        let (mut file, bytes) = (tempfile::tempfile().unwrap(), b"all of it");
        let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        all(Path::new(&path), bytes).unwrap();
        let mut found = Vec::new();
        file.read_to_end(&mut found).unwrap();
        assert_eq!(found, bytes);
    }

    #[test]
    fn places_that_no_file_can_have_are_refused() {
        for place in ["", "/", "/tmp", "..", "new/", "/nonexistent/file", "/dev/null/file"] {
            assert!(matches!(check(Path::new(place)), Err(Failure::Request(_))), "{place:?}");
        }
    }
}
