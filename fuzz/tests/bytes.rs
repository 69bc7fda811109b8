//! Every entry, fed with its corpus and with what chance makes of it: bits flipped, numbers
//! changed, parts cut off, repeated and taken from others. No search, no special toolchain, always
//! the same inputs; what `cargo fuzz` finds is added to the corpus.

use std::env;
use std::fs;
use std::num::NonZero;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use nile_fuzz::{ENTRIES, Entry};
use nile_platform_x86_64::entry::BOOT_STACK_BYTES;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Changed inputs for an entry; a debug build takes a second or two for all of them.
fn rounds(name: &str) -> u64 {
    match name {
        // Each of these is a node that runs from its start to its end.
        "system_calls" => 1_000,
        // And each of these is a core with all services.
        "dispatch" | "frame" => 10_000,
        _ => 20_000,
    }
}

/// In the environment: for how many seconds each entry is fed, if that is longer.
const SECONDS: &str = "NILE_FUZZ_SECONDS";

/// No input grows beyond this.
const MOST_BYTES: usize = 8 << 10;

/// Numbers at which lengths, counts and addresses tend to go wrong.
const EDGES: [u64; 10] = [
    0,
    1,
    7,
    0x7f,
    0xfff,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_f000,
    u64::MAX,
];

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The inputs in the folder `name`, in an order that does not depend on the file system.
fn inputs(name: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(corpus().join(name)).expect("every entry has a corpus");
    let mut paths: Vec<PathBuf> = entries.map(|it| it.expect("a file").path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a file can be read")).collect()
}

/// A number below `bound`, or zero if there is none.
fn below(random: &mut ChaCha8Rng, bound: usize) -> usize {
    (random.next_u64() % bound.max(1) as u64) as usize
}

/// One small change.
fn change(bytes: &mut Vec<u8>, other: &[u8], random: &mut ChaCha8Rng) {
    let at = below(random, bytes.len());
    let length = 1 + below(random, 32);
    match random.next_u64() % 6 {
        0 => bytes.truncate(at),
        1 => {
            let from = below(random, other.len());
            let piece = &other[from..(from + length).min(other.len())];
            bytes.splice(at..(at + length).min(bytes.len()), piece.iter().copied());
        }
        2 => {
            let piece = bytes[at..(at + length).min(bytes.len())].to_vec();
            bytes.splice(at..at, piece);
        }
        3 => {
            let edge = EDGES[below(random, EDGES.len())].to_le_bytes();
            let width = 1 << below(random, 4);
            for (byte, new) in bytes[at..].iter_mut().zip(&edge[..width]) {
                *byte = *new;
            }
        }
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << below(random, 8);
            }
        }
    }
    bytes.truncate(MOST_BYTES);
}

fn feed(name: &str, entry: Entry, bytes: &[u8]) -> bool {
    catch_unwind(|| entry(bytes)).unwrap_or_else(|_| panic!("{name} fails on {bytes:02x?}"))
}

/// Feeds one entry, for so many seconds at least.
fn feed_changed(name: &str, entry: Entry, seconds: u64) {
    let inputs = inputs(name);
    let (mut accepted, mut refused) = (0, 0);
    let mut count = |yes| if yes { accepted += 1 } else { refused += 1 };
    count(feed(name, entry, &[]));
    inputs.iter().for_each(|input| count(feed(name, entry, input)));
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut round, least) = (0, rounds(name));
    while round < least || Instant::now() < end {
        let mut random = ChaCha8Rng::seed_from_u64(round);
        let mut bytes = inputs[below(&mut random, inputs.len())].clone();
        for _ in 0..1 + below(&mut random, 4) {
            let other = &inputs[below(&mut random, inputs.len())];
            change(&mut bytes, other, &mut random);
        }
        count(feed(name, entry, &bytes));
        round += 1;
    }
    // If nearly all inputs went one way, the other would hardly be tested.
    let few = round / 50;
    assert!(accepted > few && refused > few, "{name}: {accepted} accepted, {refused} refused");
}

#[test]
fn any_bytes_are_accepted_or_refused() {
    let seconds = env::var(SECONDS).map_or(0, |it| it.parse().expect("a number of seconds"));
    // Whichever CPU is free takes the next entry.
    let entries = Mutex::new(ENTRIES.iter());
    let next = || entries.lock().expect("no entry is fed under the lock").next();
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                while let Some((name, entry)) = next() {
                    feed_changed(name, *entry, seconds);
                }
            });
        }
    });
}

/// Before there is a kernel the file is read on a small stack, of which half is in use.
#[test]
fn no_configuration_needs_more_stack_than_boot_has() {
    for input in inputs("config") {
        let small = thread::Builder::new().stack_size(BOOT_STACK_BYTES / 2);
        let reader = small.spawn(move || nile_fuzz::config(&input)).expect("a thread");
        assert!(reader.join().is_ok());
    }
}

#[test]
fn every_entry_has_its_target_and_every_corpus_its_entry() {
    for (name, _) in ENTRIES {
        let target = format!("{}/fuzz_targets/{name}.rs", env!("CARGO_MANIFEST_DIR"));
        assert!(Path::new(&target).is_file() && !inputs(name).is_empty(), "{name}");
    }
    let mut bytes = 0;
    for folder in fs::read_dir(corpus()).expect("there is a corpus") {
        let name = folder.expect("a folder").file_name().into_string().expect("a plain name");
        assert!(ENTRIES.iter().any(|(entry, _)| *entry == name), "{name}");
        bytes += inputs(&name).iter().map(Vec::len).sum::<usize>();
    }
    assert!(bytes < 128 << 10, "{bytes} bytes");
}
