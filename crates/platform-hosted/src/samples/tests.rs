//! Tests of the rings of samples: whole, late, deep, torn and nonsense.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use super::*;

fn frames(number: u64) -> [Frame; 4] {
    let at = number as i64;
    [Frame::Package(at), Frame::Package(-at), Frame::Elsewhere, Frame::Program(number)]
}

/// The numbers of the samples that `reader` gets of core 1, and how many it has lost. Checks that
/// each is of one piece.
fn read(reader: &mut Reader) -> (Vec<u64>, u64) {
    let mut numbers = Vec::new();
    let lost = reader.read(|core, sample| {
        let mode = [Mode::Kernel, Mode::Linux, Mode::Package][sample.periods as usize % 3];
        assert_eq!((core, sample.mode), (CoreId(1), mode));
        assert_eq!(sample.frames, frames(sample.periods));
        numbers.push(sample.periods);
    });
    (numbers, lost)
}

fn write(samples: &Samples, numbers: std::ops::RangeInclusive<u64>) {
    let ring = samples.ring(CoreId(1)).expect("a ring for each core");
    for number in numbers {
        let mode = [Mode::Kernel, Mode::Linux, Mode::Package][number as usize % 3];
        ring.write(number, mode, frames(number).into_iter());
    }
}

fn place() -> (SampleFile, Samples) {
    static PLACES: AtomicU64 = AtomicU64::new(0);
    let number = PLACES.fetch_add(1, Relaxed);
    let name = format!("nile-samples-{}-{number}", std::process::id());
    let file = SampleFile { path: std::env::temp_dir().join(name), hertz: 100 };
    let samples = Samples::create(&file, 2).expect("a file");
    (file, samples)
}

/// The file stays mapped without its name.
fn reader(file: &SampleFile) -> Reader {
    let reader = Reader::open(&file.path).expect("a file");
    std::fs::remove_file(&file.path).expect("it is there");
    reader
}

#[test]
fn samples_come_out_as_they_went_in() {
    let (file, samples) = place();
    assert!(samples.ring(CoreId(2)).is_none());
    write(&samples, 1..=3);
    // What was there before does not count; another process goes on where one has ended.
    let again = Samples::create(&file, 2).expect("the same file");
    let mut reader = reader(&file);
    assert_eq!(read(&mut reader), (vec![], 0));
    write(&again, 4..=6);
    assert_eq!(read(&mut reader), (vec![4, 5, 6], 0));
    let inherited = Samples::inherit(samples.number()).expect("an open file");
    assert_eq!(inherited.hertz, 100);
    write(&inherited, 7..=7);
    assert_eq!(read(&mut reader), (vec![7], 0));
}

#[test]
fn a_reader_that_is_late_knows_what_it_has_lost() {
    let (file, samples) = place();
    let mut reader = reader(&file);
    let slots = SLOTS as u64;
    write(&samples, 1..=slots);
    assert_eq!(read(&mut reader), ((1..=slots).collect(), 0));
    write(&samples, slots + 1..=2 * slots + 7);
    assert_eq!(read(&mut reader), ((slots + 8..=2 * slots + 7).collect(), 7));
}

#[test]
fn deep_stacks_are_cut() {
    let (file, samples) = place();
    let mut reader = reader(&file);
    let ring = samples.ring(CoreId(0)).expect("a ring for each core");
    ring.write(1, Mode::Kernel, (0..).map(Frame::Program));
    let mut seen = Vec::new();
    assert_eq!(reader.read(|_, sample| seen = sample.frames), 0);
    assert_eq!(seen, (0..DEPTH as u64).map(Frame::Program).collect::<Vec<_>>());
}

#[test]
fn nothing_torn_is_read_while_it_is_written() {
    const ALL: u64 = 200_000;
    let (file, samples) = place();
    let mut reader = reader(&file);
    let writer = thread::spawn(move || write(&samples, 1..=ALL));
    let (mut last, mut seen, mut lost) = (0, 0, 0);
    let mut is_over = false;
    while !is_over {
        is_over = writer.is_finished();
        let (numbers, missing) = read(&mut reader);
        assert!(numbers.is_sorted() && numbers.first().is_none_or(|it| *it > last));
        last = numbers.last().copied().unwrap_or(last);
        (seen, lost) = (seen + numbers.len() as u64, lost + missing);
    }
    assert_eq!((seen + lost, last), (ALL, ALL));
}

#[test]
fn nonsense_in_a_file_is_no_sample_and_no_panic() {
    let (file, samples) = place();
    let mut reader = reader(&file);
    for word in samples.rings.words() {
        word.store(u64::MAX - 5, Relaxed);
    }
    let mut seen = 0;
    reader.read(|_, sample| seen += sample.frames.len());
    assert!(seen <= 2 * DEPTH);
    assert!(Reader::open(Path::new("/dev/null")).is_err());
}
