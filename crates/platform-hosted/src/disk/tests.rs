//! Both ways to Linux: contents, many at once, errors, wake-ups.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use nile_abi::PhysAddr;
use nile_platform::disk::Piece;
use nile_ring::Region;
use nile_seal::disk::Cipher;
use rapidhash::v3::rapidhash_v3;

use super::*;

const BYTES: u64 = 4 << 20;

struct Bench {
    disk: HostedDisk,
    wakes: Arc<AtomicU32>,
    opened: Opened,
    _folder: Folder,
}

/// A folder of this test's own.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("nile-disk-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a folder");
        Folder(path)
    }

    fn file(&self, bytes: Option<u64>, plain: bool) -> DiskFile {
        DiskFile { path: self.0.join("disk"), bytes, plain, passing: false }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn bench(plain: bool) -> Bench {
    let folder = Folder::new();
    let opened = folder.file(Some(BYTES), plain).open().expect("a disk");
    assert!(plain || opened.by_ring || !ring::is_allowed());
    let wakes = Arc::new(AtomicU32::new(0));
    let counted = wakes.clone();
    let wake = Arc::new(move || {
        counted.fetch_add(1, SeqCst);
    });
    let disk = HostedDisk::with(&opened, opened.by_ring, wake).expect("an engine");
    Bench { disk, wakes, opened, _folder: folder }
}

fn both(test: impl Fn(&mut Bench)) {
    for plain in [false, true] {
        test(&mut bench(plain));
    }
}

fn memory(bytes: usize, mark: u64) -> Region {
    let region = Region::owned(bytes);
    for (place, word) in region.words().iter().enumerate() {
        word.store(mark << 32 | place as u64, Relaxed);
    }
    region
}

fn pieces(region: &Region, cuts: &[usize]) -> Vec<Piece> {
    let ends = cuts.iter().copied().chain([region.len()]);
    let starts = [0].into_iter().chain(cuts.iter().copied());
    let piece = |(start, end): (usize, usize)| Piece {
        at: PhysAddr(0),
        region: region.slice(start, end - start).expect("whole lines"),
    };
    starts.zip(ends).map(piece).collect()
}

fn words(region: &Region) -> Vec<u64> {
    region.words().iter().map(|word| word.load(Relaxed)).collect()
}

impl Bench {
    fn wait(&self) -> Completion {
        let begun = Instant::now();
        loop {
            self.disk.tell();
            if let Some(completion) = self.disk.complete() {
                return completion;
            }
            assert!(begun.elapsed() < Duration::from_secs(30), "it does not end");
        }
    }

    fn perform(&self, request: Request) -> Result<(), DiskError> {
        let (result, hash) = self.perform_hashed(request, 0);
        assert_eq!(hash, None);
        result
    }

    fn perform_hashed(
        &self,
        request: Request,
        hashed: u64,
    ) -> (Result<(), DiskError>, Option<u64>) {
        self.perform_inline(request, hash_of(hashed))
    }

    fn perform_inline(
        &self,
        request: Request,
        inline: Inline,
    ) -> (Result<(), DiskError>, Option<u64>) {
        assert!(self.disk.submit_inline(9, &request, &inline));
        let Completion { tag, result, hash } = self.wait();
        assert_eq!(tag, 9);
        (result, hash)
    }
}

fn hash_of(hashed: u64) -> Inline {
    Inline { hashed, cipher: None }
}

/// Bytes that the file takes of what it lies on.
fn taken(bench: &Bench) -> u64 {
    bench.opened.file.metadata().expect("a file").blocks() * 512
}

#[test]
fn what_is_discarded_is_given_back_and_the_rest_stays() {
    both(|bench| {
        let sent = memory(2 << 20, 5);
        assert_eq!(bench.perform(Request::Write { at: 0, from: pieces(&sent, &[]) }), Ok(()));
        assert_eq!(bench.perform(Request::Flush), Ok(()));
        let before = taken(bench);
        assert!(before >= 2 << 20, "{before}");
        assert_eq!(bench.perform(Request::Discard { at: 4096, bytes: 1 << 20 }), Ok(()));
        assert_eq!(taken(bench), before - (1 << 20));
        assert_eq!(bench.opened.file.metadata().expect("a file").len(), BYTES);
        let got = memory(2 << 20, 0);
        assert_eq!(bench.perform(Request::Read { at: 0, into: pieces(&got, &[]) }), Ok(()));
        let mut left = words(&sent);
        left[4096 / 8..][..(1 << 20) / 8].fill(0);
        assert!(words(&got) == left);
        // Where nothing is nothing goes.
        assert_eq!(bench.perform(Request::Discard { at: 4096, bytes: 1 << 20 }), Ok(()));
        assert_eq!(taken(bench), before - (1 << 20));
    });
}

/// A file of another program's has any length: what is moved need not be whole lines.
#[test]
fn a_file_is_read_and_written_to_the_byte() {
    let folder = Folder::new();
    let disk = folder.file(Some(1), true);
    std::fs::write(&disk.path, b"").expect("a file");
    let file = OpenOptions::new().read(true).write(true).open(&disk.path).expect("a file");
    let opened = Opened { file, description: of_file(), by_ring: false, passing: false };
    let disk = HostedDisk::with(&opened, false, Arc::new(|| ())).expect("an engine");
    let bench = Bench { disk, wakes: Arc::default(), opened, _folder: folder };
    let sent = memory(1 << 20, 7);
    let write = |at, cuts: &[usize]| Request::Write { at, from: pieces(&sent, cuts) };
    assert_eq!(bench.perform_hashed(write(3, &[640]), 1001), (Ok(()), None));
    assert_eq!(bench.opened.file.metadata().expect("a file").len(), 1004);
    assert_eq!(bench.perform_hashed(write(1 << 20, &[]), (1 << 20) - 7), (Ok(()), None));
    let got = Region::owned(1 << 20);
    let read = |at| Request::Read { at, into: pieces(&got, &[64]) };
    assert_eq!(bench.perform_hashed(read(3), 999), (Ok(()), None));
    assert_eq!(words(&got)[..124], words(&sent)[..124]);
    assert_eq!(words(&got)[126], 0, "no more was read");
    // There is a byte too few.
    let (end, _) = bench.perform_hashed(read(1 << 20), (1 << 20) - 6);
    assert_eq!(end, Err(DiskError::Failed));
}

#[test]
fn what_is_written_is_read() {
    both(|bench| {
        let sent = memory(1 << 20, 3);
        let from = pieces(&sent, &[64, 512, 4096, 5056]);
        assert_eq!(bench.perform(Request::Write { at: 1536, from }), Ok(()));
        assert_eq!(bench.perform(Request::Flush), Ok(()));
        let got = memory(1 << 20, 0);
        let into = pieces(&got, &[128, 65536]);
        assert_eq!(bench.perform(Request::Read { at: 1536, into }), Ok(()));
        assert!(words(&got) == words(&sent));
        let before = memory(2048, 7);
        let into = pieces(&before, &[]);
        assert_eq!(bench.perform(Request::Read { at: 0, into }), Ok(()));
        assert_eq!(words(&before)[..192], [0; 192]);
        assert_eq!(words(&before)[192..], words(&sent)[..64]);
    });
}

#[test]
fn data_are_moved_with_the_hash_of_as_much_as_was_asked_for() {
    both(|bench| {
        let sent = memory(1 << 20, 5);
        let bytes: Vec<u8> = words(&sent).into_iter().flat_map(u64::to_ne_bytes).collect();
        for hashed in [1, 100, 256 << 10, (256 << 10) + 1, (1 << 20) - 7, 1 << 20] {
            let hash = Some(rapidhash_v3(&bytes[..hashed]));
            let from = pieces(&sent, &[64, 512, 4096, 700_032]);
            let written = bench.perform_hashed(Request::Write { at: 512, from }, hashed as u64);
            assert_eq!(written, (Ok(()), hash), "{hashed}");
            let got = memory(1 << 20, 0);
            let into = pieces(&got, &[128, 65536]);
            let read = bench.perform_hashed(Request::Read { at: 512, into }, hashed as u64);
            assert_eq!(read, (Ok(()), hash), "{hashed}");
            assert!(words(&got) == words(&sent));
        }
        // What is small is not worth another thread.
        let from = pieces(&sent.slice(0, 4096).expect("whole lines"), &[]);
        assert_eq!(bench.perform_hashed(Request::Write { at: 0, from }, 4096), (Ok(()), None));
    });
}

#[test]
fn data_are_encrypted_on_their_way_and_the_hash_is_of_what_is_in_memory() {
    let cipher = Arc::new(Cipher::new(&std::array::from_fn(|at| at as u8)));
    for plain in [false, true] {
        let bench = bench(plain);
        assert!(bench.disk.ciphers(LARGE) && !bench.disk.ciphers(LARGE - 4096));
        let (at, bytes) = (3 * 4096, (1 << 20) + 4096);
        let (written, clear) = (memory(bytes, 7), words(&memory(bytes, 7)));
        let inline = Inline { hashed: bytes as u64 - 9, cipher: Some(cipher.clone()) };
        let clear_bytes: Vec<u8> = clear.iter().flat_map(|word| word.to_le_bytes()).collect();
        let hash = Some(rapidhash_v3(&clear_bytes[..bytes - 9]));
        let from = pieces(&written, &[512 << 10]);
        let request = Request::Write { at, from };
        assert_eq!(bench.perform_inline(request, inline.clone()), (Ok(()), hash));
        let mut stored = vec![0; bytes];
        bench.opened.file.read_exact_at(&mut stored, at).expect("what lies there");
        let mut expected = clear_bytes.clone();
        cipher.encrypt(at, &mut expected);
        assert!(stored == expected && stored != clear_bytes);
        let back = memory(bytes, 0);
        let into = pieces(&back, &[256 << 10]);
        let request = Request::Read { at, into };
        assert_eq!(bench.perform_inline(request.clone(), inline), (Ok(()), hash));
        assert!(words(&back) == clear);
        let only = Inline { hashed: 0, cipher: Some(cipher.clone()) };
        assert_eq!(bench.perform_inline(request, only), (Ok(()), None));
        assert!(words(&back) == clear);
    }
}

#[test]
fn hashed_and_other_requests_go_side_by_side() {
    both(|bench| {
        let all: Vec<Region> = (0..32).map(|mark| memory(LARGE as usize, mark)).collect();
        let place = |tag: usize| (tag % 16) as u64 * (BYTES / 16);
        // Their room is free again before their ends are told.
        let mut ended = 0;
        for (tag, region) in all.iter().enumerate() {
            // Those of one place come one after the other, since both ways have their own order.
            while tag >= 16 && ended < tag {
                bench.wait();
                ended += 1;
            }
            let write = Request::Write { at: place(tag), from: pieces(region, &[]) };
            let hashed = if tag % 3 == 0 { LARGE } else { 0 };
            assert!(bench.disk.submit_inline(tag as u32, &write, &hash_of(hashed)));
        }
        for _ in ended..all.len() {
            bench.wait();
        }
        for (tag, region) in all.iter().enumerate().skip(16) {
            let got = memory(LARGE as usize, 0);
            let into = pieces(&got, &[]);
            assert_eq!(bench.perform(Request::Read { at: place(tag), into }), Ok(()));
            assert!(words(&got) == words(region), "{tag}");
        }
    });
}

#[test]
fn as_many_as_there_is_room_for_end_each_once() {
    both(|bench| {
        let all: Vec<Region> = (0..DEPTH as u64 + 1).map(|mark| memory(4096, mark)).collect();
        let write =
            |mark: usize| Request::Write { at: mark as u64 * 4096, from: pieces(&all[mark], &[]) };
        assert!((0..DEPTH).all(|mark| bench.disk.submit(mark as u32, &write(mark))));
        assert!(!bench.disk.submit(DEPTH as u32, &write(DEPTH)));
        let mut ended: Vec<u32> = (0..DEPTH).map(|_| bench.wait().tag).collect();
        ended.sort_unstable();
        assert!(ended.into_iter().eq(0..DEPTH as u32));
        let got = memory(4096 * DEPTH, 0);
        let into = pieces(&got, &[]);
        assert_eq!(bench.perform(Request::Read { at: 0, into }), Ok(()));
        let sent: Vec<u64> = all[..DEPTH].iter().flat_map(words).collect();
        assert!(words(&got) == sent);
    });
}

#[test]
fn what_was_read_is_forgotten_where_memory_is_short_for_what_is_written() {
    const AT: u64 = 1 << 20;
    const OTHER: u64 = 2 << 20;
    both(|bench| {
        let sent = memory(1 << 20, 6);
        let from = pieces(&sent, &[]);
        assert_eq!(bench.perform(Request::Write { at: AT, from }), Ok(()));
        assert_eq!(bench.perform(Request::Flush), Ok(()));
        let file = bench.opened.file.try_clone().expect("a file");
        let read = |bench: &Bench| {
            let got = memory(1 << 20, 0);
            let into = pieces(&got, &[]);
            assert_eq!(bench.perform(Request::Read { at: AT, into }), Ok(()));
            assert!(words(&got) == words(&sent));
        };
        // What is not in the cache cannot be had without waiting. Some file systems are a cache
        // all through, or do not tell.
        let is_cached = || {
            let mut bytes = [0; 512];
            let into = &mut [std::io::IoSliceMut::new(&mut bytes)];
            rustix::io::preadv2(&file, into, AT, rustix::io::ReadWriteFlags::NOWAIT).is_ok()
        };
        read(bench);
        let tells = is_cached();
        let kind = rustix::fs::fstatfs(&file).expect("a file system").f_type;
        bench.disk.work.borrow_mut().cache = Cache::short(file.try_clone().expect("a file"));
        read(bench);
        let from = pieces(&sent, &[]);
        assert_eq!(bench.perform(Request::Write { at: OTHER, from }), Ok(()));
        let begun = Instant::now();
        while tells && kind != libc::TMPFS_MAGIC && is_cached() {
            assert!(begun.elapsed() < Duration::from_secs(30), "it is not forgotten");
            std::thread::sleep(Duration::from_millis(1));
        }
        read(bench);
    });
}

#[test]
fn an_end_wakes_who_is_about_to_sleep() {
    both(|bench| {
        let region = memory(4096, 1);
        assert!(!bench.disk.is_ready(), "there is nothing");
        assert_eq!(bench.wakes.load(SeqCst), 0);
        assert!(bench.disk.submit(1, &Request::Write { at: 0, from: pieces(&region, &[]) }));
        // Either it says that it is ready, or it wakes.
        let begun = Instant::now();
        bench.disk.tell();
        while !bench.disk.is_ready() && bench.wakes.load(SeqCst) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "nobody is woken");
        }
        assert_eq!(bench.wait().tag, 1);
    });
}

#[test]
fn a_disk_that_goes_waits_for_linux() {
    both(|bench| {
        let region = memory(1 << 20, 8);
        for tag in 0..16 {
            let from = pieces(&region, &[]);
            let hashed = u64::from(tag % 2) << 20;
            let write = Request::Write { at: 1 << 20, from };
            assert!(bench.disk.submit_inline(tag, &write, &hash_of(hashed)));
        }
        let fresh = HostedDisk::with(&bench.opened, false, Arc::new(|| {})).expect("an engine");
        drop(std::mem::replace(&mut bench.disk, fresh));
        let got = memory(1 << 20, 0);
        let into = pieces(&got, &[]);
        assert_eq!(bench.perform(Request::Read { at: 1 << 20, into }), Ok(()));
        assert!(words(&got) == words(&region));
    });
}

#[test]
fn a_file_that_was_cut_is_a_disk_that_failed() {
    both(|bench| {
        bench.opened.file.set_len(4096).expect("it can be cut");
        let region = memory(4096, 1);
        let into = pieces(&region, &[]);
        let read = bench.perform(Request::Read { at: 8192, into });
        assert_eq!(read, Err(DiskError::Failed));
        let region = memory(LARGE as usize, 1);
        let into = pieces(&region, &[]);
        let read = bench.perform_hashed(Request::Read { at: 0, into }, LARGE);
        assert_eq!(read, (Err(DiskError::Failed), None));
    });
}

#[test]
fn a_flush_waits_for_the_device_unless_the_disk_is_passing() {
    both(|bench| {
        // What cannot be flushed tells whether Linux was asked to.
        let file = std::fs::File::open("/dev/null").expect("it is there");
        let description = bench.opened.description.clone();
        for (passing, result) in [(false, Err(DiskError::Failed)), (true, Ok(()))] {
            let (file, by_ring) = (file.try_clone().expect("a file"), bench.opened.by_ring);
            let opened = Opened { file, description: description.clone(), by_ring, passing };
            bench.disk = HostedDisk::with(&opened, by_ring, Arc::new(|| {})).expect("an engine");
            assert_eq!(bench.perform(Request::Flush), result);
        }
    });
}

#[test]
fn errors_of_linux_have_their_meaning() {
    let region = memory(512, 0);
    let request = Request::Write { at: 512, from: pieces(&region, &[]) };
    let said = |error: i32| {
        let memory = vec![iovec { iov_base: std::ptr::null_mut(), iov_len: 512 }];
        let request = request.clone();
        Slot {
            tag: 0,
            request,
            memory,
            moved: 0,
            inline: Inline::default(),
            hash: None,
            is_plain: false,
        }
        .advance(error)
    };
    assert_eq!(said(-libc::EIO), Some(Err(DiskError::Media { at: 512, end: 1024 })));
    assert_eq!(said(-libc::ENOSPC), Some(Err(DiskError::NoSpace)));
    assert_eq!(said(-libc::EROFS), Some(Err(DiskError::ReadOnly)));
    assert_eq!(said(-libc::ENXIO), Some(Err(DiskError::Failed)));
    assert_eq!(said(-libc::EINTR), None);
    assert_eq!(said(100), None, "the rest is still to do");
    assert_eq!(said(512), Some(Ok(())));
}

#[test]
fn a_file_is_one_node_s_and_keeps_its_length() {
    let folder = Folder::new();
    let refused = |bytes| folder.file(bytes, true).open().map(|_| ()).expect_err("it is refused");
    assert!(refused(None).contains("No such file"));
    assert!(refused(Some(100)).contains("shorter than a sector"));
    std::fs::remove_file(folder.0.join("disk")).expect("it is there");
    let opened = folder.file(Some(10_000), true).open().expect("a disk");
    assert_eq!(opened.description.bytes, 9728);
    assert!(opened.to_string().ends_with("0 MiB, by plain calls"), "{opened}");
    assert!(refused(None).contains("another node has this disk"));
    let serial = opened.description.serial.clone();
    drop(opened);
    let again = folder.file(Some(1 << 20), true).open().expect("a disk");
    assert_eq!((again.description.bytes, again.description.serial), (9728, serial));
}
