//! What a disk keeps and what it loses.

use super::*;
use nile_abi::PhysAddr;
use nile_ring::Region;

const BYTES: u64 = 64 << 10;

fn drive(faults: DiskFaults) -> Drive {
    Drive::new(0, &DiskOptions { bytes: BYTES, contents: Contents::default(), faults })
}

fn piece(bytes: &[u8]) -> Piece {
    let piece = Piece { at: PhysAddr(0), region: Region::owned(bytes.len()) };
    scatter(bytes, std::slice::from_ref(&piece));
    piece
}

fn write(at: u64, mark: u8, bytes: usize) -> Request {
    Request::Write { at, from: vec![piece(&vec![mark; bytes])] }
}

/// Begins a request, as the kernel does.
fn begin(drive: &mut Drive, request: Request) -> u64 {
    let number = drive.next_request;
    drive.next_request += 1;
    drive.in_flight.insert(number, InFlight { tag: 7, request, after: drive.writes });
    number
}

fn perform(drive: &mut Drive, request: Request, draw: &mut Draw<'_>) -> Result<(), DiskError> {
    let number = begin(drive, request);
    assert!(!drive.end(number, draw));
    let completion = drive.ended.pop_front().expect("it has ended");
    assert_eq!(completion.tag, 7);
    completion.result
}

fn read(drive: &mut Drive, at: u64, bytes: usize, draw: &mut Draw<'_>) -> Vec<u8> {
    let into = vec![piece(&vec![0xee; bytes / 2]), piece(&vec![0xee; bytes / 2])];
    perform(drive, Request::Read { at, into: into.clone() }, draw).expect("it can be read");
    sectors(0, &into).into_iter().flat_map(|(_, bytes)| *bytes).collect()
}

#[test]
fn what_was_written_is_read_and_the_rest_is_zero() {
    let (mut drive, draw) = (drive(DiskFaults::default()), &mut |_| 0);
    perform(&mut drive, write(1024, 5, 1024), draw).expect("it can be written");
    assert_eq!(read(&mut drive, 1024, 1024, draw), [5; 1024]);
    assert_eq!(read(&mut drive, 512, 1024, draw), [[0; 512], [5; 512]].concat());
}

#[test]
fn a_flush_makes_durable_what_had_ended_before_it() {
    let (mut drive, draw) = (drive(DiskFaults::default()), &mut |_| 0);
    perform(&mut drive, write(0, 1, 512), draw).expect("it can be written");
    let flush = begin(&mut drive, Request::Flush);
    perform(&mut drive, write(512, 2, 512), draw).expect("it can be written");
    assert!(!drive.end(flush, draw));
    // Zero: chance leaves nothing.
    let left = drive.lose_power(draw);
    assert_eq!(left.read(0, 1024), [[1; 512], [0; 512]].concat());
}

#[test]
fn without_a_flush_each_sector_is_old_or_new() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..200u64 {
        let mut state = seed;
        let mut draw = |bound| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        let mut drive = drive(DiskFaults::default());
        perform(&mut drive, write(0, 1, 1024), &mut draw).expect("it can be written");
        perform(&mut drive, Request::Flush, &mut draw).expect("it can be flushed");
        perform(&mut drive, write(0, 2, 1024), &mut draw).expect("it can be written");
        begin(&mut drive, write(512, 3, 512));
        let left = drive.lose_power(&mut draw).read(0, 1024);
        assert!(left[..512].iter().all(|byte| *byte == left[0]), "a sector is whole");
        seen.insert((left[0], left[512]));
    }
    let all = [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), all);
}

/// What was discarded is anything until it is written, and can come back when the power fails.
#[test]
fn what_was_discarded_is_anything_and_comes_back_only_if_the_power_fails() {
    let (mut drive, draw) = (drive(DiskFaults::default()), &mut |bound| bound / 3);
    perform(&mut drive, write(0, 5, 2048), draw).expect("it can be written");
    perform(&mut drive, Request::Flush, draw).expect("it can be flushed");
    perform(&mut drive, Request::Discard { at: 512, bytes: 1024 }, draw).expect("it is taken");
    let got = read(&mut drive, 0, 2048, draw);
    assert_eq!((&got[..512], &got[1536..]), (&[5; 512][..], &[5; 512][..]));
    assert!(got[512..1536].iter().all(|byte| ![0, 5].contains(byte)), "{got:?}");
    let left = drive.lose_power(&mut |_| 0).read(0, 2048);
    assert_eq!(left, [5; 2048], "chance left the old");
    perform(&mut drive, Request::Discard { at: 512, bytes: 1024 }, draw).expect("it is taken");
    perform(&mut drive, Request::Flush, draw).expect("it can be flushed");
    perform(&mut drive, write(512, 6, 512), draw).expect("it can be written");
    assert_eq!(read(&mut drive, 512, 512, draw), [6; 512]);
    assert_eq!(drive.lose_power(&mut |_| 0).read(0, 2048)[512..1536], got[512..1536]);
}

#[test]
fn a_disk_that_ignores_flushes_loses_what_was_flushed() {
    let faults = DiskFaults { ignores_flushes: true, ..DiskFaults::default() };
    let (mut drive, draw) = (drive(faults), &mut |_| 0);
    perform(&mut drive, write(0, 1, 512), draw).expect("it can be written");
    perform(&mut drive, Request::Flush, draw).expect("it says so");
    assert_eq!(read(&mut drive, 0, 512, draw), [1; 512]);
    assert_eq!(drive.lose_power(draw), Contents::default());
}

#[test]
fn faults_are_as_the_options_say() {
    let draw: &mut Draw<'_> = &mut |_| 0;
    let mut bad = drive(DiskFaults { bad_bytes: vec![1030], ..DiskFaults::default() });
    let media = Err(DiskError::Media { at: 1024, end: 1536 });
    assert_eq!(perform(&mut bad, write(1024, 1, 512), draw), media);
    assert_eq!(perform(&mut bad, write(1536, 1, 512), draw), Ok(()));

    let mut dying = drive(DiskFaults { fails_after: Some(1), ..DiskFaults::default() });
    assert_eq!(perform(&mut dying, write(0, 1, 512), draw), Ok(()));
    assert_eq!(perform(&mut dying, Request::Flush, draw), Err(DiskError::Failed));

    let faults = DiskFaults { flips_per_million: 1_000_000, ..DiskFaults::default() };
    let mut flipping = drive(faults);
    let flipped: u32 = read(&mut flipping, 0, 1024, draw).iter().map(|it| it.count_ones()).sum();
    assert_eq!(flipped, 1);

    let faults = DiskFaults { misdirected_per_million: 1_000_000, ..DiskFaults::default() };
    let mut misdirected = drive(faults);
    perform(&mut misdirected, write(0, 9, 512), draw).expect("it can be written");
    assert_eq!(read(&mut misdirected, 512 * 3, 512, draw), [9; 512]);

    let mut cut = drive(DiskFaults { cut_at_write: Some(2), ..DiskFaults::default() });
    assert_eq!(perform(&mut cut, write(0, 1, 512), draw), Ok(()));
    let number = begin(&mut cut, write(512, 1, 512));
    assert!(cut.end(number, draw), "the power fails");
    assert_eq!(cut.lose_power(&mut |bound| bound - 1).read(0, 1024)[..512], [1; 512]);
}
